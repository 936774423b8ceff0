"""Expressions: literals, truth, choice, and the nodes that are not allowed."""

from __future__ import annotations

import pytest

from noetl.template.compile import BadTemplate, Fault, TemplateError, compile_template

SCOPE: dict[str, object] = {"ctx": {"a": 1, "s": "x", "no": "No", "l": [1], "z": None}}


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("'a' \"b\"", "ab"),
        ("1_000", 1000),
        ("0x10", 16),
        ("1.5e3", 1500.0),
        ("true", True),
        ("None", None),
        ("[1, 'a', [none]]", [1, "a", [None]]),
        ("(1, 2)", [1, 2]),
        ("1, 2", [1, 2]),
        ("()", []),
        ("[ctx.a, ctx.s]", [1, "x"]),
        ("{'a': 1, 'b': ctx.s}", {"a": 1, "b": "x"}),
        ("{ctx.s: 1}", {"x": 1}),
        ("ctx.a ~ ctx.l ~ none ~ true ~ 'é'", "1[1]nulltrueé"),
        ("1 if ctx.a else 2", 1),
        ("1 if ctx.no else 2", 2),
        ("1 if ctx.missing else 2", 2),
    ],
)
def test_an_expression_keeps_the_type_of_its_value_d12(words: str, value: object) -> None:
    found = compile_template("{{ " + words + " }}")(SCOPE)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("ctx.a and ctx.s", "x"),
        ("ctx.z and 1", None),
        ("ctx.no and 1", "No"),
        ("ctx.no or 1", 1),
        ("ctx.missing or ctx.s", "x"),
        ("ctx.z or '' or 0", 0),
        ("not ctx.missing", True),
        ("not ctx.no", True),
        ("not not ctx.s", True),
        ("ctx.a == 1 and ctx.s == 'x' and ctx.l", [1]),
        ("ctx.a == 2 or ctx.s == 'y' or ctx.l", [1]),
        ("ctx.a == 2 or ctx.l", [1]),
        ("ctx.a == 2 and ctx.l", False),
    ],
)
def test_truth_is_the_same_everywhere_and_logic_returns_an_operand_d15(words: str, value: object) -> None:
    assert compile_template("{{ " + words + " }}")(SCOPE) == value


def test_an_operand_that_is_not_needed_is_not_evaluated() -> None:
    for words in ("1 if true else 1 / 0", "true or 1 / 0", "not (false and 1 / 0)"):
        assert compile_template("{{ " + words + " }}").holds(SCOPE), words
    compile_template("{{ ctx.a|default(1 / 0) }}")(SCOPE)  # would raise


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("ctx.x and 1", "ctx.x is undefined"),
        ("ctx.z or ctx.x", "ctx.x is undefined"),
        ("1 if false", "the value of an if without else is undefined"),
        ("[ctx.x]", "ctx.x is undefined"),
        ("{'a': ctx.x}", "ctx.x is undefined"),
        ("{ctx.x: 1}", "ctx.x is undefined"),
        ("{ctx.a: 1}", "a key of a map must be text, not a number"),
        ("'a' ~ ctx.x", "ctx.x is undefined"),
    ],
)
def test_undefined_never_gets_into_a_value_d14(words: str, message: str) -> None:
    with pytest.raises(TemplateError) as error:
        compile_template("{{ " + words + " }}")(SCOPE)
    assert error.value.message == f'"{{{{ {words} }}}}": {message}'


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("1e999", "a number is too large (limit INT_MAX: 9223372036854775807)"),
        ("9223372036854775808", "a number is too large (limit INT_MAX: 9223372036854775807)"),
        ("'\\ud800'", "a text contains half a surrogate pair"),
        ("{1: 2}", "a key of a map must be text, not a number"),
        ("1" + " + 1" * 70, "an expression is nested too deeply (limit EXPRESSION_DEPTH_MAX: 64)"),
    ],
)
def test_a_literal_outside_the_limits_is_a_fault(words: str, message: str) -> None:
    with pytest.raises(BadTemplate) as bad:
        compile_template("{{ " + words + " }}")
    assert bad.value.faults == (Fault("bad-template", message, 1),)


def test_constants_are_not_folded_so_that_checking_costs_nothing() -> None:
    template = compile_template("{{ 'a' if false else ('b' if true else 9 ** 9 ** 9) }}")
    assert (template.constant, template({})) == (True, "b")
    with pytest.raises(TemplateError):
        compile_template("{{ 9 ** 9 ** 9 }}")({})


def test_long_chains_are_no_deep_trees() -> None:
    for words, value in ((" or ".join(["ctx.x"] * 500 + ["1"]), 1), (" and ".join(["1"] * 500), 1)):
        assert compile_template("{{ " + words + " }}")(SCOPE) == value
