"""Gauges that are read from Control at each scrape, and the timing of sweeps and of the event loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sized
from typing import Final, Protocol

from noetl.clock import Clock
from noetl.engine.state import State
from noetl.ports import WorkerRegistry
from noetl.telemetry.instruments import Labels
from noetl.telemetry.logs import get_logger
from noetl.telemetry.measured_ports import PendingPointers
from noetl.telemetry.metrics import Metrics

LAG_INTERVAL_S: Final = 0.5  # between two measurements of the event loop
LAG_WARNING_S: Final = 1.0  # a delay that is logged

log = get_logger("process")


class FrameInFlight(Protocol):
    @property
    def until(self) -> float: ...

    @property
    def pool(self) -> str: ...

    @property
    def worker(self) -> str: ...


class ExecutionInMemory(Protocol):
    @property
    def state(self) -> State: ...

    @property
    def inbox(self) -> Sized: ...

    @property
    def ready(self) -> Mapping[str, Sized]: ...

    @property
    def in_flight(self) -> Mapping[str, FrameInFlight]: ...


class ControlView(Protocol):
    """The part of Control that gauges read."""

    @property
    def executions(self) -> Mapping[str, ExecutionInMemory]: ...


def read_control(metrics: Metrics, control: ControlView, clock: Clock, pending: PendingPointers) -> None:
    """Set the readers of the gauges of executions and frames."""
    process = metrics.process

    def statuses() -> Mapping[Labels, float]:
        return Counter(live.state.status for live in _all(control))

    def leased() -> Mapping[Labels, float]:
        frames = (frame for live in _all(control) for frame in _in_flight(live))
        return Counter(metrics.pool(frame.pool) for frame in frames if frame.worker)

    def waiting() -> Mapping[Labels, float]:
        found: Counter[Labels] = Counter()
        for live in _all(control):
            for pool, frames in list(live.ready.items()):
                found[metrics.pool(pool)] += len(frames)
            for frame in _in_flight(live):
                if not frame.worker:
                    found[metrics.pool(frame.pool)] += 1
        return found

    def is_waiting(execution_id: str, frame: str) -> bool:
        live = control.executions.get(execution_id)
        found = live.in_flight.get(frame) if live is not None else None
        return found is not None and not found.worker

    def oldest() -> Mapping[Labels, float]:
        now = clock.monotonic()
        return {pool: now - since for pool, since in pending.oldest(is_waiting).items()}

    process.executions.read, process.leased.read, process.waiting.read = statuses, leased, waiting
    process.oldest_s.read = oldest
    process.commands.read_from(lambda: sum(len(live.inbox) for live in _all(control)))


def read_workers(metrics: Metrics, registry: WorkerRegistry) -> None:
    """Set the readers of the gauges of workers."""
    process = metrics.process

    def counted(number: Callable[[int, int], int]) -> Mapping[Labels, float]:
        found: Counter[Labels] = Counter()
        for worker in registry.workers():
            found[metrics.pool(worker.pool)] += number(worker.slots, worker.busy)
        return found

    process.workers.read = lambda: counted(lambda _slots, _busy: 1)
    process.slots.read = lambda: counted(lambda slots, _busy: slots)
    process.busy.read = lambda: counted(lambda _slots, busy: busy)


def lost_frames(control: ControlView, clock: Clock) -> int:
    """The number of frames whose lease or pointer has expired: the next sweep dispatches them again."""
    now = clock.monotonic()
    return sum(frame.until <= now for live in _all(control) for frame in _in_flight(live))


async def measured_sweep(
    sweep: Callable[[], Awaitable[None]], metrics: Metrics, control: ControlView, clock: Clock
) -> None:
    """One sweep; it is logged when it finds lost frames."""
    lost, begun = lost_frames(control, clock), clock.monotonic()
    try:
        await sweep()
    finally:
        spent = clock.monotonic() - begun
        metrics.process.sweep_s.observe(spent)
    if lost:
        metrics.process.lost.add(by=lost)
        log.warning("sweep.found", lost_frames=lost, took_ms=round(spent * 1000, 1))


async def measure_loop_lag(metrics: Metrics, clock: Clock) -> None:
    """Measure forever how late the event loop wakes this task."""
    while True:
        due = clock.monotonic() + LAG_INTERVAL_S
        await clock.sleep(LAG_INTERVAL_S)
        late = max(0.0, clock.monotonic() - due)
        metrics.process.lag_s.observe(late)
        if late >= LAG_WARNING_S:
            log.warning("loop.late", late_s=round(late, 3))


def _all(control: ControlView) -> list[ExecutionInMemory]:
    return list(control.executions.values())


def _in_flight(live: ExecutionInMemory) -> list[FrameInFlight]:
    return list(live.in_flight.values())
