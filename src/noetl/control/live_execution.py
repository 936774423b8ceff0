"""One execution in a server's hands: its state, and what is known of it that is not on record."""

from __future__ import annotations

import asyncio
import types
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from noetl.engine import Agenda
from noetl.engine.commands import Command
from noetl.engine.state import State
from noetl.errors import Unavailable
from noetl.ids import frame_parts
from noetl.net.program import Program
from noetl.output import JSON
from noetl.ports import Epoch

T = TypeVar("T")

ANSWERS_PER_TURN = 64  # then other executions have their turn; fewer would cost wide loops a tenth
SURELY = 4  # times the workers that are enough: then it is the cause, whatever else they had in hand


class Out(NamedTuple):
    """A frame that is out: a pointer to it is on its way, or a worker has it."""

    until: float  # by our own monotonic clock: then it counts as lost
    pool: str
    worker: str = ""  # "": nobody has begun it
    epoch: Epoch = (0, 0)  # of its last grant


class Lost(NamedTuple):
    """Workers that vanished while they had a frame, one after the other, since it last got on."""

    workers: int = 0
    company: int = 0  # frames that they had in hand, this one among them

    def is_the_cause(self, enough: int) -> bool:
        """It is, when as many were lost with it as each of them had frames: the others came to their ends."""
        many = self.workers**2 >= self.company or self.workers >= SURELY * enough
        return self.workers >= enough and many


class PendingCommand(NamedTuple):
    """A command that waits for its commit. Its answer is given after that, from the committed state."""

    command: Command | None  # None: only what follows of itself
    answer: asyncio.Future[Any]
    then: Callable[[], object]


class PendingRead(NamedTuple):
    """Something to be asked of the committed state."""

    then: Callable[[], object]
    answer: asyncio.Future[Any]


Item: TypeAlias = PendingCommand | PendingRead


class LiveExecution:
    """Never seen by two tasks at once while a commit is out: everything goes through its inbox."""

    def __init__(self, execution_id: str, program: Program, owner: int) -> None:
        self.id = execution_id
        self.program = program
        self.owner = owner  # our number
        self.state = State(execution_id=execution_id)
        self.agenda: Agenda = {}
        self.inbox: deque[Item] = deque()
        self.busy = False
        self.given_up = False  # its state may not be what is on record: nobody may use it
        self.ready: dict[str, dict[str, None]] = {}  # pool → frames to be handed out, in order
        self.out: dict[str, Out] = {}
        self.lost: dict[str, Lost] = {}  # by frame
        self.unbegun: dict[str, int] = {}  # pool → pointers of `out` that nobody has followed yet
        self.quiet_until = 0.0  # by our own monotonic clock: until then workers may tell what they have of it
        self.streak = 0  # frames that were handed on without a pointer while others waited
        self.dispatched = 0
        self.opening: dict[str, dict[str, JSON]] = {}  # run → the Ref whose items a worker is to read
        self.closing: set[str] = set()  # runs of loops of whose results a worker is to evaluate what is read
        self.unsaved = 0  # facts since the last snapshot
        self.saved_bytes = 0  # size of the last snapshot


def refuse_given_up(live: LiveExecution) -> None:
    """Someone kept hold of it while it was given up: what its state says may be on nobody's record."""
    if live.given_up:
        raise Unavailable(f"{live.id} is read from the log anew")


def pool_of(live: LiveExecution, frame: str) -> str:
    """Whose workers may have it."""
    run = live.state.runs[frame_parts(frame)[0]]
    return live.program.pipeline(run.step, block=run.block).pool


def is_due(live: LiveExecution, frame: str) -> bool:
    """Could a worker take it up now?"""
    return live.state.status == "running" and is_open(live, frame)


def is_open(live: LiveExecution, frame: str) -> bool:
    """May whoever has it go on with its call? While an execution is paused calls that run finish (D67)."""
    owner, index = frame_parts(frame)
    run = live.state.runs.get(owner)
    if run is None or run.output is not None:
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


@types.coroutine
def turn() -> Generator[None, None, None]:
    """Let everyone else who is ready go first, once."""
    yield


async def answer_all(batch: Sequence[Item]) -> None:
    """Some at a time: an execution that many workers report to does not keep others from theirs."""
    left = iter(batch)
    try:
        for number, item in enumerate(left, 1):
            resolve(item.answer, item.then())
            if number % ANSWERS_PER_TURN == 0:
                await turn()
    finally:
        for item in left:  # it is our end, and nobody waits for ever
            resolve(item.answer, item.then())


def resolve(future: asyncio.Future[T], value: T) -> None:
    if not future.done():
        future.set_result(value)
