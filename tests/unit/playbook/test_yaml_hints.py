"""Common mistakes in YAML get a message with a fix."""

from __future__ import annotations

import pytest

from noetl.playbook.source import parse

TAB = ("a tab is not allowed here; YAML is indented with spaces", "indent with spaces")
UNFIT = (
    "this line does not match the lines above: its indentation differs, or it mixes a list with keys",
    "indent it like the lines above that it belongs to",
)
COLONS = (
    "`: ` inside a value: the value needs quotes, or its line is indented too far",
    "put the value in quotes, or indent it like the line above",
)
TEMPLATE = ("put the template in quotes; without them YAML reads its braces as a mapping", '"{{ … }}"')


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("a:\n\tb: 1\n", 2, TAB),
        ("a:\n  b: 1\n\tc: 2\n", 3, TAB),
        ("a: |\n  x\n\ty\n", 3, TAB),
        ("ü: ü\na:\n  -\tb: 1\n    c: 2\n", 3, TAB),
        ("a:\n  - b: 1\n   - c: 2\n", 3, UNFIT),
        ("a:\n  - b: 1\n  c: 2\n", 3, UNFIT),
        ("a:\n  b: 1\n c: 2\n", 3, UNFIT),
        ("a:\n  b: 1\n  - c\n", 3, UNFIT),
        ("a: b: c\n", 1, COLONS),
        ("a:\n  b: 1\n   c: 2\n", 3, COLONS),
        ("a: @home\n", 1, ('a value cannot start with "@"', "put it in quotes")),
        ("a: {{ x }}\n", 1, TEMPLATE),
        ("a: 1\nb: [{{ x }}]\n", 2, TEMPLATE),
        ("? [a]\n: 1\n", 1, ("a key must be text, not a list or a mapping", None)),
        ('a: "b\n', 2, ("while scanning a quoted scalar found unexpected end of stream", None)),
    ],
)
def test_a_common_mistake_is_reported_with_a_fix(text: str, line: int, told: tuple[str, str | None]) -> None:
    problem = parse(text).problems[0]
    assert (problem.at.line, problem.message, problem.fix) == (line, *told)


def test_tabs_that_are_no_indentation_are_left_alone() -> None:
    assert parse("a:\t1\nb: [\n\t1, 2]\nc: |\n  x\ty\n").problems == []
