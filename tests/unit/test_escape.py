"""Text of strangers is shown, never obeyed."""

from __future__ import annotations

import pytest

from noetl.escape import one_line, shorten, visible, width, wrap


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("größer → 世界", "größer → 世界"),
        ("\x1b[31mred", "␛[31mred"),
        ("bell\x07", "bell␇"),
        ("a\tb\nc\r", "a␉b␊c␍"),
        ("\x7f", "␡"),
        ("\x9b31m", "\\u009b31m"),
        ("\u202etxt.exe", "\\u202etxt.exe"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("\ud800", "\\ud800"),
        ("👩\u200d🔧", "👩\u200d🔧"),
    ],
)
def test_what_a_terminal_would_obey_is_made_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize(("text", "columns"), [("abc", 3), ("世界", 4), ("e\u0301", 1), ("", 0), ("→", 1)])
def test_wide_characters_take_two_columns_and_combining_ones_none(text: str, columns: int) -> None:
    assert width(text) == columns


def test_one_line_folds_white_space_and_makes_the_rest_visible() -> None:
    assert one_line("  SELECT *\n\t FROM t\x1b ") == "SELECT * FROM t␛"


def test_shortened_text_ends_with_dots_and_keeps_its_length() -> None:
    assert (shorten("abcdef", 6), shorten("abcdefg", 6), shorten("ab cdefg", 4)) == (
        "abcdef",
        "abcde…",
        "ab…",
    )


@pytest.mark.parametrize(
    ("text", "columns", "lines"),
    [
        ("one two three", 7, ["one two", "three"]),
        ("abcdefgh", 3, ["abc", "def", "gh"]),
        ("世界世界", 3, ["世", "界", "世", "界"]),
        ("", 5, [""]),
        ("x " + "y" * 7, 5, ["x", "yyyyy", "yy"]),
    ],
)
def test_text_is_wrapped_at_spaces_and_a_long_word_where_it_must_be(text: str, columns: int, lines: list[str]) -> None:
    assert wrap(text, columns) == lines
