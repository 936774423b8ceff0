"""Rows become events, and events a state, up to any of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from noetl.engine import Event
from noetl.engine.facts import Evaluated, Requested
from noetl.ports import LogRow
from noetl.views.log import events_of, folded, instant
from tests.unit.views.playing import scenarios

AT = datetime(2026, 1, 1, tzinfo=UTC)


def test_every_fact_of_a_row_has_its_own_seq() -> None:
    rows = [LogRow(1, AT, (Requested(path="p", digest="d"), Evaluated())), LogRow(3, AT, (Evaluated(),))]
    assert [event.seq for event in events_of(rows)] == [1, 2, 3]
    assert list(events_of(rows, after=1)) == [Event(2, AT, Evaluated()), Event(3, AT, Evaluated())]


def test_a_log_folds_up_to_any_of_its_facts() -> None:
    player = scenarios()["retried_parallel_loop"]
    assert folded("e", player.log) == player.state
    assert folded("e", player.log, up_to=19).status == "error"
    assert folded("e", player.log, up_to=19).seq == 19


def test_an_instant_is_written_in_utc_with_a_z() -> None:
    assert instant(AT) == "2026-01-01T00:00:00Z"
    assert instant(AT.replace(microsecond=500)) == "2026-01-01T00:00:00.000500Z"
    assert instant(AT.astimezone(timezone(timedelta(hours=2)))) == "2026-01-01T00:00:00Z"
