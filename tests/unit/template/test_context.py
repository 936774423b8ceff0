"""Compiling collects all faults, not only the first."""

from __future__ import annotations

import pytest

from noetl.template.compile import BadTemplate, compile_template
from noetl.template.context import CompileContext
from noetl.template.expressions import compile_path


def test_all_faults_of_a_template_are_found() -> None:
    source = "{{ a|nope }}\n{{ b is nope }}\n{{ open() }}{{ 'x'|center('y') }}\n{% set c = 1 %}"
    with pytest.raises(BadTemplate) as bad:
        compile_template(source, statements=True)
    assert [(fault.code, fault.line, fault.needle) for fault in bad.value.faults] == [
        ("unknown-filter", 1, "nope"),
        ("unknown-test", 2, "nope"),
        ("not-allowed", 3, "open"),
        ("bad-arguments", 3, "center"),
        ("not-allowed", 4, "set"),
    ]


def test_faults_are_found_inside_arguments_and_faulty_filters() -> None:
    with pytest.raises(BadTemplate) as bad:
        compile_template("{{ a|nope(b|nada, c=[d|zilch])|upper(1) }}")
    assert [fault.needle for fault in bad.value.faults] == ["zilch", "nada", "nope", "upper"]


def test_the_same_fault_twice_in_a_line_is_reported_once() -> None:
    with pytest.raises(BadTemplate) as bad:
        compile_template("{{ a|nope }}{{ b|nope }}")
    assert len(bad.value.faults) == 1


def test_a_suggestion_is_the_reason_or_the_nearest_name() -> None:
    context = CompileContext({}, compile_path, None)
    known, omitted = ["upper", "lower"], {"random": "it is chance"}
    assert [context.suggestion(name, known, omitted) for name in ("random", "uppper", "qqq")] == [
        "it is chance",
        'did you mean "upper"?',
        None,
    ]


def test_only_the_first_faults_get_a_hint_because_hints_take_time() -> None:
    with pytest.raises(BadTemplate) as bad:
        compile_template("".join(f"{{{{ a|uper{n} }}}}" for n in range(50)))
    assert [fault.fix is not None for fault in bad.value.faults] == [True] * 10 + [False] * 40
