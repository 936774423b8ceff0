"""One execution in memory: its state, its pending work, and its snapshots."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias, TypeVar

from msgspec import Struct

from noetl.engine import Agenda, agenda_of, apply
from noetl.engine.commands import Command, Expire, Report, Start
from noetl.engine.delegation import is_decision, is_pending, pipeline_of
from noetl.engine.limits import Permit, is_waiting
from noetl.engine.settle import delegated
from noetl.engine.state import State
from noetl.errors import Rejected, Unavailable
from noetl.ids import frame_parts
from noetl.net.program import Program
from noetl.output import JSON, Failure
from noetl.ports import Epoch, LogRow, PersonWait
from noetl.slices import turn


def fold(state: State, rows: Iterable[LogRow]) -> None:
    """Apply the rows to a state, which is empty or comes from a snapshot."""
    for row in rows:
        for fact in row.facts[max(0, state.seq + 1 - row.first_seq) :]:
            apply(state, fact, row.at)


T = TypeVar("T")

ANSWERS_PER_TURN = 64  # then other executions have their turn; fewer would slow wide loops by a tenth
CERTAIN_FACTOR = 4  # this many times the usual number of lost workers is proof, regardless of what else they ran


UNKNOWN_WORKER = "?"  # its grant is unknown here: another server made it, or this one before a reload


class DispatchedFrame(Struct, frozen=True):
    """A frame in flight: a pointer to it is in the queue, or a worker holds it."""

    until: float  # on our monotonic clock: after this the frame counts as lost
    pool: str
    worker: str = ""  # "": no worker has begun it
    epoch: Epoch = (0, 0)  # of its last grant
    at: float = 0.0  # on our monotonic clock: since when it waits in the queue, or the worker holds it
    direct: bool = False  # the pointer did not pass through the queue: a worker of this process has it


class LostWorkers(NamedTuple):
    """The workers that vanished one after the other while they held a frame, since its last progress."""

    workers: int = 0
    company: int = 0  # frames that these workers held, including this one

    def blames_frame(self, enough: int) -> bool:
        """Whether the frame is the likely cause.

        It is, when as many workers vanished with it as each of them held frames: the others completed.
        """
        if self.workers < enough:
            return False
        return self.workers**2 >= self.company or self.workers >= CERTAIN_FACTOR * enough

    def makes_suspect(self, enough: int) -> bool:
        """Whether the frame would be blamed for the next lost worker. So it must not run beside another such frame."""
        return not self.blames_frame(enough) and LostWorkers(self.workers + 1, self.company + 1).blames_frame(enough)


NONE_LOST = LostWorkers()


def lost_workers(live: LiveExecution, frame: str) -> LostWorkers:
    """As known here; after a load, as recorded in the log."""
    known = live.lost.get(frame)
    if known is not None:
        return known
    run, index = frame_parts(frame)
    owner = live.state.runs.get(run)
    recorded = owner.frames.get(index) if owner is not None else None
    return NONE_LOST if recorded is None else LostWorkers(recorded.lost, recorded.lost_held)


class PendingCommand(Struct, frozen=True):
    """A command that waits for its commit. Its answer is computed from the committed state."""

    command: Command | None  # None: only decide what remains to be decided
    answer: asyncio.Future[Any]
    then: Callable[[], object]


class PendingRead(Struct, frozen=True):
    """A function that waits for the committed state."""

    then: Callable[[], object]
    answer: asyncio.Future[Any]


Item: TypeAlias = PendingCommand | PendingRead


class LiveExecution(Struct, eq=False, weakref=True):
    """Two tasks never use it at the same time during a commit: all access goes through its inbox."""

    id: str
    program: Program
    owner: int  # our number
    state: State
    agenda: Agenda = {}
    inbox: list[Item] = []
    busy: bool = False
    abandoned: bool = False  # its state may differ from the log: it must no longer be used
    # Pool → frames to dispatch, in order. A plain dict would skip all that were taken to find its first one.
    ready: dict[str, OrderedDict[str, None]] = {}
    in_flight: dict[str, DispatchedFrame] = {}
    in_pool: dict[str, int] = {}  # pool → frames in flight
    lost: dict[str, LostWorkers] = {}  # by frame
    resent: set[str] = set()  # frames with several pointers in the queue
    lost_frames: set[str] = set()  # frames that have ever lost a worker: only these can be suspects
    unclaimed: dict[str, int] = {}  # pool → pointers in flight that no worker has claimed yet
    quiet_until: float = 0.0  # on our monotonic clock: until then workers report the frames they hold
    leads: int = 0  # callers that have committed for others
    streak: int = 0  # frames granted without a pointer while other executions waited
    dispatched: int = 0
    opening: dict[str, dict[str, JSON]] = {}  # run → the Ref of the items that a worker reads
    permits: dict[str, Permit] = {}  # that it holds or waits for, by id
    closing: set[str] = set()  # runs of loops whose results a worker evaluates
    waits: tuple[PersonWait, ...] = ()  # as its head shows them
    unaware: set[str] = set()  # frames in flight that were granted before a breakpoint was set
    told: set[object] = set()  # notifications that no longer need to be started
    started_at: datetime | None = None  # None: not read from the log yet
    unsaved_bytes: int = 0  # of the log since the last snapshot
    saved_bytes: int = 0  # size of the last snapshot
    due_bytes: int = 0  # `unsaved_bytes` at which the next snapshot is due; 0: not computed yet
    to_measure: bool = False  # a snapshot is due because all states together may exceed their limit
    excess: Failure | None = None  # the limit that its state exceeds: it ends with the next commit

    def restore(self, state: State) -> None:
        """Continue from a state that was read from the log."""
        self.state, self.agenda = state, agenda_of(state)
        unfinished = [run for run in state.runs.values() if run.output is None]
        self.lost_frames = {frame.id for run in unfinished for frame in run.frames.values() if frame.lost}

    @property
    def state_bytes(self) -> int:
        """An upper bound of the size of the state: the last snapshot, and all that the log has grown since then."""
        return self.saved_bytes + self.unsaved_bytes


def ensure_usable(live: LiveExecution) -> None:
    """Raises Unavailable for an abandoned execution: its state may not be in the log."""
    if live.abandoned:
        raise Unavailable(f"{live.id} is being reloaded from the log")


def pool_of(live: LiveExecution, frame: str) -> str:
    """The pool whose workers run this frame, or make this decision."""
    run = live.state.runs.get(frame_parts(frame)[0])
    if run is None:
        return pipeline_of(live.program, live.state, frame).pool
    return live.program.pipeline(run.step, block=run.block).pool


def expire(live: LiveExecution, id: str) -> Expire:
    """The command that ends a run whose time has passed."""
    run = live.state.runs.get(id)
    if run is None:
        return Expire(run=id)
    pipeline = live.program.pipeline(run.step, block=run.block)
    return Expire(run=id, timeout_s=pipeline.timeout_s, deadline_s=pipeline.deadline_s)


def is_due(live: LiveExecution, frame: str) -> bool:
    """Whether a worker could begin it now."""
    return live.state.status == "running" and live.state.held is None and is_open(live, frame)


def is_open(live: LiveExecution, frame: str) -> bool:
    """Whether the worker that holds it may continue. Running calls finish during a pause (D67)."""
    owner, index = frame_parts(frame)
    run = live.state.runs.get(owner)
    if run is None:
        return is_decision(frame) and frame in delegated(live.agenda) and is_pending(live.state, frame)
    if run.output is not None or is_waiting(run):
        return False
    if run.loop is None:
        if run.looped:
            return index is None and frame in live.opening
        if index is not None:
            return False
    elif index is None:
        return frame in live.closing
    elif index not in run.loop.flying:
        return False
    known = run.frames.get(index)
    return known is None or (known.parked is None and known.pc >= 0)


def is_alone(live: LiveExecution) -> bool:
    """Whether its first caller reports the only frame in flight, or starts it: no other report can join the commit."""
    first = live.inbox[0]
    return len(live.in_flight) <= 1 and isinstance(first, PendingCommand) and type(first.command) in (Report, Start)


async def answer_all(batch: Sequence[Item], refused: Mapping[asyncio.Future[object], Rejected]) -> None:
    """In portions: an execution with many reports must not block other executions."""
    for answer, refusal in refused.items():
        if not answer.done():
            answer.set_exception(refusal)
    left = iter([item for item in batch if item.answer not in refused] if refused else batch)
    try:
        for number, item in enumerate(left, 1):
            resolve(item.answer, item.then())
            if number % ANSWERS_PER_TURN == 0:
                await turn()
    finally:
        for item in left:  # on cancellation: no caller waits forever
            resolve(item.answer, item.then())


def resolve(future: asyncio.Future[T], value: T) -> None:
    if not future.done():
        future.set_result(value)
