"""Tokens, runs and iterations at each step after each fact, sampled for drawings."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from msgspec import Struct
from msgspec.structs import astuple

from noetl.engine import facts
from noetl.engine.facts import Fact
from noetl.engine.state import State
from noetl.ids import frame_parts

Sample: TypeAlias = tuple[int, ...]  # the seq, then the counts after it

SAMPLES_MAX = 600
_PROGRESS = frozenset({facts.TaskDone, facts.IterationDone})  # most facts of a long log; they take and make no token
_NONE: list[tuple[str, bool]] = []


class Track:
    """Samples in the order of the log; the last one is always exact."""

    def __init__(self, samples_max: int = SAMPLES_MAX) -> None:
        self._max = samples_max
        self._samples: list[tuple[Sample, bool]] = []  # (sample, is it a turning point, or only progress)
        self._stride = 1

    def put(self, seq: int, *counts: int, turn: bool = True) -> None:
        """`turn`: something started or ended; such samples are dropped last."""
        samples = self._samples
        if samples and samples[-1][0][0] == seq:
            turn = turn or samples.pop()[1]
        elif not turn and len(samples) > 1 and not samples[-1][1] and seq - samples[-2][0][0] < self._stride:
            samples.pop()
        samples.append(((seq, *counts), turn))
        if len(samples) > self._max:
            self._thin()

    def _thin(self) -> None:
        """Drop half of the progress samples; when there are none, half of the turning points."""
        self._stride *= 2
        kept, odd = [], False
        progress = any(not turn for _, turn in self._samples[:-1])
        for sample in self._samples[:-1]:
            if sample[1] and progress:
                kept.append(sample)
            else:
                odd = not odd
                if odd:
                    kept.append(sample)
        self._samples = [*kept, self._samples[-1]]

    def samples(self) -> tuple[Sample, ...]:
        return tuple(sample for sample, _ in self._samples)


class StepCount(Struct, kw_only=True):
    """Counts of one step. Of the blocks that it calls, only retries count."""

    tokens: int = 0  # tokens at the step: not yet tried, not admitted, or waiting at a join
    waiting: int = 0  # tokens of these that were not admitted
    scheduled: int = 0  # runs that no worker has started
    running: int = 0
    parked: int = 0  # runs of these without a loop that wait and occupy no worker
    ok: int = 0
    failed: int = 0
    handled: int = 0  # failed runs whose failure an arc has handled
    stopped: int = 0  # stopped with the execution, or by its cancellation
    retries: int = 0  # retries of tasks
    total: int = 0  # iterations of the newest loop
    done: int = 0
    lost: int = 0


class _Live(Struct, kw_only=True):
    """A run that has not been routed."""

    step: str  # of a block: the step around it
    block: bool
    begun: bool = False
    parked: bool = False
    failed: bool | None = None  # None: it has not ended


class Counts:
    """Receives each fact before and after it is applied."""

    NAMES: ClassVar = StepCount.__struct_fields__

    def __init__(self) -> None:
        self.tracks: dict[str, Track] = {}
        self._counts: dict[str, StepCount] = {}
        self._runs: dict[str, _Live] = {}
        self._ended_as: dict[str, tuple[str, ...]] = {}  # run → the counts that include it, for a retry
        self._spent: list[tuple[str, bool]] = []  # consumed tokens: (step, had it waited)

    def before(self, state: State, fact: Fact) -> None:
        """Call before the fact is applied, while what it removes still exists."""
        if type(fact) in _PROGRESS:
            self._spent = _NONE
            return
        taken = fact.tokens if isinstance(fact, facts.StepScheduled | facts.StepFailed) else ()
        self._spent = [(state.tokens[id].step, _has_waited(state, id)) for id in taken if id in state.tokens]

    def after(self, state: State, fact: Fact, seq: int) -> None:
        if type(fact) in _PROGRESS:
            for step in self._frames(state, fact):
                self._put(step, seq, turn=False)
            return
        touched: dict[str, bool] = {}  # step → is it a turning point, or only progress
        for step, waited in self._spent:
            count = self._at(step)
            count.tokens -= 1
            count.waiting -= waited
            touched[step] = True
        for step in (*self._tokens(state, fact), *self._steps(state, fact)):
            touched[step] = True
        for step in self._frames(state, fact):
            touched.setdefault(step, False)
        for step, turn in touched.items():
            self._put(step, seq, turn=turn)

    def _put(self, step: str, seq: int, *, turn: bool) -> None:
        track = self.tracks.get(step)
        if track is None:
            track = self.tracks[step] = Track()
        track.put(seq, *astuple(self._at(step)), turn=turn)

    def _at(self, step: str) -> StepCount:
        return self._counts.setdefault(step, StepCount())

    def _tokens(self, state: State, fact: Fact) -> list[str]:
        """The steps whose tokens have changed, except by consumption."""
        match fact:
            case facts.StepWaiting(token=id, limit=None):
                step = state.tokens[id].step
                self._at(step).waiting += 1
                return [step]
            case facts.Started(token=token):
                made: tuple[facts.Token, ...] = (token,)
            case facts.NextEvaluated(tokens=tokens):
                made = tokens
            case facts.Retried(tokens=ids):
                made = tuple(state.tokens[id] for id in ids)
                for token in made:
                    self._at(token.step).failed -= 1
            case _:
                return []
        for token in made:
            self._at(token.step).tokens += 1
        return [token.step for token in made]

    def _steps(self, state: State, fact: Fact) -> list[str]:
        """The steps of which a run has started, ended or been routed."""
        match fact:
            case facts.StepScheduled():
                return self._scheduled(fact)
            case facts.StepStarted(run=run):
                return self._begun(run)
            case facts.StepDone(run=run) | facts.LoopDone(run=run):
                return self._ended(run, failed=False)
            case facts.StepFailed(run=str(run), error=error):
                return self._ended(run, failed=True, stopped=state.status == "cancelling" and error.kind == "cancelled")
            case facts.StepFailed(run=None):
                for step, _ in self._spent[:1]:
                    self._at(step).failed += 1
            case facts.NextEvaluated():
                return self._routed(fact)
            case facts.Finished() | facts.Compensating():
                return self._finished()
        return []

    def _scheduled(self, fact: facts.StepScheduled) -> list[str]:
        if fact.parent is not None:
            around = self._runs[frame_parts(fact.parent)[0]].step
            self._runs[fact.run] = _Live(step=around, block=True)
            return []
        self._runs[fact.run] = _Live(step=fact.step, block=False)
        count = self._at(fact.step)
        count.scheduled += 1
        for name in self._ended_as.pop(fact.retry_of or "", ()):
            setattr(count, name, getattr(count, name) - 1)
        return [fact.step]

    def _begun(self, run: str) -> list[str]:
        live = self._runs[run]
        if live.block or live.begun:
            return []
        live.begun = True
        count = self._at(live.step)
        count.scheduled, count.running = count.scheduled - 1, count.running + 1
        return [live.step]

    def _ended(self, run: str, *, failed: bool, stopped: bool = False) -> list[str]:
        live = self._runs[run]
        if live.block:
            del self._runs[run]
            return []
        live.failed = failed
        count = self._at(live.step)
        self._out(count, live)
        self._stand(run, count, "stopped" if stopped else "failed" if failed else "ok")
        return [live.step]

    def _stand(self, run: str, count: StepCount, *names: str) -> None:
        """Count the run in these counts only."""
        for name in self._ended_as.pop(run, ()):
            setattr(count, name, getattr(count, name) - 1)
        for name in names:
            setattr(count, name, getattr(count, name) + 1)
        self._ended_as[run] = names

    def _out(self, count: StepCount, live: _Live) -> None:
        """The run is no longer scheduled or running."""
        count.running -= live.begun
        count.scheduled -= not live.begun
        count.parked -= live.parked
        live.parked = False

    def _routed(self, fact: facts.NextEvaluated) -> list[str]:
        live = self._runs.pop(fact.run)
        count = self._at(live.step)
        if fact.error is not None:
            self._stand(fact.run, count, "failed")
        elif live.failed and (fact.tokens or fact.ended):
            self._stand(fact.run, count, "failed", "handled")
        return [live.step]

    def _finished(self) -> list[str]:
        """Unfinished runs are stopped with the execution."""
        touched = []
        for run, live in [*self._runs.items()]:
            if live.failed is not None:
                continue  # it has ended; a retry may still route it
            del self._runs[run]
            if not live.block:
                count = self._at(live.step)
                self._out(count, live)
                self._stand(run, count, "stopped")
                touched.append(live.step)
        return touched

    def _frames(self, state: State, fact: Fact) -> list[str]:
        """Progress inside a run."""
        match fact:
            case facts.TaskDone():
                if not (again := fact.repeats):
                    return []
                step = self._runs[frame_parts(fact.frame)[0]].step
                self._at(step).retries += again
                return [step]
            case facts.IterationDone(run=run):
                return self._counted(state, run)
            case facts.FrameParked(frame=frame) | facts.FrameResumed(frame=frame):
                return self._parked(frame, parked=isinstance(fact, facts.FrameParked))
            case (
                facts.LoopStarted(run=run)
                | facts.IterationFailed(run=run)
                | facts.StepScheduled(run=run, retry_of=str())
            ):
                return self._counted(state, run)
        return []

    def _parked(self, frame: str, *, parked: bool) -> list[str]:
        run, index = frame_parts(frame)
        live = self._runs[run]
        if index is not None or live.block or live.parked == parked:
            return []
        live.parked = parked
        self._at(live.step).parked += 1 if parked else -1
        return [live.step]

    def _counted(self, state: State, run: str) -> list[str]:
        live, loop = self._runs[run], state.runs[run].loop
        if live.block or loop is None:
            return []
        count = self._at(live.step)
        count.total, count.done, count.lost = loop.count, loop.succeeded, loop.failed
        return [live.step]


def _has_waited(state: State, token: str) -> bool:
    return token in state.waiting or token in state.joins.get(state.tokens[token].step, ())
