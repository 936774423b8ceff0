"""Problems as people and programs read them."""

from __future__ import annotations

import json

import pytest

from noetl.cli.output.problems import Excerpts, as_json, clipped, plain, rich, tally
from noetl.errors import Mark, Problem, Related
from noetl.views.styled_text import Styled

PROBLEM = Problem(
    "unknown-step",
    "error",
    'arc leads to "valdate"',
    Mark("a.yaml", 2, 9),
    "- step: validate\n  when: true",
    (Related(Mark("a.yaml", 1, 1), "written here"),),
)


def lines(told: list[list[Styled]]) -> list[str]:
    return ["".join(piece.text for piece in line) for line in told]


def test_a_plain_problem_has_its_place_first_then_the_line_a_caret_the_fix_and_related_places() -> None:
    assert lines(list(plain(PROBLEM, Excerpts("workflow:\n  step: valdate\n")))) == [
        'a.yaml:2:9: error: unknown-step: arc leads to "valdate"',
        "    step: valdate",
        "          ^",
        "  fix: - step: validate",
        "         when: true",
        "  see a.yaml:1:1: written here",
    ]


def test_people_get_a_line_number_too() -> None:
    assert lines(list(rich(PROBLEM, Excerpts("workflow:\n  step: valdate\n")))) == [
        "error unknown-step  a.yaml:2:9",
        '  arc leads to "valdate"',
        "     2 │   step: valdate",
        "       │         ^",
        "  fix: - step: validate",
        "         when: true",
        "  see a.yaml:1:1: written here",
        "",
    ]


@pytest.mark.parametrize("line", [0, 2, 99])
def test_a_line_that_is_empty_or_not_there_is_not_shown(line: int) -> None:
    assert Excerpts("a\n\n").at(Mark("a.yaml", line, 1)) is None


def test_lines_end_where_yaml_says_they_end() -> None:
    excerpts = Excerpts("a\r\nb\rc\x85d\u2028e")
    assert [excerpts.at(Mark("", place, 1)) for place in range(1, 6)] == [(word, "^") for word in "abcde"]


@pytest.mark.parametrize(
    ("line", "column", "shown"),
    [
        ("key: value", 6, ("key: value", "     ^")),
        ("世界: x", 5, ("世界: x", "      ^")),
        ("\tkey: \x1b", 7, ("␉key: ␛", "      ^")),
        ("short", 99, ("short", "     ^")),
        ("x" * 100, 1, ("x" * 39 + "…", "^")),
        ("x" * 100, 100, ("…" + "x" * 21, " " * 21 + "^")),
        ("x" * 50 + "y" + "x" * 50, 51, ("…" + "x" * 20 + "y" + "x" * 17 + "…", " " * 21 + "^")),
    ],
)
def test_the_caret_stands_under_the_column_however_long_the_line_is(
    line: str, column: int, shown: tuple[str, str]
) -> None:
    assert clipped(line, column, 40) == shown


def test_a_tally_counts_by_severity() -> None:
    warning = PROBLEM._replace(severity="warning")
    info = PROBLEM._replace(severity="info")
    assert "".join(piece.text for piece in tally([PROBLEM, warning, info, warning])) == ("1 error, 2 warnings, 1 info")
    assert tally([]) == [Styled("no problems", "good")]


def test_json_is_one_array_with_the_optional_parts_only_where_they_are() -> None:
    bare = PROBLEM._replace(fix=None, related=())
    assert json.loads(as_json([PROBLEM, bare])) == [
        {
            "code": "unknown-step",
            "severity": "error",
            "message": 'arc leads to "valdate"',
            "file": "a.yaml",
            "line": 2,
            "column": 9,
            "fix": "- step: validate\n  when: true",
            "related": [{"file": "a.yaml", "line": 1, "column": 1, "note": "written here"}],
        },
        {
            "code": "unknown-step",
            "severity": "error",
            "message": 'arc leads to "valdate"',
            "file": "a.yaml",
            "line": 2,
            "column": 9,
        },
    ]
    assert as_json([]) == "[]"


def test_json_escapes_what_could_forge_text_and_keeps_the_value() -> None:
    message = "\x1b\x9b\u202e → \ud800"
    text = as_json([PROBLEM._replace(message=message)])
    assert "→" in text
    assert text.replace("→", "").isascii()
    assert json.loads(text)[0]["message"] == message
