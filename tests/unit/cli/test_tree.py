"""Trees and tables of lines."""

from __future__ import annotations

from noetl.cli.screen import Piece
from noetl.cli.tree import Branch, branches, table


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
