"""YAML text is read such that it can be written back byte for byte."""

from __future__ import annotations

import pytest

from noetl.playbook.dialects.layout.reader import read
from noetl.playbook.dialects.layout.tree import Formatting, Layout, Leaf, List, Map
from noetl.playbook.dialects.layout.writer import write

TEXTS = [
    "a: 1",
    "a: 1\n",
    "# head\n\na: 1   # tail\n\n# foot\n",
    "--- # begin\n# c\na:\n- - x\n  - y: é\n    z: 'a\n      b'\n-\n  k: v\n...\n",
    "a:   \n  # lead\n  b: &x\n    - 1\n    -   c: 2   # d\n        e: |+\n          x\n\n\n  # deeper\n",
    "a: &x [1]\n\n# less\nz: *x\n",
    "a: &m\n  b: 1\nc: &s\n# inside\n- 1\nd: &t 'x'\n",
    "{a: 1, 'b':[1,2 , {x}, y: 2], \"c\":{}, ? d : e}\n",
    "x: # c\n  5\ny:\n\n  # c2\n  {a: 1,\n   # z\n   b: 2\n  } # e\n",
    "a:\n  b:\n    c: |\n      x\n\n    # deeper\n  # less\nd: >-\n  x\n  y\n",
    "a: |2\n    x\n   y\nb: >+\n  z\n\nc:\n",
    "a:\n  -\n  - ~\n  -   # c\n    x\n",
    "𝄞: 𝄞 # 𝄞\nb: {𝄞: [𝄞]} # 𝄞\n",
    "a: b\r\nc:\r\n  - d # e\r\n",
    "'a b': \"c\\\n  d\"\n",
    "a: [\n  1, # one\n\n  2\n  # two\n]\n",
    "[1, 2]\n",
    "just text\n",
]


def laid_out(text: str) -> Layout:
    layout = read(text, "t.yaml")
    assert layout is not None
    return layout


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_that_is_not_touched_is_written_as_it_was_read(text: str) -> None:
    assert write(laid_out(text)) == text


@pytest.mark.parametrize("text", ["", "# only a comment\n"])
def test_a_text_without_a_value_has_no_layout(text: str) -> None:
    assert read(text, "t.yaml") is None


def test_every_entry_knows_where_it_stood() -> None:
    root = laid_out("a: 1\nb:\n  - c: 2\n").root
    assert isinstance(root, Map)
    items = root.get("b")
    assert isinstance(items, List)
    inner = items.entries[0].value
    assert isinstance(inner, Map)
    assert [root.start, root.entries[1].start, items.entries[0].start, inner.entries[0].start] == [
        0,
        5,
        10,
        12,
    ]


def test_offsets_become_lines_and_columns_from_one() -> None:
    layout = laid_out("a: 1\né: 2\n")
    assert [str(layout.mark(offset)) for offset in (0, 3, 5, 8, -1)] == [
        "t.yaml:1:1",
        "t.yaml:1:4",
        "t.yaml:2:1",
        "t.yaml:2:4",
        "t.yaml:1:1",
    ]


def test_comments_deeper_than_the_next_entry_stay_below_the_preceding_entry() -> None:
    root = laid_out("a:\n  b: 1\n  # of a\n# of c\nc: 2\n").root
    assert isinstance(root, Map)
    assert [(entry.name, entry.lead, entry.after) for entry in root.entries] == [
        ("a", [], ["  # of a"]),
        ("c", ["# of c"], []),
    ]


def test_the_habits_of_the_author_are_those_he_has_most_often() -> None:
    text = "a:\n    b: {c: 1}\n    d:\n    - {e: 1}\n    f: { g: 1 }\n"
    assert laid_out(text).formatting == Formatting(map_indent=4, list_indent=0, pad="", json=False)
    assert laid_out("a: 1\n").formatting == Formatting(map_indent=2, list_indent=2, pad=" ", json=False)
    assert laid_out('{"a": {"b": 1}}').formatting.json
    assert not laid_out('{"a": {b: 1}}').formatting.json


def test_an_alias_is_opaque() -> None:
    root = laid_out("a: &x {b: 1}\nc: *x\n").root
    assert isinstance(root, Map)
    alias = root.get("c")
    assert isinstance(alias, Leaf)
    assert (alias.raw, alias.text, alias.style) == ("*x", "", "*")
    inner = root.map("a")
    assert inner is not None
    assert inner.anchored
