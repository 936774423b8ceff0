"""The canonical layout: what moves, and what stays as the author wrote it."""

from __future__ import annotations

import pytest

from noetl.errors import PlaybookError
from noetl.playbook.format import format_text
from noetl.playbook.source import Path

TEMPLATES: frozenset[Path] = frozenset({("a",), ("b",)})


def formatted(text: str, templates: frozenset[Path] = frozenset()) -> str:
    made = format_text(text, "t.yaml", templates)
    assert made.supported
    assert format_text(made.text, "t.yaml", templates).text == made.text
    return made.text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:\n    b:\n        c: 1\n", "a:\n  b:\n    c: 1\n"),
        ("a:\n- 1\n-   2\n", "a:\n  - 1\n  - 2\n"),
        ("a:\n  -\n    b: 1\n    c: 2\n", "a:\n  - b: 1\n    c: 2\n"),
        ("a:\n- - 1\n  - 2\n", "a:\n  - - 1\n    - 2\n"),
        ("a:   1\nb:\n    2\n", "a: 1\nb: 2\n"),
        ("a: {b: 1,c: [ 1,2 ] , d: { } }\n", "a: { b: 1, c: [1, 2], d: {} }\n"),
        ("a: {\n    b: 1,  \n    c: 2\n  }\n", "a: {\n    b: 1,\n    c: 2\n  }\n"),
        ("a: {b: , c}\n", "a: { b: , c }\n"),
        ("a: 'x'\nb: \"y\"\nc: z\n", "a: 'x'\nb: \"y\"\nc: z\n"),
        ("a: |\n      x\n        y\n\n\nb: 1\n", "a: |\n  x\n    y\n\nb: 1\n"),
        ("a:\n    b: |2\n        x\n", "a:\n  b: |2\n      x\n"),
        ("a: >-   # why\n     x\n", "a: >-   # why\n  x\n"),
        ("a: 1   \n\n\n\nb: 2", "a: 1\n\nb: 2\n"),
        ("\n\n# top\n\n\na:\n\n  b: 1\n\n\n", "# top\n\na:\n  b: 1\n"),
        ("a: &x   # anchored\n    b: 1\nc: *x\n", "a: &x # anchored\n  b: 1\nc: *x\n"),
        ("a: one\n       two\n", "a: one\n       two\n"),
        ("---\na: 1\n...\n", "---\na: 1\n...\n"),
        ("a: 1\r\nb:\r\n    c: 2\r\n", "a: 1\r\nb:\r\n  c: 2\r\n"),
    ],
)
def test_the_layout(text: str, expected: str) -> None:
    assert formatted(text) == expected


def test_comments_move_with_what_they_were_written_under() -> None:
    text = (
        "a:    # of a\n"
        "        # above b\n"
        "    b:\n"
        "          c: 1   # of c\n"
        "          # below c\n"
        "    # below b\n"
        "# above d\n"
        "d: 2\n"
        "  # the end\n"
    )
    assert formatted(text) == (
        "a: # of a\n  # above b\n  b:\n    c: 1 # of c\n    # below c\n  # below b\n# above d\nd: 2\n# the end\n"
    )


def test_a_blank_line_separates_sections_and_steps_of_several_lines() -> None:
    text = (
        "kind: Playbook\nmetadata: {name: x}\nworkload: {a: 1}\nworkflow:\n"
        "- step: start\n- step: a\n# about b\n- step: b\n  tool: {kind: noop}\n- step: c\n"
    )
    assert formatted(text) == (
        "kind: Playbook\nmetadata: { name: x }\n\nworkload: { a: 1 }\n\nworkflow:\n"
        "  - step: start\n  - step: a\n\n  # about b\n  - step: b\n    tool: { kind: noop }\n\n  - step: c\n"
    )


def test_a_blank_line_that_would_be_part_of_a_text_is_not_written() -> None:
    text = "workflow:\n  - step: a\n    desc: |+\n      x\n  - step: b\n    desc: y\n"
    assert formatted(text) == text


def test_templates_get_one_space_inside_their_braces() -> None:
    text = 'a: "{{x}} {{-  y|int-}} {% if z%}{{ {1: 2}}}{%endif%} {#c#}"\nb: |\n  {{x\n  }}\nc: "{{x}}"\n'
    assert formatted(text, TEMPLATES) == (
        'a: "{{ x }} {{- y|int -}} {% if z %}{{ {1: 2} }}{% endif %} {#c#}"\nb: |\n  {{ x\n  }}\nc: "{{x}}"\n'
    )


def test_strings_in_a_template_keep_their_braces() -> None:
    text = 'a: "{{ \'{{x}}\' ~ \\"}}\\" }}"\n'
    assert formatted(text, TEMPLATES) == text


def test_a_layout_that_is_not_supported_stays_as_it_is() -> None:
    text = "x:   1\n? a\n:   1\n"
    assert format_text(text) == (text, False)


def test_invalid_yaml_is_refused() -> None:
    with pytest.raises(PlaybookError) as caught:
        format_text("a: [1\nb: 2\n", "t.yaml")
    assert [problem.code for problem in caught.value.problems] == ["yaml-syntax"]
