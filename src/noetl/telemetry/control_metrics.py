"""Metrics of control: gauges read on a scrape, counters updated from committed facts."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence, Sized
from datetime import datetime
from typing import Any, Final, Protocol, get_args

from noetl.cache import BoundedCache
from noetl.clock import Clock
from noetl.engine import Event, facts
from noetl.engine.state import State, Status
from noetl.ids import frame_parts
from noetl.net.program import Program
from noetl.ports import WorkerRegistry
from noetl.telemetry.logs import get_logger
from noetl.telemetry.measured import PendingPointers
from noetl.telemetry.metrics import NONE, Labels, Metrics

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

    @property
    def at(self) -> float: ...


class ExecutionInMemory(Protocol):
    @property
    def state(self) -> State: ...

    @property
    def state_bytes(self) -> int: ...

    @property
    def inbox(self) -> Sized: ...

    @property
    def ready(self) -> Mapping[str, Sized]: ...

    @property
    def in_flight(self) -> Mapping[str, FrameInFlight]: ...


class IdleInMemory(Protocol):
    @property
    def status(self) -> Status: ...


class MemoryLimit(Protocol):
    """The part of the settings of control that a gauge shows."""

    @property
    def state_bytes(self) -> int: ...


class LostFrames(Protocol):
    """The part of Dispatch that a sweep reads."""

    lost: int  # frames whose pointer or worker was lost, since the start


class ControlView(Protocol):
    """The part of Control that gauges read."""

    @property
    def executions(self) -> Mapping[str, ExecutionInMemory]: ...

    @property
    def idle(self) -> Mapping[str, IdleInMemory]: ...

    @property
    def dispatch(self) -> LostFrames: ...

    @property
    def settings(self) -> MemoryLimit: ...


def read_control(metrics: Metrics, control: ControlView, clock: Clock, pending: PendingPointers) -> None:
    process = metrics.process

    def statuses() -> Mapping[Labels, float]:
        found: Counter[Labels] = Counter(each.status for each in list(control.idle.values()))
        found.update(live.state.status for live in _all(control))
        return found

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
        found = pending.oldest(is_waiting)  # of a queue that is measured: since the first of repeated pointers
        for frame in (frame for live in _all(control) for frame in _in_flight(live) if not frame.worker):
            pool = metrics.pool(frame.pool)
            found[pool] = min(frame.at, found.get(pool, frame.at))
        now = clock.monotonic()
        return {pool: now - since for pool, since in found.items()}

    process.executions.read, process.leased.read, process.waiting.read = statuses, leased, waiting
    process.oldest_s.read = oldest
    process.state_bytes.read_from(lambda: sum(live.state_bytes for live in _all(control)))
    process.state_limit_bytes.read_from(lambda: control.settings.state_bytes)
    process.commands.read_from(lambda: sum(len(live.inbox) for live in _all(control)))


def read_workers(metrics: Metrics, registry: WorkerRegistry) -> None:
    process = metrics.process

    def counted(number: Callable[[int, int], int]) -> Mapping[Labels, float]:
        found: Counter[Labels] = Counter()
        for worker in registry.workers():
            found[metrics.pool(worker.pool)] += number(worker.slots, worker.busy)
        return found

    process.workers.read = lambda: counted(lambda _slots, _busy: 1)
    process.slots.read = lambda: counted(lambda slots, _busy: slots)
    process.busy.read = lambda: counted(lambda _slots, busy: busy)


async def measured_sweep(
    sweep: Callable[[], Awaitable[None]], metrics: Metrics, control: ControlView, clock: Clock
) -> None:
    """One sweep. Frames that were lost since the last one are counted and logged."""
    begun = clock.monotonic()
    try:
        await sweep()
    finally:
        spent = clock.monotonic() - begun
        metrics.process.sweep_s.observe(spent)
    lost = control.dispatch.lost - int(metrics.process.lost.values[NONE])
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


EXECUTIONS_MAX: Final = 20_000  # in memory; the durations of the oldest are lost
PIPELINES_MAX: Final = 10_000  # with cached tool kinds
FACTS_MAX: Final = 1_000  # in a batch: less than a millisecond
UNKNOWN: Final = "?"  # a task of another version of the playbook

_TAGS: Final[dict[type, str]] = {kind: kind.__struct_config__.tag for kind in get_args(facts.Fact)}


class CommittedExecution(Protocol):
    """The part of an execution in memory that telemetry reads after a commit."""

    id: str
    program: Program


class _Run:
    __slots__ = ("kinds", "scheduled_at", "waits")

    def __init__(self, scheduled_at: datetime, kinds: dict[str, str], waits: bool) -> None:
        self.scheduled_at = scheduled_at
        self.kinds = kinds  # task → kind of its tool
        self.waits = waits  # its first call shows how long it waited


class _Execution:
    __slots__ = ("begun_at", "playbook", "runs")

    def __init__(self, playbook: str) -> None:
        self.playbook = playbook
        self.begun_at: datetime | None = None  # None: it began on another server
        self.runs: dict[str, _Run] = {}


class FactMetrics:
    """A commit hook of Control."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._meters = metrics.facts
        self._step_s = {status: self._meters.step_s.of(status) for status in ("ok", "error")}
        self._wait_s = self._meters.step_wait_s.of()
        self._unread: deque[tuple[CommittedExecution, Sequence[Event]]] = deque()
        self._waiting = 0  # facts in `_unread`
        self._counts: defaultdict[type, int] = defaultdict(int)  # of one batch
        self._known: BoundedCache[str, _Execution] = BoundedCache(EXECUTIONS_MAX)
        metrics.registry.before_read.append(self.flush)
        self._kinds: BoundedCache[tuple[str, str, bool], dict[str, str]] = BoundedCache(PIPELINES_MAX)
        self._handlers: dict[type, Callable[[CommittedExecution, _Execution, Any, datetime], None]] = {
            facts.Requested: self._requested,
            facts.StepScheduled: self._scheduled,
            facts.TaskDone: self._called,
            facts.IterationDone: self._iterated,
            facts.IterationFailed: self._iterated,
            facts.StepDone: self._ended,
            facts.LoopDone: self._ended,
            facts.StepFailed: self._ended,
            facts.Processed: self._processed,
        }

    def __call__(self, live: CommittedExecution, events: Sequence[Event]) -> None:
        if not events:  # it has only been settled; it must not stay in memory for this
            return
        self._unread.append((live, events))
        self._waiting += len(events)
        if self._waiting >= FACTS_MAX:
            self.flush()

    def flush(self) -> None:
        """Count all commits up to now."""
        self._waiting = 0
        while self._unread:
            self._read(*self._unread.popleft())
        for kind, count in self._counts.items():
            self._meters.facts.values[_TAGS[kind]] += count
        self._counts.clear()

    def _read(self, live: CommittedExecution, events: Sequence[Event]) -> None:
        known = self._known.peek(live.id)
        if known is None:
            known = self._known.put(live.id, _Execution(self._metrics.playbook(live.program.playbook.path)))
        counts, handlers = self._counts, self._handlers
        for event in events:
            fact = event.fact
            kind = fact.__class__
            counts[kind] += 1
            if kind in handlers:
                handlers[kind](live, known, fact, event.at)

    def _requested(self, _live: CommittedExecution, known: _Execution, _fact: facts.Requested, at: datetime) -> None:
        known.begun_at = at
        self._meters.started.add(known.playbook)

    def _scheduled(self, live: CommittedExecution, known: _Execution, fact: facts.StepScheduled, at: datetime) -> None:
        program = live.program
        key = (program.digest, fact.step, fact.parent is not None or fact.compensates is not None)
        kinds = self._kinds.peek(key)
        if kinds is None:
            tasks = program.pipeline(key[1], block=key[2]).tasks
            kinds = self._kinds.put(key, {task.name: self._metrics.kind(task.kind) for task in tasks})
        known.runs[fact.run] = _Run(at, kinds, not fact.loop)

    def _called(self, _live: CommittedExecution, known: _Execution, fact: facts.TaskDone, _at: datetime) -> None:
        name, index = frame_parts(fact.frame)
        run = known.runs.get(name)
        if run is None:
            return
        kind = run.kinds.get(fact.task, UNKNOWN)
        if fact.started_at is not None:
            self._meters.task_s.observe(fact.ms / 1000, (kind, fact.status))
            if index is None and fact.call == 1 and run.waits:
                self._wait_s.observe((fact.started_at - run.scheduled_at).total_seconds())
        if again := fact.repeats:
            self._meters.retries.add(kind, again)

    def _iterated(
        self,
        _live: CommittedExecution,
        _known: _Execution,
        fact: facts.IterationDone | facts.IterationFailed,
        _at: datetime,
    ) -> None:
        self._meters.iterations.values["ok" if type(fact) is facts.IterationDone else "error"] += 1

    def _ended(
        self,
        _live: CommittedExecution,
        known: _Execution,
        fact: facts.StepDone | facts.LoopDone | facts.StepFailed,
        at: datetime,
    ) -> None:
        run = known.runs.pop(fact.run or "", None)
        if run is not None:
            status = "error" if type(fact) is facts.StepFailed else "ok"
            self._step_s[status].observe((at - run.scheduled_at).total_seconds())

    def _processed(self, live: CommittedExecution, known: _Execution, fact: facts.Processed, at: datetime) -> None:
        self._meters.ended.add((known.playbook, fact.status))
        if known.begun_at is not None:
            self._meters.execution_s.observe((at - known.begun_at).total_seconds(), fact.status)
        self._known.pop(live.id)
