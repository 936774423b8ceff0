"""Methods of text, lists and maps."""

from __future__ import annotations

import pytest

from noetl.template.compile import BadTemplate, TemplateError, compile_template

SCOPE: dict[str, object] = {"s": "a-b-a", "m": {"k": 1, "items": 2}, "l": [1, 2, 1], "n": 5}


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("m.get('k')", 1),
        ("m.get('x')", None),
        ("m.get('x', default=0)", 0),
        ("m.items()", [["k", 1], ["items", 2]]),
        ("m.items", 2),
        ("m.keys()", ["k", "items"]),
        ("m.values()", [1, 2]),
        ("s.split('-')", ["a", "b", "a"]),
        ("s.split('-', 1)[1]", "b-a"),
        ("s.strip('a')", "-b-"),
        ("s.lstrip('a')", "-b-a"),
        ("s.rstrip('a')", "a-b-"),
        ("s.startswith('a-')", True),
        ("s.endswith('x')", False),
        ("'+'.join(l)", "1+2+1"),
        ("s.replace('-', '+', 1)", "a+b-a"),
        ("s.upper().lower().title()", "A-B-A"),
        ("s.capitalize()", "A-b-a"),
        ("s.count('a')", 2),
        ("l.count(1)", 2),
        ("s.find('b')", 2),
        ("s.index('b')", 2),
        ("l.index(2)", 1),
        ("'42'.isdigit()", True),
    ],
)
def test_a_method_returns_its_result(words: str, value: object) -> None:
    assert compile_template("{{ " + words + " }}")(SCOPE) == value


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("n.upper()", 'n is a number, not text, which ".upper()" needs'),
        ("l.items()", 'l is a list, not a map, which ".items()" needs'),
        ("missing.upper()", "missing is undefined"),
        ("m.get(missing)", "missing is undefined"),
        ("s.split(n)", '"split": sep is a number, not text or null'),
        ("l.index(9)", "index: the value is not in the list or text"),
        ("n.count(1)", "the value is a number, not a list, or text with a text as argument"),
    ],
)
def test_a_method_of_another_kind_is_an_error(words: str, message: str) -> None:
    with pytest.raises(TemplateError) as error:
        compile_template("{{ " + words + " }}")(SCOPE)
    assert error.value.message == f'"{{{{ {words} }}}}": {message}'


def test_a_method_that_we_do_not_have_is_a_fault() -> None:
    with pytest.raises(BadTemplate) as bad:
        compile_template("{{ s.uper() }}{{ s.format(1) }}")
    assert [(fault.code, fault.needle) for fault in bad.value.faults] == [
        ("not-allowed", "uper"),
        ("not-allowed", "format"),
    ]
    assert bad.value.faults[0].fix == 'did you mean "upper"?'
