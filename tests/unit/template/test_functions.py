"""range, now, today, uuid."""

from __future__ import annotations

import re

import pytest

from noetl.template.compile import BadTemplate, Moment, TemplateError, compile_template, compile_value

MOMENT = Moment("2026-01-31T12:00:00Z", "e/fetch#1/1")


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("range(3)", [0, 1, 2]),
        ("range(1, 3)", [1, 2]),
        ("range(3, 0, -2)", [3, 1]),
        ("range(10000)|length", 10_000),
    ],
)
def test_range_returns_a_list(words: str, value: object) -> None:
    assert compile_template("{{ " + words + " }}")({}) == value


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "range(10001)",
            "range has too many numbers; for more items use a list in workload, or a reference from a task (limit RANGE_MAX: 10,000)",
        ),
        (
            "range(0, 9223372036854775807, 1)",
            "range has too many numbers; for more items use a list in workload, or a reference from a task (limit RANGE_MAX: 10,000)",
        ),
        ("range(1, 2, 0)", "the step of range must not be 0"),
        ("range(a)", '"range": start is text, not a whole number'),
    ],
)
def test_range_has_a_limit(words: str, message: str) -> None:
    with pytest.raises(TemplateError) as error:
        compile_template("{{ " + words + " }}")({"a": "x"})
    assert error.value.message == f'"{{{{ {words} }}}}": {message}'


def test_now_is_the_recorded_time_d17() -> None:
    assert compile_template("{{ now() }}")({}, MOMENT) == "2026-01-31T12:00:00Z"


def test_uuid_is_derived_from_the_call_so_that_a_replay_agrees_d17() -> None:
    template = compile_template("{{ [uuid(), uuid()] }}")
    first, second = template({}, MOMENT)
    assert [first, second] == template({}, MOMENT)
    assert first != second
    assert [first] != compile_template("{{ [uuid()] }}")({}, Moment(MOMENT.at, "other"))
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", first)


def test_two_fields_of_one_value_get_two_uuids_d17() -> None:
    value = compile_value({"a": "{{ uuid() }}", "b": ["{{ uuid() }}"]})({}, MOMENT)
    assert value["a"] != value["b"][0]


@pytest.mark.parametrize("call", ["now()", "today()", "uuid()"])
def test_without_a_moment_there_is_neither_time_nor_chance_d17(call: str) -> None:
    template = compile_template("{{ " + call + " }}")
    assert (template.calls, template.constant) == (frozenset({call[:-2]}), False)
    with pytest.raises(TemplateError, match="is not available here"):
        template({})


def test_other_functions_do_not_exist() -> None:
    with pytest.raises(BadTemplate) as bad:
        compile_template("{{ nwo() }}{{ lipsum() }}{{ open('x') }}")
    assert [(fault.code, fault.needle, fault.fix) for fault in bad.value.faults] == [
        ("not-allowed", "nwo", 'did you mean "now"?'),
        ("not-allowed", "lipsum", "its result is random, so a replay would differ"),
        ("not-allowed", "open", "there are range, now, today, omit, uuid"),
    ]
