"""The meter counts work and memory, and every limit is named in its error."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from noetl.template.compile import compile_value
from noetl.template.limits import FUEL_MAX, ITEMS_MAX, MEMORY_MAX, TEXT_CHARS_MAX, Meter, TaskMeter, json_text
from noetl.template.values import TemplateError


@pytest.mark.parametrize(
    ("spend", "name"),
    [
        (lambda meter: meter.charge(FUEL_MAX + 1), "FUEL_MAX"),
        (lambda meter: meter.allocate(MEMORY_MAX + 1), "MEMORY_MAX"),
        (lambda meter: meter.text(TEXT_CHARS_MAX + 1), "TEXT_CHARS_MAX"),
        (lambda meter: meter.keep("x" * (TEXT_CHARS_MAX + 1)), "TEXT_CHARS_MAX"),
        (lambda meter: meter.items(ITEMS_MAX + 1), "ITEMS_MAX"),
        (lambda meter: json_text(1 << 20_000, meter), "BITS_MAX"),
    ],
)
def test_an_exceeded_limit_is_named_in_the_error(spend: Callable[[Meter], object], name: str) -> None:
    with pytest.raises(TemplateError, match=rf"\(limit {name}: [0-9,]+\)$"):
        spend(Meter())


def test_a_limit_that_is_just_reached_is_fine() -> None:
    meter = Meter()
    meter.charge(FUEL_MAX)
    meter.allocate(MEMORY_MAX)
    assert (meter.fuel, meter.memory) == (0, 0)


def test_each_meter_is_full_at_first() -> None:
    Meter().charge(FUEL_MAX)
    assert Meter().fuel == FUEL_MAX


def test_room_is_not_given_back() -> None:
    meter = Meter()
    meter.keep("x" * 1_000)
    meter.keep("x" * 1_000)
    assert meter.memory < MEMORY_MAX - 2_000


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        ([1, 2], "[1,2]"),
        ({"a": 1, "b": [None, "ä"]}, '{"a":1,"b":[null,"ä"]}'),
        (2**70, "1180591620717411303424"),
    ],
)
def test_a_value_is_written_as_compact_json_and_text_as_it_is_d12(value: object, text: str) -> None:
    assert json_text(value) == text


def test_a_value_that_is_too_large_to_be_written_is_refused_before_it_is_written() -> None:
    with pytest.raises(TemplateError, match="TEXT_CHARS_MAX"):
        json_text(["x" * 1_000] * 5_000)


def test_a_task_can_write_what_a_scope_holds_and_no_more_d91() -> None:
    template = compile_value({"text": "{{ items | tojson }}"})
    items = ["x" * 1_000_000] * 30
    text = template({"items": items}, None, TaskMeter)["text"]
    assert len(text) == 30 * 1_000_003 + 1
    with pytest.raises(TemplateError, match=r"TEXT_CHARS_MAX: 1,048,576"):
        template({"items": items})
    with pytest.raises(TemplateError, match=r"TASK_TEXT_CHARS_MAX: 67,108,864"):
        template({"items": items * 3}, None, TaskMeter)
