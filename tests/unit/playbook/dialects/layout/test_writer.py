"""Moved, added and removed parts keep their comments and are valid YAML."""

from __future__ import annotations

from noetl.playbook.dialects.layout.reader import read
from noetl.playbook.dialects.layout.tree import Layout, List, Map, item, pair, plain, table
from noetl.playbook.dialects.layout.writer import shift, write


def laid_out(text: str) -> tuple[Layout, Map]:
    layout = read(text, "t.yaml")
    assert layout is not None
    assert isinstance(layout.root, Map)
    return layout, layout.root


def test_a_block_that_is_moved_deeper_takes_all_its_lines_along() -> None:
    layout, root = laid_out(
        "a:\n  # above\n  b: |\n    x\n\n     y\n  c: [1,\n      2]  # two\n  # below\nd:\n  e: 1\n"
    )
    moved = root.take("a")
    assert moved is not None
    inner = root.map("d")
    assert inner is not None
    inner.entries.append(moved)
    assert write(layout) == (
        "d:\n  e: 1\n  a:\n    # above\n    b: |\n      x\n\n       y\n    c: [1,\n        2]  # two\n    # below\n"
    )


def test_white_space_that_ends_a_block_scalar_moves_with_it() -> None:
    layout, root = laid_out("a: |\n  x\n    \nb:\n  c: 1\n")
    moved = root.take("a")
    assert moved is not None
    inner = root.map("b")
    assert inner is not None
    inner.entries.append(moved)
    assert write(layout) == "b:\n  c: 1\n  a: |\n    x\n      \n"


def test_new_numbers_in_a_json_document_get_no_quotes() -> None:
    layout, root = laid_out('{"a": 1}\n')
    root.entries += [pair("b", plain("2.5")), pair("c", plain("1.2.3"))]
    assert write(layout) == '{"a": 1, "b": 2.5, "c": "1.2.3"}\n'


def test_a_block_that_is_moved_outwards_loses_only_indentation() -> None:
    layout, root = laid_out("a:\n    b:\n        c: 'x\n\n          y'\n        d:\n          # z\n          - 1\n")
    inner = root.map("a")
    assert inner is not None
    root.entries = inner.entries
    assert write(layout) == "b:\n    c: 'x\n\n      y'\n    d:\n      # z\n      - 1\n"


def test_new_entries_look_like_those_around_them() -> None:
    layout, root = laid_out("a:\n    b: 1\nc:\n- d\n")
    root.entries.append(pair("e", Map(entries=[pair("f", List(entries=[item(table(g=plain("1")))]))])))
    assert write(layout) == "a:\n    b: 1\nc:\n- d\ne:\n    f:\n    - g: 1\n"


def test_in_flow_style_commas_follow_added_and_removed_entries() -> None:
    layout, root = laid_out("a: { b: 1, c: 2 }\n")
    inner = root.map("a")
    assert inner is not None
    inner.entries.insert(0, pair("x", plain("0")))
    assert write(layout) == "a: { x: 0, b: 1, c: 2 }\n"
    inner.take("x")
    inner.take("b")
    assert write(layout) == "a: { c: 2 }\n"
    inner.entries.append(pair("y", table(z=plain("3"))))
    assert write(layout) == "a: { c: 2, y: { z: 3 } }\n"
    inner.entries = []
    assert write(layout) == "a: { }\n"


def test_braces_over_several_lines_stay_over_several_lines() -> None:
    layout, root = laid_out('{\n  "a": 1,\n  "b": 2\n}\n')
    root.entries.insert(0, pair("x", plain("word")))
    root.entries.append(pair("y", plain("true")))
    assert write(layout) == '{\n  "x": "word",\n  "a": 1,\n  "b": 2,\n  "y": true\n}\n'


def test_braces_open_into_lines_when_something_comes_in_that_needs_lines() -> None:
    layout, root = laid_out("a: {b: 1, # one\n    c: [2]}  # tail\nd:\n  - e: |\n      x\n")
    inner = root.map("a")
    moved = root.take("d")
    assert inner is not None
    assert moved is not None
    inner.entries.append(moved)
    assert write(layout) == "a:  # tail\n  b: 1\n  # one\n  c: [2]\n  d:\n    - e: |\n        x\n"


def test_lines_above_the_first_entry_of_an_item_move_above_its_dash() -> None:
    layout, root = laid_out("a:\n  - b: 1\n    # of c\n    c: 2\n")
    items = root.get("a")
    assert isinstance(items, List)
    inner = items.entries[0].value
    assert isinstance(inner, Map)
    inner.take("b")
    assert write(layout) == "a:\n  # of c\n  - c: 2\n"


def test_shifting_leaves_the_first_line_and_blank_lines_alone() -> None:
    assert shift("a\n  b\n\n c", 2) == "a\n    b\n\n   c"
    assert shift("a\n    b\n\n c", -2) == "a\n  b\n\nc"
