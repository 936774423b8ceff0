"""Parsing: messages of Jinja2's parser, and templates that are rejected before they are parsed."""

from __future__ import annotations

import pytest

from noetl.template import nodes
from noetl.template.jinja import tag_sources
from noetl.template.nodes import TemplateStatement
from noetl.template.syntax import BadTemplate, Fault, parse


@pytest.mark.parametrize(
    ("source", "message", "line"),
    [
        ("{{ a", 'the template has no closing "}}"', 1),
        ("a\n{{ }}", 'the expression is not complete: a value is missing before "}}"', 2),
        ("{{ 1 + }}", 'the expression is not complete: a value is missing before "}}"', 1),
        ("{{ workload.n }", 'unexpected "}": a template ends with "}}"', 1),
        ("{{ (1 }}", '")" is missing before "}"', 1),
        ("{{ workload.a. }}", 'a name is missing after "."', 1),
        ("{{ a | }}", 'a name is missing before "}}"', 1),
        ("{{ a b }}", 'unexpected "b" where the expression ends', 1),
        ("{{ 'a }}", "a text that begins with ' has no closing quote", 1),
        ('{{ "a }}', 'a text that begins with " has no closing quote', 1),
        ("{{ a $ b }}", 'unexpected "$"', 1),
        ("{{ a ? b : c }}", 'unexpected "?": instead of "a ? b : c" write "b if a else c"', 1),
        ("{% if a b %}{% endif %}", "expected token \"%}\", got 'b'", 1),
        ("{% frob %}", "encountered unknown tag 'frob'", 1),
        ("{{ 1" + "1" * 5_000 + " }}", "a number has too many digits", 1),
        ("\n{{ " + "(" * 40 + " }}", "the template is nested too deeply (limit NESTING_MAX: 32)", 2),
        ("{{ " + "1+" * 2_000 + "1 }}", "the template is too long (limit TOKENS_MAX: 3,000)", 1),
        ("x" * 70_000, "the template has 70,000 characters (limit TEMPLATE_CHARS_MAX: 65,536)", 1),
    ],
)
def test_a_template_that_cannot_be_parsed_has_one_fault(source: str, message: str, line: int) -> None:
    with pytest.raises(BadTemplate) as bad:
        parse(source)
    assert bad.value.faults == (Fault("bad-template", message, line),)


@pytest.mark.parametrize(
    ("source", "fix"),
    [
        ("{{ a && b }}", "and"),
        ("{{ a || b }}", "or"),
        ("{{ !a }}", "not"),
        ("{{ a === 1 }}", "=="),
        ("{{ a !== 1 }}", "!="),
        ("{{ a = 1 }}", "=="),
        ("{{ 'x && y' ~ ) }}", None),
        ("{{ a != ) }}", None),
        ("a && b {{ ) }}", None),
    ],
)
def test_an_operator_of_another_language_has_a_fix(source: str, fix: str | None) -> None:
    with pytest.raises(BadTemplate) as bad:
        parse(source)
    (fault,) = bad.value.faults
    assert (fault.fix, f"write {fix}" in fault.message) == (fix, fix is not None)


def test_thirty_brackets_are_not_too_deep() -> None:
    assert parse("{{ " + "(" * 30 + "1" + ")" * 30 + " }}") == parse("{{ 1 }}")


def test_many_signs_that_are_not_nested_are_fine() -> None:
    tree = parse("{{ " + " and ".join(["not a - b"] * 100) + " }}")
    rest = [*tree.body]
    found = 0
    while rest:
        each = rest.pop()
        found += isinstance(each, nodes.NotNode)
        rest.extend(each.children())
    assert found == 100


def test_blocks_that_follow_each_other_are_not_nested() -> None:
    tree = parse("{% if a %}{% for b in c %}{% endfor %}{% else %}{% endif %}" * 100)
    assert len(tree.body) == 100


def test_statements_are_listed_with_their_lines() -> None:
    found = parse("{% if a %}\n{% print b %}{% endif %}{% raw %}{% x %}{% endraw %}").statements
    assert found == (TemplateStatement("if", 1), TemplateStatement("print", 2))


def test_carriage_returns_and_the_last_line_break_survive() -> None:
    syntax = parse("a\r\n{{ 'b\r' }}\r\n")
    [output] = syntax.body
    assert isinstance(output, nodes.OutputNode)
    assert syntax.cr_stand_in is not None
    texts = [part.data for part in output.nodes if isinstance(part, nodes.TemplateDataNode)]
    assert [text.replace(syntax.cr_stand_in, "\r") for text in texts] == ["a\r\n", "\r\n"]


def test_tags_are_given_in_the_authors_words() -> None:
    source = (
        "x {{ a\n.b }} {# {{ c }} #}{% for d in\te %}{{- d -}}{% if f %}{% elif g %}{% else %}{% endif %}{% endfor %}"
    )
    assert tag_sources(source) == ["{{ a .b }}", "{% for d in e %}", "{{ d }}", "{% if f %}", "{% elif g %}"]
