"""Sweeps are timed, and logged when they find something; a loop that wakes late is detected."""

from __future__ import annotations

import asyncio

import pytest

from noetl.control.sweeper import sweep
from noetl.errors import Unavailable
from noetl.telemetry.control_metrics import LAG_INTERVAL_S, measure_loop_lag, measured_sweep
from noetl.telemetry.logs import start_logging
from noetl.telemetry.metrics import Metrics
from noetl.testing import FakeClock
from tests.unit.telemetry.runtimes import MeasuredRuntime, run_in
from tests.unit.telemetry.test_control_gauges import LOOP
from tests.unit.telemetry.test_logs import Lines


def test_how_late_the_loop_wakes_is_seen_and_told_when_it_is_much() -> None:
    metrics, lines = Metrics(), Lines()
    stop = start_logging(lines)

    async def work() -> None:
        clock = FakeClock()
        watching = asyncio.ensure_future(measure_loop_lag(metrics, clock))
        for late_s in (0.0, 0.02, 3.0):
            await clock.settle()
            clock.advance(LAG_INTERVAL_S + late_s)
        await clock.settle()
        watching.cancel()

    try:
        asyncio.run(work())
    finally:
        stop()
    cell = metrics.process.lag_s.of()
    assert (sum(cell.counts), round(cell.total, 6)) == (3, 3.02)
    assert [(line["event"], line["late_s"]) for line in lines.read_all()] == [("loop.late", 3.0)]
    assert LAG_INTERVAL_S == 0.5


def test_a_sweep_is_timed_and_what_it_found_is_told() -> None:
    clock, lines = FakeClock(), Lines()
    runtime = MeasuredRuntime(clock, p=LOOP)

    async def work(runtime: MeasuredRuntime) -> None:
        await runtime.start("p")

        async def swept() -> None:
            await sweep(runtime.control)

        await measured_sweep(swept, runtime.metrics, runtime.control, clock)
        assert dict(runtime.metrics.process.lost.values) == {(): 0}
        clock.advance(1_000)  # by then every pointer counts as lost
        await measured_sweep(swept, runtime.metrics, runtime.control, clock)

    stop = start_logging(lines)
    try:
        run_in(runtime, work, slots=0)
    finally:
        stop()
    assert dict(runtime.metrics.process.lost.values) == {(): 3}
    assert sum(runtime.metrics.process.sweep_s.of().counts) == 2
    assert [(line["event"], line["lost_frames"]) for line in lines.read_all()] == [("sweep.found", 3)]


def test_a_sweep_that_fails_is_timed_too() -> None:
    runtime = MeasuredRuntime(p=LOOP)

    async def failing() -> None:
        raise Unavailable("the store is unreachable")

    with pytest.raises(Unavailable):
        asyncio.run(measured_sweep(failing, runtime.metrics, runtime.control, runtime.clock))
    assert sum(runtime.metrics.process.sweep_s.of().counts) == 1
