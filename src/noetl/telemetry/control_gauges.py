"""What is true just now, read from control when a scrape comes: nothing is kept up to date for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sized
from typing import Protocol

from noetl.clock import Clock
from noetl.engine.state import State
from noetl.ports import WorkerRegistry
from noetl.telemetry.instruments import Labels
from noetl.telemetry.metrics import Measures
from noetl.telemetry.pending import Pending


class OutFrame(Protocol):
    """A frame that is out."""

    @property
    def until(self) -> float: ...

    @property
    def pool(self) -> str: ...

    @property
    def worker(self) -> str: ...


class ExecutionInMemory(Protocol):
    """An execution in control's hands."""

    @property
    def state(self) -> State: ...

    @property
    def inbox(self) -> Sized: ...

    @property
    def ready(self) -> Mapping[str, Sized]: ...

    @property
    def out(self) -> Mapping[str, OutFrame]: ...


class Lives(Protocol):
    """Control, as far as it is read."""

    @property
    def lives(self) -> Mapping[str, ExecutionInMemory]: ...


def read_control(measures: Measures, control: Lives, clock: Clock, pending: Pending) -> None:
    """The gauges of executions and frames come from here from now on."""
    house = measures.house

    def statuses() -> Mapping[Labels, float]:
        return Counter(live.state.status for live in _all(control))

    def leased() -> Mapping[Labels, float]:
        outs = (out for live in _all(control) for out in _outs(live))
        return Counter(measures.pool(out.pool) for out in outs if out.worker)

    def waiting() -> Mapping[Labels, float]:
        found: Counter[Labels] = Counter()
        for live in _all(control):
            for pool, frames in list(live.ready.items()):
                found[measures.pool(pool)] += len(frames)
            for out in _outs(live):
                if not out.worker:
                    found[measures.pool(out.pool)] += 1
        return found

    def is_waiting(execution_id: str, frame: str) -> bool:
        live = control.lives.get(execution_id)
        out = live.out.get(frame) if live is not None else None
        return out is not None and not out.worker

    def oldest() -> Mapping[Labels, float]:
        now = clock.monotonic()
        return {pool: now - since for pool, since in pending.oldest(is_waiting).items()}

    house.lives.read, house.leased.read, house.waiting.read = statuses, leased, waiting
    house.oldest_s.read = oldest
    house.commands.reads(lambda: sum(len(live.inbox) for live in _all(control)))


def read_roster(measures: Measures, roster: WorkerRegistry) -> None:
    """The gauges of workers come from here from now on."""
    house = measures.house

    def counted(number: Callable[[int, int], int]) -> Mapping[Labels, float]:
        found: Counter[Labels] = Counter()
        for worker in roster.workers():
            found[measures.pool(worker.pool)] += number(worker.slots, worker.busy)
        return found

    house.workers.read = lambda: counted(lambda _slots, _busy: 1)
    house.slots.read = lambda: counted(lambda slots, _busy: slots)
    house.busy.read = lambda: counted(lambda _slots, busy: busy)


def lost_frames(control: Lives, clock: Clock) -> int:
    """Frames whose lease or pointer has run out: what a sweep is about to hand out again."""
    now = clock.monotonic()
    return sum(out.until <= now for live in _all(control) for out in _outs(live))


def _all(control: Lives) -> list[ExecutionInMemory]:
    return list(control.lives.values())


def _outs(live: ExecutionInMemory) -> list[OutFrame]:
    return list(live.out.values())
