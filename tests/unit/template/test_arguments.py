"""Constant arguments are checked when a template is compiled."""

from __future__ import annotations

import pytest

from noetl.template.compile import BadTemplate, Fault, TemplateError, compile_template


@pytest.mark.parametrize(
    ("words", "name", "problem", "signature"),
    [
        ("a|upper(1)", "upper", "takes no arguments, not 1", "text|upper"),
        ("a|center(1, 2)", "center", "takes 1 argument, not 2", "text|center(width: int = 80)"),
        ("a|center('x')", "center", "width is text, not a whole number", "text|center(width: int = 80)"),
        (
            "a|center(true)",
            "center",
            "width is a boolean, not a whole number",
            "text|center(width: int = 80)",
        ),
        ("a|center(wide=3)", "center", 'has no argument "wide"', "text|center(width: int = 80)"),
        ("a|center(3, width=3)", "center", '"width" is given twice', "text|center(width: int = 80)"),
        ("a is divisibleby", "divisibleby", 'needs the argument "num"', "any is divisibleby(num: int)"),
        ("a.startswith()", "startswith", 'needs the argument "prefix"', "text.startswith(prefix: text)"),
        ("now(1)", "now", "takes no arguments, not 1", "now()"),
        (
            "a|regex_search('(')",
            "regex_search",
            'the pattern "(" is not valid: missing ): (',
            "text|regex_search(pattern: pattern, group: key = 0)",
        ),
        (
            "a|regex_replace('(a)', '\\\\2')",
            "regex_replace",
            'the pattern has no group "2"',
            "text|regex_replace(pattern: pattern, replacement: replacement, count: int = 0)",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_faults(words: str, name: str, problem: str, signature: str) -> None:
    with pytest.raises(BadTemplate) as bad:
        compile_template("{{ " + words + " }}")
    assert bad.value.faults == (Fault("bad-arguments", f'"{name}": {problem}', 1, name, f"write {signature}"),)


def test_the_patterns_of_a_template_may_not_take_long_to_compile() -> None:
    with pytest.raises(BadTemplate, match=r"too many regular expressions \(limit FUEL_MAX: 400,000\)"):
        compile_template("".join(f"{{{{ a|regex_search('a{{{n}}}') }}}}" for n in range(1, 30)))


def test_an_argument_given_twice_by_name_is_a_fault() -> None:
    with pytest.raises(BadTemplate) as bad:
        compile_template("{{ a|center(width=1, width=2) }}")
    assert bad.value.faults == (Fault("bad-arguments", '"width" is given twice', 1, "width"),)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("x", '"center": width is text, not a whole number'),
        (None, '"center": width is null, not a whole number'),
    ],
)
def test_an_argument_that_is_known_late_is_checked_then(value: object, message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        compile_template("{{ 'a'|center(n) }}")({"n": value})


def test_an_argument_that_is_undefined_is_named_d14() -> None:
    with pytest.raises(TemplateError) as error:
        compile_template("{{ 'a'|center(ctx.n) }}")({})
    assert (error.value.message, error.value.path) == (
        "\"{{ 'a'|center(ctx.n) }}\": ctx.n is undefined",
        ("ctx", "n"),
    )
