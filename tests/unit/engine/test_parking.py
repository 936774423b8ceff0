"""What a frame is parked for: blocks, children, times and signals."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from noetl.engine.facts import ForBlock, ForChild, ForSignal, ForTime, Until
from noetl.engine.parking import BadField, waits_for
from noetl.output import JSON

AT = datetime(2026, 1, 1, tzinfo=UTC)


def wait(**input: JSON) -> Until:
    return waits_for("wait", {}, input, "e/start#1/1", AT)


def test_a_block_is_called_with_its_input_d59() -> None:
    assert waits_for("workbook", {"block": "b"}, {"n": 1}, "e/start#1/1", AT) == ForBlock(block="b", input={"n": 1})


def test_a_child_has_an_id_of_its_call_d58() -> None:
    calls = ["e/start#1/1", "e/start#1/1", "e/start#1/2", "f/start#1/1"]
    children = [waits_for("playbook", {"path": "p"}, {}, call, AT) for call in calls]
    assert children[0] == ForChild(execution_id="7d4515d2-5a92-57b5-8b69-2486690b314b", path="p")
    assert children[0] == children[1]
    assert len({str(child) for child in children}) == 3


@pytest.mark.parametrize(
    ("written", "ends"),
    [
        ({"seconds": 90}, AT + timedelta(seconds=90)),
        ({"seconds": 0.5}, AT + timedelta(seconds=0.5)),
        ({"seconds": 1e12}, AT + timedelta(days=366)),
        ({"until": "2026-01-31T12:00:00Z"}, datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ({"until": "2026-01-31T12:00:00+02:00"}, datetime(2026, 1, 31, 10, tzinfo=UTC)),
    ],
)
def test_a_wait_for_time_becomes_an_instant_d83(written: dict[str, JSON], ends: datetime) -> None:
    waits = wait(**written)
    assert waits == ForTime(at=ends)
    assert isinstance(waits, ForTime)
    assert waits.at.tzinfo is UTC


def test_a_wait_for_a_signal_has_its_name_d83() -> None:
    assert wait(signal="approved") == ForSignal(name="approved")


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ({"seconds": -1}, ("seconds", "it must be a number of at least 0")),
        ({"seconds": True}, ("seconds", "it must be a number of at least 0")),
        ({"seconds": 10**400}, ("seconds", "it must be a number of at least 0")),
        ({"seconds": float("nan")}, ("seconds", "it must be a number of at least 0")),
        ({"signal": {"a": 1}}, ("signal", "it must be text")),
        ({"until": 5}, ("until", "it must be text")),
        ({"until": "soon"}, ("until", 'it must be an instant such as 2026-01-31T12:00:00Z, not "soon"')),
        (
            {"until": "2026-01-31T12:00:00"},
            ("until", "it must name its time zone, for example by a Z at the end"),
        ),
        (
            {"until": "0001-01-01T00:00:00+14:00"},
            ("until", 'it must be an instant such as 2026-01-31T12:00:00Z, not "0001-01-01T00:00:00+14:00"'),
        ),
    ],
)
def test_what_can_not_be_waited_for_is_told_with_its_field(written: dict[str, JSON], told: tuple[str, str]) -> None:
    with pytest.raises(BadField) as bad:
        wait(**written)
    assert (bad.value.field, str(bad.value)) == told
