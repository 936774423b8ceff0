"""Trees and tables of lines."""

from __future__ import annotations

import pytest

from noetl.views.tree import Branch, Piece, branches, folded, table


def drawn(tree: list[Branch], columns: int = 40) -> list[str]:
    return ["".join(piece.text for piece in line) for line in branches(tree, columns)]


def test_branches_hang_below_each_other_and_arrows_have_heads() -> None:
    inner = Branch((Piece("inner"),), (Branch((Piece("leaf"),)),))
    assert drawn([Branch((Piece("first"),), (inner,)), Branch((Piece("on"),), arrow=True)]) == [
        "├─ first",
        "│  └─ inner",
        "│     └─ leaf",
        "└→ on",
    ]


def test_a_long_line_is_folded_and_moved_in() -> None:
    assert drawn([Branch((Piece("one two three four five six"),), (Branch((Piece("below"),)),))], 25) == [
        "└─ one two three four",
        "   │ five six",
        "   └─ below",
    ]


def test_columns_of_a_table_are_as_wide_as_their_widest_cell() -> None:
    rows = [(Piece("a"), Piece("bb"), Piece("c")), (Piece("世界"), Piece("b"), Piece("long enough"))]
    assert ["".join(piece.text for piece in line) for line in table(rows)] == [
        "  a     bb  c",
        "  世界  b   long enough",
    ]
    assert list(table([])) == []


@pytest.mark.parametrize(
    ("pieces", "columns", "lines"),
    [
        ([Piece("a b c")], 3, [[Piece("a b")], [Piece("c")]]),
        ([Piece("ab", "name"), Piece(" cd")], 20, [[Piece("ab", "name"), Piece(" cd")]]),
        ([Piece("ab", "name"), Piece(" cd")], 4, [[Piece("ab", "name"), Piece("")], [Piece("cd")]]),
        ([Piece("abcdef")], 4, [[Piece("abcd")], [Piece("ef")]]),
        ([], 10, [[]]),
    ],
)
def test_pieces_are_folded_at_spaces_and_keep_their_style(
    pieces: list[Piece], columns: int, lines: list[list[Piece]]
) -> None:
    assert folded(pieces, columns) == lines
