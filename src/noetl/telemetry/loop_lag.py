"""What a server does beside executions, timed: its sweeps, and how late its loop wakes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from noetl.clock import Clock
from noetl.telemetry.control_gauges import Lives, lost_frames
from noetl.telemetry.logs import get_logger
from noetl.telemetry.metrics import Measures

PULSE_S: Final = 0.5
LAG_S: Final = 1.0  # of such a lag people should know

log = get_logger("house")


async def watch_pulse(measures: Measures, clock: Clock) -> None:
    """For ever: sleep a little, and see how late we wake."""
    while True:
        due = clock.monotonic() + PULSE_S
        await clock.sleep(PULSE_S)
        late = max(0.0, clock.monotonic() - due)
        measures.house.lag_s.see(late)
        if late >= LAG_S:
            log.warning("loop.late", late_s=round(late, 3))


async def measured_sweep(
    sweep: Callable[[], Awaitable[None]], measures: Measures, control: Lives, clock: Clock
) -> None:
    """One sweep; it is told of when it finds something."""
    lost, begun = lost_frames(control, clock), clock.monotonic()
    try:
        await sweep()
    finally:
        spent = clock.monotonic() - begun
        measures.house.sweep_s.see(spent)
    if lost:
        measures.house.lost.add(by=lost)
        log.warning("sweep.found", lost_frames=lost, took_ms=round(spent * 1000, 1))
