"""What happened, counted from committed facts: control tells of every commit, and nothing is asked twice.

What began on another server is counted here by its end alone. Facts are looked through many at a time: that
costs a fifth of looking at each commit, when the processor has everything else in mind.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, Protocol, get_args

from noetl.engine import Event, facts
from noetl.ids import frame_parts
from noetl.net.program import Program
from noetl.telemetry.metrics import Measures

EXECUTIONS_MAX: Final = 20_000  # remembered at once; of the oldest the durations are lost
PIPELINES_MAX: Final = 10_000  # whose kinds are remembered
FACTS_MAX: Final = 1_000  # that wait to be looked through: less than a millisecond
UNKNOWN: Final = "?"  # a task of another text than the one we have

_TAGS: Final[dict[type, str]] = {kind: kind.__struct_config__.tag for kind in get_args(facts.Fact)}


class Watched(Protocol):
    """An execution as control tells of it."""

    @property
    def id(self) -> str: ...

    @property
    def program(self) -> Program: ...


class _Run:
    __slots__ = ("kinds", "scheduled_at", "waits")

    def __init__(self, scheduled_at: datetime, kinds: dict[str, str], waits: bool) -> None:
        self.scheduled_at = scheduled_at
        self.kinds = kinds  # task → kind of its tool
        self.waits = waits  # its first call tells how long it waited


class _Execution:
    __slots__ = ("begun_at", "playbook", "runs")

    def __init__(self, playbook: str) -> None:
        self.playbook = playbook
        self.begun_at: datetime | None = None  # None: it began elsewhere
        self.runs: dict[str, _Run] = {}


class Seen:
    """`watch` of control."""

    def __init__(self, measures: Measures) -> None:
        self._measures = measures
        self._meters = measures.facts
        self._step_s = {status: self._meters.step_s.of(status) for status in ("ok", "error")}
        self._wait_s = self._meters.step_wait_s.of()
        self._told: deque[tuple[Watched, Sequence[Event]]] = deque()
        self._waiting = 0  # facts in it
        self._counts: defaultdict[type, int] = defaultdict(int)  # of one look
        self._known: OrderedDict[str, _Execution] = OrderedDict()
        measures.book.before.append(self.look)
        self._kinds: dict[tuple[str, str, bool], dict[str, str]] = {}
        self._seers: dict[type, Callable[[Watched, _Execution, Any, datetime], None]] = {
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

    def __call__(self, live: Watched, events: Sequence[Event]) -> None:
        self._told.append((live, events))
        self._waiting += len(events)
        if self._waiting >= FACTS_MAX:
            self.look()

    def look(self) -> None:
        """Count what has been told up to now."""
        self._waiting = 0
        while self._told:
            self._look_at(*self._told.popleft())
        for kind, count in self._counts.items():
            self._meters.facts.values[_TAGS[kind]] += count
        self._counts.clear()

    def _look_at(self, live: Watched, events: Sequence[Event]) -> None:
        known = self._known.get(live.id)
        if known is None:
            known = self._remember(live)
        counts, seers = self._counts, self._seers
        for _, at, fact in events:
            kind = fact.__class__
            counts[kind] += 1
            if kind in seers:
                seers[kind](live, known, fact, at)

    def _remember(self, live: Watched) -> _Execution:
        if len(self._known) >= EXECUTIONS_MAX:
            self._known.popitem(last=False)
        known = self._known[live.id] = _Execution(self._measures.playbook(live.program.playbook.path))
        return known

    def _requested(self, _live: Watched, known: _Execution, _fact: facts.Requested, at: datetime) -> None:
        known.begun_at = at
        self._meters.started.add(known.playbook)

    def _scheduled(self, live: Watched, known: _Execution, fact: facts.StepScheduled, at: datetime) -> None:
        program = live.program
        key = (program.digest, fact.step, fact.parent is not None)
        kinds = self._kinds.get(key)
        if kinds is None:
            kinds = self._kinds_of(program, key)
        known.runs[fact.run] = _Run(at, kinds, not fact.loop)

    def _kinds_of(self, program: Program, key: tuple[str, str, bool]) -> dict[str, str]:
        if len(self._kinds) >= PIPELINES_MAX:
            self._kinds.clear()
        tasks = program.pipeline(key[1], block=key[2]).tasks
        kinds = self._kinds[key] = {task.name: self._measures.kind(task.kind) for task in tasks}
        return kinds

    def _called(self, _live: Watched, known: _Execution, fact: facts.TaskDone, _at: datetime) -> None:
        name, index = frame_parts(fact.frame)
        run = known.runs.get(name)
        if run is None:
            return
        kind = run.kinds.get(fact.task, UNKNOWN)
        if fact.started_at is not None:
            self._meters.task_s.see(fact.ms / 1000, (kind, fact.status))
            if index is None and fact.call == 1 and run.waits:
                self._wait_s.see((fact.started_at - run.scheduled_at).total_seconds())
        if fact.directive == "retry":
            self._meters.retries.add(kind)

    def _iterated(
        self,
        _live: Watched,
        _known: _Execution,
        fact: facts.IterationDone | facts.IterationFailed,
        _at: datetime,
    ) -> None:
        self._meters.iterations.values["ok" if type(fact) is facts.IterationDone else "error"] += 1

    def _ended(
        self,
        _live: Watched,
        known: _Execution,
        fact: facts.StepDone | facts.LoopDone | facts.StepFailed,
        at: datetime,
    ) -> None:
        run = known.runs.pop(fact.run or "", None)
        if run is not None:
            status = "error" if type(fact) is facts.StepFailed else "ok"
            self._step_s[status].see((at - run.scheduled_at).total_seconds())

    def _processed(self, live: Watched, known: _Execution, fact: facts.Processed, at: datetime) -> None:
        self._meters.ended.add((known.playbook, fact.status))
        if known.begun_at is not None:
            self._meters.execution_s.see((at - known.begun_at).total_seconds(), fact.status)
        self._known.pop(live.id, None)
