"""Characters of a value are replaced without changing its quotes, escapes and lines."""

from __future__ import annotations

import pytest

from noetl.playbook.dialects.layout.reader import read
from noetl.playbook.dialects.layout.scalars import Finder, TextEdit, decode, replace
from noetl.playbook.dialects.layout.tree import Leaf, leaves

RAWS = [
    "plain é text",
    '"x \\"q\\" \\u00e9\\x41\\t \\\n   more\n   folded\n\n   twice"',
    "'it''s\n   so'",
    "|\n  x\n   y\n\n  z",
    "|-  # why\n  x\n  é y",
    "|+\n  x\n\n\n",
    ">\n  x\n  y\n\n  z\n   i\n  j",
    ">-\n  x\n  y",
    "|1\n   x\n  y",
    "multi\n  line\n\n  plain",
    '&anchor "x"',
]


def leaf(raw: str) -> Leaf:
    layout = read(f"a: {raw}\n", "t.yaml")
    assert layout is not None
    (found,) = leaves(layout.root)
    return found


@pytest.mark.parametrize("raw", RAWS)
def test_every_letter_of_a_value_can_be_replaced_in_every_style(raw: str) -> None:
    before = leaf(raw)
    assert decode(before) is not None
    for place, char in enumerate(before.text):
        if char.isalpha():
            after = replace(before, [TextEdit(place, place + 1, "x\"'\\"[: 1 + place % 4])])
            assert after.style == before.style
            assert leaf(after.raw).text == after.text


def test_characters_that_are_not_replaced_keep_their_escapes() -> None:
    after = replace(leaf('"\\u00e9 outcome \\x41"'), [TextEdit(2, 9, "output")])
    assert (after.raw, after.text) == ('"\\u00e9 output \\x41"', "é output A")


def test_changes_may_insert_and_drop() -> None:
    after = replace(leaf("abc"), [TextEdit(3, 3, "!"), TextEdit(0, 0, "¡"), TextEdit(1, 2, "")])
    assert (after.raw, after.text) == ("¡ac!", "¡ac!")


def test_a_style_that_is_not_understood_is_put_in_quotes() -> None:
    strange = Leaf(raw='"\\q"', text="q", style='"')
    assert decode(strange) is None
    assert replace(strange, [TextEdit(0, 1, "r")]).raw == '"r"'


def test_the_place_of_a_character_is_found_in_the_text() -> None:
    finder = Finder(leaf('"\\u00e9 x"'))
    assert [finder.offset(place) for place in (0, 1, 2, 99)] == [4, 10, 11, 11]
    assert Finder(leaf("''")).offset(0) == 3
