"""Run an execution to its end. A schedule determines the order and size of reports, and the interfering commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeAlias
from zlib import crc32

import msgspec
import pytest
from msgspec.structs import replace

from noetl.checks.checker import check
from noetl.engine import Agenda, Event, Recorded, apply, handle
from noetl.engine.apply import advance
from noetl.engine.commands import (
    LEVEL,
    Cancel,
    Close,
    Command,
    Expire,
    Pause,
    Report,
    Resume,
    Retry,
    Signal,
    Start,
    Wake,
)
from noetl.engine.facts import Fact, ForChild, ForSignal, ForTime, FrameParked, TaskDone
from noetl.engine.moves import Answered, Decided, Park, RunTask, Wait, Work, due, work_of
from noetl.engine.pipeline import next_move, take
from noetl.engine.state import Frame, State
from noetl.errors import Rejected
from noetl.net.program import Program
from noetl.output import JSON, Output
from tests.playbooks import kinds
from tests.properties.executable import CallOutputs

START = datetime(2026, 1, 1, tzinfo=UTC)
TURNS_MAX = 5_000  # far more than any of these playbooks needs
RETRIES_MAX = 2
Listener: TypeAlias = Callable[[Command, list[Event]], None]

_encode = msgspec.json.Encoder().encode
_fact = msgspec.json.Decoder(Fact).decode


def compiled(document: dict[str, JSON]) -> Program:
    checked = check(json.dumps(document), kinds(), "random.yaml")
    assert checked.errors == ()
    assert checked.program is not None
    return checked.program._replace(digest="digest")


def plain(state: State) -> JSON:
    return msgspec.to_builtins(state)


def read_back(event: Event) -> Event:
    """The event after encoding and decoding, as from a disk."""
    return replace(event, fact=_fact(_encode(event.fact)))


def folded(log: list[Event]) -> State:
    state = State(execution_id="e")
    for event in map(read_back, log):
        apply(state, event.fact, event.at)
    return state


class Drive:
    """One execution. Every choice depends only on the schedule and the turn, so that a run can be repeated."""

    def __init__(self, program: Program, outputs: CallOutputs, schedule: int, *, wild: bool = False) -> None:
        self.program, self.outputs, self.schedule, self.wild = program, outputs, schedule, wild
        self.state = State(execution_id="e")
        self.agenda: Agenda | None = {}
        self.log: list[Event] = []
        self.at = START
        self.turn = 0
        self.retries = 0
        self.sent: list[Report] = []
        self.sights: dict[tuple[str, int, bool], JSON] = {}
        self.listeners: list[Listener] = []

    def pick(self, of: int, what: str) -> int:
        return crc32(f"{self.schedule}/{self.turn}/{what}".encode()) // 7 % of

    def run(self) -> Drive:
        self.commit(Start(workload={}, level=LEVEL))
        while self.state.live or self.again():
            self.turn += 1
            assert self.turn < TURNS_MAX, "the execution does not end"
            self.at += timedelta(milliseconds=self.pick(3_000, "time"))
            if not (self.wild and self.interfere()):
                self.go_on()
        return self

    def again(self) -> bool:
        """Sometimes retry an execution that failed or was cancelled (D69)."""
        self.turn += 1
        if not self.wild or self.state.status == "ok" or self.pick(2, "again") or self.retries == RETRIES_MAX:
            return False
        self.retries += 1
        try:
            self.commit(self.retry())
        except Rejected:
            return False
        return self.state.live or self.again()

    def retry(self) -> Retry:
        """Of everything that failed, or of one iteration."""
        from_start = self.pick(3, "from start") == 0
        loops = [
            (run.step, run.loop.again)
            for run in self.state.failed.values()
            if run.loop is not None and run.loop.again and run.loop.conflict is None and not run.loop.unended
        ]
        if self.state.compensation is None and loops and self.pick(2, "one iteration"):
            step, failed = loops[0]
            return Retry(step=step, iterations=(failed[0][0],), from_start=from_start)
        return Retry(from_start=from_start)

    def commit(self, command: Command) -> None:
        events = handle(self.program, self.state, command, self.at, self.agenda)
        self.log += events
        for listener in self.listeners:
            listener(command, events)

    def interfere(self) -> bool:
        """Interfere as users and bad networks do."""
        match self.pick(48, "meddle"):
            case 0 if self.state.status == "running":
                self.commit(Pause())
            case 1 | 2 | 3 if self.state.status == "paused":
                self.commit(Resume())
            case 4 if self.state.status != "cancelling" and self.pick(4, "cancel") == 0:
                undoing = self.state.compensation is not None
                self.commit(Cancel(reason="enough", compensate=not undoing and bool(self.pick(2, "compensate"))))
            case 5 | 6 | 7 | 8 | 9 | 10 if self.sent:
                self.refused(self.sent[self.pick(len(self.sent), "again")])
            case 11 if self.sent:
                old = self.sent[self.pick(len(self.sent), "again")]
                self.refused(replace(old, position=old.position + 1_000, epoch=(9, 9)))
            case _:
                return False
        return True

    def refused(self, report: Report) -> None:
        """A repeated report, or one with an older epoch, has no effect."""
        before = plain(self.state)
        with pytest.raises((Recorded, Rejected)):
            handle(self.program, self.state, report, self.at, self.agenda)
        assert plain(self.state) == before

    def go_on(self) -> None:
        late = [run.id for run in self.state.runs.values() if run.output is None and self.late(run.id)]
        ways: list[Callable[[], None]] = [
            *(partial(self.work, frame) for frame in due(self.state)),
            *(partial(self.wake, frame) for frame in self.parked()),
            *(partial(self.commit, Expire(run=run)) for run in late),
        ]
        if ways:
            ways[self.pick(len(ways), "way")]()
        elif self.state.status == "paused":
            self.commit(Resume())
        else:
            assert self.state.status == "cancelling", "nothing is due, and the execution has not ended"
            self.commit(Close())

    def late(self, run: str) -> bool:
        """Whether the time of a run is over. A pause stops timeouts, and not deadlines (D33)."""
        found = self.state.runs[run]
        ends = [found.deadline_at, None if self.state.paused_at else found.timeout_at]
        return any(each is not None and each <= self.at for each in ends)

    def frames(self) -> list[Frame]:
        return [frame for run in self.state.runs.values() for frame in run.frames.values()]

    def parked(self) -> list[Frame]:
        """Frames that wait for an event from outside, unless the execution is paused or cancelled."""
        if self.state.status != "running":
            return []
        return [frame for frame in self.frames() if isinstance(frame.parked, ForTime | ForSignal | ForChild)]

    def wake(self, frame: Frame) -> None:
        match frame.parked:
            case ForTime(at=at):
                self.at = max(self.at, at)
                self.commit(Wake(frame=frame.id, output=Output()))
            case ForSignal(name=name):
                self.commit(Signal(name=name, data={"n": 1}))
            case _:
                self.commit(Wake(frame=frame.id, output=self.outputs.answer(frame.id, "child", frame.calls, 1)))

    def work(self, frame: str) -> None:
        """A worker runs some calls of the frame, and reports them together."""
        work = work_of(self.program, self.state, frame)
        position, epoch = work.frame.calls, (1, self.turn)
        made: list[TaskDone] = []
        parked: FrameParked | None = None
        for _ in range(1 + self.pick(4, "calls")):
            fact = self.call(work)
            if isinstance(fact, FrameParked):
                parked = replace(fact, epoch=epoch)
            if not isinstance(fact, TaskDone):
                break
            made.append(fact if made else replace(fact, epoch=epoch))
            advance(work.frame, made[-1])
        assert made or parked, "a due frame has nothing to do"
        report = Report(frame=frame, position=position, facts=tuple(made), parked=parked, epoch=epoch)
        known = next((each.epoch for each in self.frames() if each.id == frame), None)
        if self.wild and known is not None and self.pick(6, "fenced") == 0:
            self.refused(replace(report, epoch=(known[0], known[1] - 1)))
        self.commit(report)
        self.sent.append(report)
        if self.wild and self.state.live and self.pick(6, "twice") == 0:
            with pytest.raises(Recorded):
                handle(self.program, self.state, report, self.at, self.agenda)

    def call(self, work: Work) -> TaskDone | FrameParked | None:
        while isinstance(move := next_move(work, self.at), Wait):
            self.at = max(self.at, move.until)
        match move:
            case Decided(fact=fact):
                return fact
            case Park(fact=parked):
                return parked
            case Answered(output=output):
                return take(work, move, output, self.at)
            case RunTask():
                is_noop = move.task.kind == "noop"
                output = Output(data=move.input or work.frame.prev) if is_noop else self.answer(work, move)
                return take(work, move, output, self.at)
        return None

    def answer(self, work: Work, called: RunTask) -> Output:
        """The output of a call depends on its place and its attempt."""
        return self.outputs.answer(work.frame.id, called.task.name, work.frame.entries, called.attempt)

    def look(self) -> None:
        """A frame has the same view of ctx at any time (D28a)."""
        for frame in due(self.state):
            work = work_of(self.program, self.state, frame)
            sight = msgspec.to_builtins((work.frame, work.place))
            when = (frame, work.frame.calls, work.frame.answer is not None)
            assert self.sights.setdefault(when, sight) == sight
