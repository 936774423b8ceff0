"""An audit of a fork: its log together with the log that it was forked from.

It does not use the plan. Each kept call is compared with the recorded one, and, with the playbooks at hand, with the
call that the new execution would make at its place.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from noetl.engine import Event, apply
from noetl.engine.facts import ForkOrigin, Requested, StepScheduled, TaskDone
from noetl.engine.moves import RunTask, work_of
from noetl.engine.pipeline import next_move
from noetl.engine.state import State
from noetl.ids import frame_parts
from noetl.net.program import CompiledTask, Program
from noetl.views.audit import AuditFinding

_SAME = ("task", "directive", "next", "attempt", "status", "output", "set", "error", "picked", "input_hash", "stored")
_OTHER_IN_A_FORK = frozenset({"execution_id", "keychain"})  # what a task reads here says nothing about its call


class ForkPrograms(NamedTuple):
    old: Program
    new: Program


def origin_of(events: Iterable[Event]) -> ForkOrigin | None:
    """None: the execution is not a fork."""
    first = next(iter(events), None)
    return first.fact.fork if first is not None and isinstance(first.fact, Requested) else None


def fork_findings(
    execution_id: str, events: Iterable[Event], origin: Iterable[Event], programs: ForkPrograms | None = None
) -> list[AuditFinding]:
    """Everything that is wrong with the kept calls of a fork. `programs` None: only the facts are compared."""
    audit = ForkAudit(execution_id, programs)
    for event in origin:
        audit.feed_origin(event)
    for event in events:
        audit.feed(event)
    return audit.found


class ForkAudit:
    """Reads the log of a fork event by event, after the one that it was forked from, whose calls it holds."""

    def __init__(self, execution_id: str, programs: ForkPrograms | None) -> None:
        self.found: list[AuditFinding] = []
        self._old: dict[int, TaskDone] = {}
        self._old_steps: dict[str, str] = {}  # run → step or block
        self._programs = programs
        self._state = State(execution_id=execution_id)
        self._fork: ForkOrigin | None = None
        self._steps: dict[str, str] = {}
        self._taken: set[int] = set()  # seqs of the old log
        self._last: dict[str, int] = {}  # frame → the seq of its last kept call
        self._made: set[str] = set()  # frames that have made a call of their own
        self._seq = 0

    def report(self, code: str, message: str) -> None:
        self.found.append(AuditFinding(seq=self._seq, code=code, message=message))

    def feed_origin(self, event: Event) -> None:
        match event.fact:
            case TaskDone() as fact:
                self._old[event.seq] = fact
            case StepScheduled(run=run, step=step):
                self._old_steps[run] = step

    def feed(self, event: Event) -> None:
        self._seq = event.seq
        match event.fact:
            case Requested(fork=fork):
                self._fork = fork
            case StepScheduled(run=run, step=step):
                self._steps[run] = step
            case TaskDone(kept=0, frame=frame):
                self._made.add(frame)
            case TaskDone() as fact:
                self._kept(event, fact)
        if self._programs is not None:
            apply(self._state, event.fact, event.at)

    def _kept(self, event: Event, fact: TaskDone) -> None:
        old = self._old.get(fact.kept)
        if old is None or self._fork is None or fact.kept > self._fork.seq:
            self.report(
                "kept-unknown", f"{fact.frame} keeps event {fact.kept}, which is not a call that the fork may keep"
            )
            return
        if fact.kept in self._taken:
            self.report("kept-twice", f"{fact.frame} keeps event {fact.kept}, which another frame keeps")
        self._taken.add(fact.kept)
        if fact.frame in self._made or fact.kept < self._last.get(fact.frame, 0):
            self.report("kept-order", f"{fact.frame} keeps event {fact.kept} after a later call")
        self._last[fact.frame] = fact.kept
        if different := [name for name in _SAME if getattr(fact, name) != getattr(old, name)]:
            self.report("kept-differs", f"{fact.frame} keeps event {fact.kept} with another {', '.join(different)}")
        if self._step(fact, self._steps) != self._step(old, self._old_steps):
            self.report("kept-differs", f"{fact.frame} keeps a call of {old.frame}, which is another step")
        if self._programs is not None and not self._fork.failed_only:
            self._check_call(self._programs, event, fact)

    def _step(self, fact: TaskDone, steps: dict[str, str]) -> str:
        return steps.get(frame_parts(fact.frame)[0], "")

    def _check_call(self, programs: ForkPrograms, event: Event, fact: TaskDone) -> None:
        """Would the new execution make this call here?"""
        work = work_of(programs.new, self._state, fact.frame)
        if work.place.items is not None or work.place.stored:
            return  # values are in the result store
        until = work.frame.until
        move = next_move(work, event.at if until is None else max(event.at, until))
        if not isinstance(move, RunTask) or _is_other_in_a_fork(move.task):
            return
        if move.task.name != fact.task:
            self.report("kept-input", f"{fact.frame} keeps a call of {fact.task}, but {move.task.name} is next")
        elif move.input_hash != fact.input_hash:
            self.report("kept-input", f"{fact.frame} keeps a call of {fact.task} with another input")
        elif _text(move.task) != self._old_text(programs.old, fact):
            self.report("kept-text", f"{fact.frame} keeps a call of {fact.task}, which has another text now")

    def _old_text(self, program: Program, fact: TaskDone) -> object:
        run = self._state.runs[frame_parts(fact.frame)[0]]
        try:
            pipeline = program.pipeline(run.step, block=run.block)
        except KeyError:
            return None
        return next((_text(task) for task in pipeline.tasks if task.name == fact.task), None)


def _text(task: CompiledTask) -> tuple[object, ...]:
    return task.kind, task.code, task.auth, task.spec


def _is_other_in_a_fork(task: CompiledTask) -> bool:
    """Is its input known only when the call is made?"""
    values = task.fields, task.input
    return any(value.calls or any(read.path[0] in _OTHER_IN_A_FORK for read in value.reads) for value in values)
