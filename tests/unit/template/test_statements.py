"""Text with expressions, {% if %} and {% for %} in it."""

from __future__ import annotations

import jinja2
import pytest

from noetl.template.compile import BadTemplate, TemplateError, compile_template

SCOPE: dict[str, object] = {
    "rows": [{"id": 1, "n": "a"}, {"id": 2, "n": "b"}, {"id": 3, "n": "a"}],
    "m": {"x": 1, "y": 2},
    "s": "ab",
    "none_": [],
    "on": "No",
    "v": 5,
}


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("a {{ v }} b", "a 5 b"),
        ("{{ v }}{{ s }}", "5ab"),
        ("{{ rows[0] }}!", '{"id":1,"n":"a"}!'),
        ("{{ true }} {{ none }} {{ [1,2] }}", "true null [1,2]"),
        ("a{# {{ gone }} #}b", "ab"),
        ("{% raw %}{{ v }}{% endraw %} {{ v }}", "{{ v }} 5"),
        ("{{ v }}\n", 5),
        ("x{{ v }}\n", "x5\n"),
        ("x\r\n{{ v }}\r\n", "x\r\n5\r\n"),
        ("{# c #}{{ v }}", "5"),
        ("  a {{- v -}}  b", "  a5b"),
    ],
)
def test_values_inside_text_are_written_as_json_d12(source: str, text: object) -> None:
    assert compile_template(source)(SCOPE) == text


@pytest.mark.parametrize(
    "source",
    [
        "{% if v == 5 %}a{% endif %}",
        "{% if v == 4 %}a{% elif v == 5 %}b{% else %}c{% endif %}",
        "{% if gone %}a{% else %}c{% endif %}",
        "{% for r in rows %}{{ r.id }}:{{ loop.index }}/{{ loop.length }} {% endfor %}",
        "{% for r in rows %}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{% endfor %}",
        "{% for r in rows %}{{ '<' if loop.first else ',' }}{{ '>' if loop.last else '' }}{% endfor %}",
        "{% for r in rows if r.id != 2 %}{{ r.n }}{{ loop.index }}{{ loop.length }}{% endfor %}",
        "{% for r in none_ %}a{% else %}nothing{% endfor %}",
        "{% for k in m %}{{ k }}{% endfor %}",
        "{% for k, v in m.items() %}{{ k }}={{ v }};{% endfor %}{{ v }}",
        "{% for k, v in m|dictsort(reverse=true) %}{{ k }}={{ v }};{% endfor %}",
        "{% for c in s %}[{{ c }}]{% endfor %}",
        "{% for n, l in rows|groupby('n') %}{{ n }}{{ l|length }}{% endfor %}",
        "{% for g in rows|groupby('n') %}{{ g.grouper }}{{ g.list|length }}{% endfor %}",
        "{% for r in rows %}{% for c in s %}{{ c }}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}",
        "{% for r in rows %}{% for r in s %}{{ r }}{% endfor %}{{ r.id }}{% endfor %}",
        "{%- for r in rows %}\n  {{ r.id }}\n{%- endfor %}\n",
        "{% for i in range(3) %}{% if i is odd %}{{ i }}{% endif %}{% endfor %}",
    ],
)
def test_statements_write_the_same_text_as_jinja_d13(source: str) -> None:
    theirs = jinja2.Environment(keep_trailing_newline=True).from_string(source).render(**SCOPE)
    assert compile_template(source, statements=True)(SCOPE) == theirs


def test_a_condition_follows_our_truth_d15() -> None:
    assert compile_template("{% if on %}a{% else %}b{% endif %}", statements=True)(SCOPE) == "b"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("a {{ v }} {{ gone.x }}", '"{{ gone.x }}": gone.x is undefined'),
        (
            "{% if v < 'a' %}{% endif %}",
            "\"{% if v < 'a' %}\": a number and text have no order; compare two numbers or two texts",
        ),
        ("{% if no %}{% elif 1/0 %}{% endif %}", '"{% elif 1/0 %}": division by zero'),
        ("{% for a in gone %}{% endfor %}", '"{% for a in gone %}": gone is undefined'),
        ("{% for a in v %}{% endfor %}", '"{% for a in v %}": a loop needs a list, not a number'),
        ("{% for a in s if 1/0 %}{% endfor %}", '"{% for a in s if 1/0 %}": division by zero'),
        ("{% for r in rows %}\n{{ r.gone }}{% endfor %}", '"{{ r.gone }}": r.gone is undefined'),
        (
            "{% for a, b in s %}{% endfor %}",
            '"{% for a, b in s %}{% endfor %}": the loop has 2 variables, but an item is text',
        ),
        (
            "{% for a, b in [[1]] %}{% endfor %}",
            '"{% for a, b in [[1]] %}{% endfor %}": the loop has 2 variables, but an item is a list of 1',
        ),
    ],
)
def test_an_error_repeats_the_words_of_its_own_tag(source: str, message: str) -> None:
    with pytest.raises(TemplateError) as error:
        compile_template(source, statements=True)(SCOPE)
    assert error.value.message == message


@pytest.mark.parametrize("name", ["if", "for"])
def test_statements_are_allowed_only_in_text_fields_d13(name: str) -> None:
    source = "{% if a %}{% endif %}" if name == "if" else "{% for a in b %}{% endfor %}"
    with pytest.raises(BadTemplate) as bad:
        compile_template(source)
    assert [(fault.code, fault.needle) for fault in bad.value.faults] == [("not-allowed", name)]


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("{% set a = 1 %}", ["set"]),
        ("{% set a %}b{% endset %}", ["set"]),
        ("{% macro a() %}{% endmacro %}", ["macro"]),
        ("{% call a() %}{% endcall %}", ["call"]),
        ("{% filter upper %}a{% endfilter %}", ["filter"]),
        ("{% include 'a' %}", ["include"]),
        ("{% import 'a' as b %}", ["import"]),
        ("{% from 'a' import b %}", ["from"]),
        ("{% extends 'a' %}", ["extends"]),
        ("{% block a %}{% endblock %}", ["block"]),
        ("{% with %}{% endwith %}", ["with"]),
        ("{% autoescape true %}{% endautoescape %}", ["autoescape"]),
        ("{% print a %}", ["print"]),
        ("{% for a in b recursive %}{% endfor %}", ["for … recursive"]),
        ("{% for a in b %}{{ loop.previtem }}{% endfor %}", ["previtem"]),
        ("{% for a in b %}{% set c = 1 %}{% else %}{% include 'a' %}{% endfor %}", ["set", "include"]),
    ],
)
def test_every_other_statement_is_refused_d13(source: str, names: list[str]) -> None:
    with pytest.raises(BadTemplate) as bad:
        compile_template(source, statements=True)
    assert [(fault.code, fault.needle) for fault in bad.value.faults] == [("not-allowed", name) for name in names]


def test_a_loop_is_paid_for_turn_by_turn() -> None:
    with pytest.raises(TemplateError, match="FUEL_MAX"):
        compile_template("{% for a in b %}{% for c in b %}{% endfor %}{% endfor %}", statements=True)(
            {"b": [0] * 1_000}
        )
