"""Functions for parts of a Layout: names, quotes, comments."""

from __future__ import annotations

import pytest

from noetl.playbook.dialects.layout.tree import (
    LayoutEntry,
    Leaf,
    append_comment,
    comments,
    leaves,
    name_leaf,
    pair,
    plain,
    prefix_key,
    quoted,
    rename,
    set_value,
    table,
    to_block,
)


@pytest.mark.parametrize(
    ("text", "raw"),
    [
        ("{{ a }}", '"{{ a }}"'),
        ('say "x"', "'say \"x\"'"),
        ('it\'s "x"', '"it\'s \\"x\\""'),
        ("a\\b\n", '"a\\\\b\\n"'),
    ],
)
def test_text_is_put_into_the_quotes_that_need_the_fewest_escapes(text: str, raw: str) -> None:
    assert (quoted(text).raw, quoted(text).text) == (raw, text)


@pytest.mark.parametrize(("text", "raw"), [("a_b-c", "a_b-c"), ("true", '"true"'), ("a: b", '"a: b"'), ("1", '"1"')])
def test_a_word_is_bare_only_where_yaml_reads_it_as_text(text: str, raw: str) -> None:
    assert name_leaf(text).raw == raw


def test_a_key_is_renamed_and_lengthened_inside_its_quotes() -> None:
    entry = LayoutEntry(key=Leaf(raw="'a'", text="a", style="'"), value=plain("1"))
    prefix_key(entry, "ctx.")
    assert entry.key is not None
    assert (entry.key.raw, entry.name) == ("'ctx.a'", "ctx.a")
    rename(entry, "b")
    assert (entry.key.raw, entry.name) == ("'b'", "b")


def test_a_new_value_goes_below_the_line_and_the_comment_stays_on_it() -> None:
    entry = LayoutEntry(key=plain("a"), gap=": ", value=plain("1"), tail="  # why")
    set_value(entry, table(b=plain("2")))
    assert (entry.gap, entry.tail) == (":  # why", "")


def test_a_comment_behind_an_entry_takes_it_out_of_braces() -> None:
    entry = LayoutEntry(key=plain("a"), value=plain("1"), flow=True, glue=", # before\n  ", gap=":")
    append_comment(entry, "  # behind")
    append_comment(entry, "# and more")
    assert (entry.flow, entry.lead, entry.gap, entry.tail) == (
        False,
        ["# before"],
        ": ",
        "  # behind  # and more",
    )


def test_a_block_entry_is_unchanged() -> None:
    entry = LayoutEntry(key=plain("a"), value=plain("1"), gap=":   ", base=4)
    to_block(entry)
    assert (entry.gap, entry.base) == (":   ", 4)


def test_leaves_are_all_values_without_parts_and_no_keys() -> None:
    assert [leaf.text for leaf in leaves(table(a=plain("1"), b=table(c=plain("2"))))] == ["1", "2"]


def test_comments_are_found_between_values_in_braces() -> None:
    assert comments(", # one\n  # two\n  ") == ["# one", "# two"]


def test_null_differs_from_the_quoted_word() -> None:
    assert [plain("").null, plain("~").null, quoted("null").null, plain("x").null] == [
        True,
        True,
        False,
        False,
    ]


def test_a_pair_with_parts_has_its_value_below() -> None:
    assert (pair("a", plain("1")).gap, pair("a", table()).gap) == (": ", ":")
