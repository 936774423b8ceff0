"""A guard that is text around templates is recognised, and rewritten as one expression (D118)."""

from __future__ import annotations

import pytest

from noetl.template.compile import compile_template
from noetl.template.guards import as_one_expression, is_text_around


@pytest.mark.parametrize(
    ("source", "made"),
    [
        ("{{ a }} == b", "{{ a == 'b' }}"),
        ("{{ workload.action }} == validate-install", "{{ workload.action == 'validate-install' }}"),
        ("{{ a }} != 'x y'", "{{ a != 'x y' }}"),
        ('{{ a }} == "b"', '{{ a == "b" }}'),
        ("{{ a }} >= 1.5", "{{ a >= 1.5 }}"),
        ("{{ a }} == True", "{{ a == true }}"),
        ("{{ a }} == null", "{{ a == none }}"),
        ("{{ a }} and {{ b }}", "{{ a and b }}"),
        ("not {{ a }}", "{{ not a }}"),
        ("{{ a or b }} and {{ c > 1 }}", "{{ (a or b) and (c > 1) }}"),
        ("{{ a | default(0) }} > 3", "{{ a | default(0) > 3 }}"),
        ("{{ a }} in [x, y]", "{{ a in [ 'x' , 'y' ] }}"),
        ("{{ a }}{# note #} == b", "{{ a == 'b' }}"),
        ("yes {{ a }}", None),
        ("{{ a }}{{ b }}", None),
        ("{{ a }} == ", None),
    ],
)
def test_text_around_a_template_becomes_one_expression_d118(source: str, made: str | None) -> None:
    assert is_text_around(compile_template(source))
    assert as_one_expression(source) == made


@pytest.mark.parametrize("source", ["{{ a == 'b' }}", "  {{ a }}\n", "{# note #}{{ a }}", "{{ '{{ a }} == b' }}"])
def test_one_expression_is_no_text_around_a_template_d118(source: str) -> None:
    assert not is_text_around(compile_template(source))
