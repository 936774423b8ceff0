"""A change is logged once; a lasting outage is logged at intervals."""

from __future__ import annotations

from noetl.errors import Unavailable
from noetl.telemetry.logs import OUTAGE_INTERVAL_S, OutageLog, OwnershipLog, get_logger, start_logging
from noetl.testing import FakeClock
from tests.unit.telemetry.test_logs import Lines

log = get_logger("server")


def test_partitions_that_come_and_go_are_told_once() -> None:
    lines, ownership = Lines(), OwnershipLog(log)
    stop = start_logging(lines)
    try:
        for owned in ({1, 2}, {1, 2}, {2, 3}, set[int]()):
            ownership.update(frozenset(owned))
    finally:
        stop()
    changes = [(line["event"], line["partitions"], line["owned"]) for line in lines.read_all()]
    assert changes == [
        ("partitions.taken", [1, 2], 2),
        ("partitions.taken", [3], 2),
        ("partitions.gone", [1], 2),
        ("partitions.gone", [2, 3], 0),
    ]


def test_a_store_that_is_away_is_told_at_first_now_and_then_and_when_it_is_back() -> None:
    lines, clock = Lines(), FakeClock()
    trouble = OutageLog(log, clock, "store")
    stop = start_logging(lines)
    try:
        trouble.end()
        for _ in range(100):
            trouble.add(Unavailable("postgresql://me:hunter2@db is unreachable"))
            clock.advance(OUTAGE_INTERVAL_S / 50)
        trouble.end()
        trouble.end()
    finally:
        stop()
    seen = [(line["event"], line["times"], line.get("for_s", line.get("away_s"))) for line in lines.read_all()]
    assert seen == [
        ("store.unavailable", 1, 0.0),
        ("store.unavailable", 51, 30.0),
        ("store.back", 100, 60.0),
    ]
    assert "hunter2" not in lines.getvalue()
