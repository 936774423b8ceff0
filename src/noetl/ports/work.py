"""How work travels: pointers in a queue, grants and reports between workers and owners, and live events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from msgspec import Struct

from noetl.defaults import POOL
from noetl.engine.commands import Command, Report, Start
from noetl.engine.moves import Work
from noetl.output import JSON, Output

Epoch: TypeAlias = tuple[int, int]  # of the partition's owner, and a counter; only the highest one is valid


class Pointer(NamedTuple):
    """A frame that is ready to run. It names the work and does not contain it."""

    execution_id: str
    frame: str
    dispatch: int  # grows each time the owner puts the frame, so that deduplication drops no repetition
    pool: str = POOL  # the workers that may take it


DIRECT: Final = 0


class Claim(NamedTuple):
    """A pointer that a worker has taken."""

    pointer: Pointer
    delivery: int  # the queue's own number of this delivery; DIRECT: the pointer did not pass through it


class WorkQueue(Protocol):
    """Pointers on their way from owners to workers.

    The queue is a copy: the log is the source of truth, and `begin` decides who works on a frame. A queue may
    therefore lose, repeat and reorder pointers. The sweeper puts lost ones again, and the owner refuses
    `begin` for repeated ones.
    """

    async def put(self, pointers: Sequence[Pointer]) -> None:
        """Make the pointers available to workers.

        A pointer that is put twice by its caller is delivered twice: a queue deduplicates only its own
        retries. Raises Unavailable if the queue has not confirmed all of them; some may have been stored.
        """
        ...

    async def take(self, limit: int) -> list[Claim]:
        """Wait for at least one pointer and return up to `limit`.

        May return an empty list after a while, so that callers can check whether to continue. Each pointer goes
        to one taker. A taker that is cancelled loses none: its pointers go to others. Raises Unavailable
        after `leave`.
        """
        ...

    async def done(self, claim: Claim) -> None:
        """The claim needs no further delivery. An unknown or repeated claim is ignored.

        Raises Unavailable if the queue cannot be reached; then the pointer may be delivered again.
        """
        ...


class QueueTraits(NamedTuple):
    """How a queue behaves where implementations may differ."""

    durable: bool  # pointers survive the end of all processes that use the queue
    redelivers: bool  # a claim without `done` is delivered again after `close`, or after a timeout
    separates_pools: bool  # a taker receives only pointers of its own pool


class QueueBackend(WorkQueue, Protocol):
    """A work queue as a runtime opens and closes it."""

    @property
    def traits(self) -> QueueTraits: ...

    async def leave(self) -> None:
        """Take nothing more. Waiting takers return empty lists; `done` still works."""
        ...

    async def close(self) -> None:
        """`leave`, and return claims without `done` to other takers if the queue redelivers."""
        ...


class Grant(Struct, frozen=True):
    """The right to work on a frame until the lease ends."""

    work: Work
    epoch: Epoch
    lease_s: float
    at: datetime  # the owner's time, which the worker uses instead of its own
    lost: int = 0  # that many workers died with the next call, so it must not be made; 0: it may be made


class ReportAnswer(Struct, frozen=True):
    """The owner's answer to a report."""

    word: Literal["go", "stop"]  # go: the report is committed and the worker still holds the frame
    why: str = ""
    next: tuple[Grant, ...] = ()  # frames of the same execution that the worker may run next


class Link(Protocol):
    """Access to the owner of an execution, for workers and other servers.

    Every method answers after the commit. It raises Unavailable if no owner answers; the owner may have acted
    all the same, so callers repeat the request, and every method tolerates repetition. It also raises the
    errors of the owner: NotFound for an unknown execution, Rejected for a request that is not legal now,
    PlaybookError for a playbook that cannot run.
    """

    async def begin(self, execution_id: str, frame: str, worker: str) -> Grant | None:
        """Request the right to run a frame. None: the frame is finished, or another worker holds it."""
        ...

    async def report(self, execution_id: str, report: Report, *, room: int = 0) -> ReportAnswer:
        """Commit the results of calls. `room`: the number of further frames that the worker can run."""
        ...

    async def beat(self, worker: str, holds: Sequence[tuple[str, str, Epoch]]) -> list[tuple[str, str]]:
        """Renew the leases of (execution, frame, epoch). Returns the (execution, frame) pairs to stop."""
        ...

    async def start(self, execution_id: str, digest: str, start: Start) -> None:
        """Start an execution. A known id is ignored, so a repeated start is one start."""
        ...

    async def command(self, execution_id: str, command: Command) -> None:
        """Apply a command such as cancel, pause or signal."""
        ...

    async def iterations(self, execution_id: str, run: str, only: range | None = None) -> list[Output | None]:
        """The outputs of a loop's iterations by index; None for a failed one (D30). `only`: these indexes."""
        ...

    async def parent(self, execution_id: str) -> str | None:
        """The execution whose task started this one; None: a request started it (D58)."""
        ...


class WorkerInfo(NamedTuple):
    """A worker as it announces itself every few seconds."""

    name: str
    pool: str
    slots: int
    busy: int
    host: str
    pid: int
    version: str
    labels: dict[str, str]
    leaving: bool
    at: datetime  # of its last announcement, by the clock of the registry


class WorkerRegistry(Protocol):
    """The workers that have announced themselves lately. It may be incomplete: announcements can be lost."""

    def workers(self) -> list[WorkerInfo]:
        """The live workers by name. A worker that stops announcing itself disappears after 15 seconds."""
        ...

    def slots(self, pool: str) -> int:
        """The slots of all live workers of a pool, without those that are leaving."""
        ...


class FeedEvent(NamedTuple):
    """News of an execution: its log has grown, or a tool has written a line."""

    execution_id: str
    seq: int = 0  # the log reaches at least to here
    over: bool = False  # the execution has ended
    line: dict[str, JSON] | None = None  # {frame, kind, words}; lines are not stored


class Feed(Protocol):
    """Live events, so that clients need not poll.

    It may lose, repeat and delay events: the log is the source of truth.
    """

    def publish(self, event: FeedEvent) -> None:
        """Never blocks and never fails. Several events of one execution may be combined into one."""
        ...

    def subscribe(
        self, execution_id: str | None = None, *, lines: bool = True
    ) -> AbstractAsyncContextManager[AsyncIterator[FeedEvent]]:
        """Events of one execution, or of all, that are published after the context is entered.

        `lines`: also those that tools write. A slow subscriber loses the oldest events. Entering raises Unavailable.
        """
        ...


class FrameAtWork(Struct, frozen=True):
    """A frame that a worker holds."""

    execution_id: str
    path: str  # of the playbook
    frame: str
    task: str | None  # None: its call is younger than half a second, so that it is not in the log
    worker: str
    since_s: float  # seconds ago


class PoolBacklog(Struct, frozen=True):
    """The frames of a pool that no worker has begun."""

    waiting: int = 0
    oldest_s: float | None = None  # how long the first of them has waited in the queue; None: none has been sent there


class CurrentWork(Struct, frozen=True):
    """Of the executions of one server, or of several."""

    frames: tuple[FrameAtWork, ...] = ()
    backlog: dict[str, PoolBacklog] = {}  # by pool
    complete: bool = True  # False: a server has not answered
