"""Templates are split into tokens with Jinja2's lexer, and the paths that they read are found."""

from __future__ import annotations

import pytest

from noetl.playbook.dialects import template_tokens


def paths(text: str) -> list[str]:
    return [".".join(reading.path) for reading in template_tokens.free_reads(text)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("no template", []),
        ("{{ a.b['c'][0].d }}", ["a.b.c.0.d"]),
        ("{{ a . b [ 'c' ] }}", ["a.b.c"]),
        ("{{ a[b.c] }}", ["a", "b.c"]),
        ("{{ x | f(y) | g }} {{ x is odd }} {{ x is not none }}", ["x", "y", "x", "x"]),
        ("{{ f(a, b=c) }} {{ not x in y }}", ["a", "c", "x", "y"]),
        ("{{ {'k': v, w: 1} }} {{ 'a.b' ~ \"c\" }}", ["v", "w"]),
        ("{# a #}{% raw %}{{ b }}{% endraw %}{{ c }}", ["c"]),
        ("{% for a, b in c.d %}{{ a }}{{ loop.index }}{{ e }}{% endfor %}", ["c.d", "e"]),
        ("{% set a = b %}{{ a }}", ["b"]),
        ("{% if a %}{{ b }}{% elif c %}{% else %}{% endif %}", ["a", "b", "c"]),
        ("  {{- a -}}  {{ b }}", ["a", "b"]),
    ],
)
def test_paths_are_found_and_nothing_else_is_taken_for_one(text: str, found: list[str]) -> None:
    assert paths(text) == found


@pytest.mark.parametrize("text", ["{{ 'a }}", "{{ a ? b }}", "{{ ) }}"])
def test_text_that_jinja_cannot_tokenize_is_not_parsed(text: str) -> None:
    assert template_tokens.parse(text) is None


def test_text_over_the_limit_is_not_looked_into() -> None:
    assert template_tokens.parse("{{ a }}" + " " * template_tokens.TEMPLATE_CHARS_MAX) is None


@pytest.mark.parametrize(
    ("text", "typed"),
    [(" {{ a }}\n", True), ("{{ a }}b", False), ("{{ a }}{{ b }}", False), ("{% if a %}{% endif %}", False)],
)
def test_one_expression_alone_is_typed_d12(text: str, typed: bool) -> None:
    parsed = template_tokens.parse(text)
    assert parsed is not None
    assert parsed.typed == typed


def test_a_part_knows_its_place_with_its_dot_or_brackets() -> None:
    (reading,) = template_tokens.free_reads("{{ a.b['c'] }}")
    assert [(part.name, part.start, part.end, part.bracketed) for part in reading.parts] == [
        ("b", 4, 6, False),
        ("c", 6, 11, True),
    ]


@pytest.mark.parametrize(
    ("name", "text"), [("a_b", ".a_b"), ("a-b", "['a-b']"), ("é", "['é']"), ("it's \\", "['it\\'s \\\\']")]
)
def test_a_name_is_read_as_an_attribute_or_in_brackets(name: str, text: str) -> None:
    assert template_tokens.attribute(name) == text


def test_the_end_of_a_bracket_is_not_looked_for_without_end() -> None:
    parsed = template_tokens.parse("{{ [" + "1," * 5_000 + "1] }}")
    assert parsed is not None
    assert template_tokens.closing_bracket(parsed.tokens, 1) == template_tokens.BRACKET_TOKENS_MAX
