"""Trees and tables of lines."""

from __future__ import annotations

import pytest

from noetl.views.styled_text import Styled, TreeBranch, branches, folded, table


def drawn(tree: list[TreeBranch], columns: int = 40) -> list[str]:
    return ["".join(piece.text for piece in line) for line in branches(tree, columns)]


def test_branches_hang_below_each_other_and_arrows_have_heads() -> None:
    inner = TreeBranch((Styled("inner"),), (TreeBranch((Styled("leaf"),)),))
    assert drawn([TreeBranch((Styled("first"),), (inner,)), TreeBranch((Styled("on"),), arrow=True)]) == [
        "├─ first",
        "│  └─ inner",
        "│     └─ leaf",
        "└→ on",
    ]


def test_a_long_line_is_folded_and_moved_in() -> None:
    assert drawn(
        [TreeBranch((Styled("one two three four five six"),), (TreeBranch((Styled("below"),)),))],
        25,
    ) == [
        "└─ one two three four",
        "   │ five six",
        "   └─ below",
    ]


def test_columns_of_a_table_are_as_wide_as_their_widest_cell() -> None:
    rows = [
        (Styled("a"), Styled("bb"), Styled("c")),
        (Styled("世界"), Styled("b"), Styled("long enough")),
    ]
    assert ["".join(piece.text for piece in line) for line in table(rows)] == [
        "  a     bb  c",
        "  世界  b   long enough",
    ]
    assert list(table([])) == []


@pytest.mark.parametrize(
    ("pieces", "columns", "lines"),
    [
        ([Styled("a b c")], 3, [[Styled("a b")], [Styled("c")]]),
        (
            [Styled("ab", "name"), Styled(" cd")],
            20,
            [[Styled("ab", "name"), Styled(" cd")]],
        ),
        (
            [Styled("ab", "name"), Styled(" cd")],
            4,
            [[Styled("ab", "name"), Styled("")], [Styled("cd")]],
        ),
        ([Styled("abcdef")], 4, [[Styled("abcd")], [Styled("ef")]]),
        ([], 10, [[]]),
    ],
)
def test_pieces_are_folded_at_spaces_and_keep_their_style(
    pieces: list[Styled], columns: int, lines: list[list[Styled]]
) -> None:
    assert folded(pieces, columns) == lines
