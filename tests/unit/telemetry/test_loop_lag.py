"""Sweeps are timed and told of when they find something; a loop that wakes late is seen."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from noetl.control.sweeper import sweep
from noetl.errors import Unavailable
from noetl.telemetry.control_gauges import LAG_INTERVAL_S, measure_loop_lag, measured_sweep
from noetl.telemetry.logs import start_logging
from noetl.telemetry.metrics import Metrics
from tests.unit.telemetry.houses import WatchedHouse, run_house
from tests.unit.telemetry.test_control_gauges import LOOP
from tests.unit.telemetry.test_logs import Lines


class LateClock:
    """Sleeps as long as it should, and a little longer each time; it ends after some."""

    def __init__(self, *late_s: float) -> None:
        self.time = 0.0
        self.late = list(late_s)

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.time)

    def monotonic(self) -> float:
        return self.time

    def chance(self) -> float:
        return 0.5

    def new_id(self) -> str:
        return "id"

    async def sleep(self, seconds: float) -> None:
        if not self.late:
            raise asyncio.CancelledError
        self.time += seconds + self.late.pop(0)


def test_how_late_the_loop_wakes_is_seen_and_told_when_it_is_much() -> None:
    metrics, lines = Metrics(), Lines()
    stop = start_logging(lines)
    try:
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(measure_loop_lag(metrics, LateClock(0.0, 0.02, 3.0)))
    finally:
        stop()
    cell = metrics.process.lag_s.of()
    assert (sum(cell.counts), round(cell.total, 6)) == (3, 3.02)
    assert [(line["event"], line["late_s"]) for line in lines.read_all()] == [("loop.late", 3.0)]
    assert LAG_INTERVAL_S == 0.5


def test_a_sweep_is_timed_and_what_it_found_is_told() -> None:
    house, lines = WatchedHouse(p=LOOP), Lines()

    class Later(LateClock):
        """Far ahead of the house's own: every pointer has been lost by then."""

        def monotonic(self) -> float:
            return house.clock.monotonic() + 1_000

    async def work(house: WatchedHouse) -> None:
        await house.start("p")

        async def swept() -> None:
            await sweep(house.control)

        await measured_sweep(swept, house.metrics, house.control, house.clock)
        assert not house.metrics.process.lost.values
        await measured_sweep(swept, house.metrics, house.control, Later())

    stop = start_logging(lines)
    try:
        run_house(house, work, slots=0)
    finally:
        stop()
    assert dict(house.metrics.process.lost.values) == {(): 3}
    assert sum(house.metrics.process.sweep_s.of().counts) == 2
    assert [(line["event"], line["lost_frames"]) for line in lines.read_all()] == [("sweep.found", 3)]


def test_a_sweep_that_fails_is_timed_too() -> None:
    house = WatchedHouse(p=LOOP)

    async def failing() -> None:
        raise Unavailable("the store is away")

    with pytest.raises(Unavailable):
        asyncio.run(measured_sweep(failing, house.metrics, house.control, house.clock))
    assert sum(house.metrics.process.sweep_s.of().counts) == 1
