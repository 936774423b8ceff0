"""Work on its way: pointers in a queue, grants and reports between workers and owners, and news of both."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Literal, NamedTuple, Protocol, TypeAlias

from noetl.defaults import POOL
from noetl.engine.commands import Command, Report, Start
from noetl.engine.moves import Work
from noetl.output import JSON, Output

Epoch: TypeAlias = tuple[int, int]  # of the partition's owner, and a counter: a higher one refuses all lower


class Pointer(NamedTuple):
    """A frame to do. It names the work and does not hold it."""

    execution_id: str
    frame: str
    dispatch: int  # grows with each time it is put, so that no dedup swallows a second one
    pool: str = POOL  # whose workers may take it


class Claim(NamedTuple):
    pointer: Pointer
    delivery: int  # the queue's own number


class WorkQueue(Protocol):
    """Pointers on their way to workers. It may lose, repeat and reorder them: it is no truth."""

    async def put(self, pointers: Sequence[Pointer]) -> None: ...

    async def take(self, limit: int) -> list[Claim]:
        """Waits for at least one, for a while; may come back empty."""
        ...

    async def done(self, claim: Claim) -> None: ...


class Grant(NamedTuple):
    """The right to work on a frame, for a while."""

    work: Work
    epoch: Epoch
    lease_s: float
    at: datetime  # the owner's time: the worker goes by it, and not by its own
    lost: int = 0  # so many workers were lost with it that its next call must not be made; 0: it may


class ReportAnswer(NamedTuple):
    """What becomes of a report."""

    word: Literal["go", "stop"]  # go: it is on record and the frame is still yours
    why: str = ""
    next: tuple[Grant, ...] = ()  # frames of the same execution that the worker may go on with


class Link(Protocol):
    """How workers and servers reach the owner of an execution. Every answer comes after the commit."""

    async def begin(self, execution_id: str, frame: str, worker: str) -> Grant | None:
        """None: there is nothing to do, or someone else does it."""
        ...

    async def report(self, execution_id: str, report: Report, *, room: int = 0) -> ReportAnswer:
        """`room`: for so many frames besides its own the worker has a free slot."""
        ...

    async def beat(self, worker: str, holds: Sequence[tuple[str, str, Epoch]]) -> list[tuple[str, str]]:
        """Keep leases; the answer lists the frames to stop."""
        ...

    async def start(self, execution_id: str, digest: str, start: Start) -> None:
        """Known ids are ignored: starting twice is one start."""
        ...

    async def command(self, execution_id: str, command: Command) -> None: ...

    async def iterations(self, execution_id: str, run: str, only: range | None = None) -> list[Output | None]:
        """What the iterations of a loop gave back, by index; None: it failed (D30). `only`: of these."""
        ...


class WorkerInfo(NamedTuple):
    """A worker as it tells of itself every few seconds."""

    name: str
    pool: str
    slots: int
    busy: int
    host: str
    pid: int
    version: str
    labels: dict[str, str]
    leaving: bool
    at: datetime  # when it was heard last


class WorkerRegistry(Protocol):
    """Which workers there are."""

    def workers(self) -> list[WorkerInfo]:
        """Those that were heard lately."""
        ...

    def slots(self, pool: str) -> int: ...


class FeedEvent(NamedTuple):
    """Something new of an execution: its log has grown, or a tool has said a word."""

    execution_id: str
    seq: int = 0  # the log reaches to here at least
    over: bool = False  # and it has ended
    line: dict[str, JSON] | None = None  # {frame, kind, words}, which nobody keeps


class Feed(Protocol):
    """News, so that nobody polls. It may lose, repeat and delay them: the log is the truth."""

    def tell(self, heard: FeedEvent) -> None:
        """Never waits; what comes thick and fast may be told once."""
        ...

    def listen(
        self, execution_id: str | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[FeedEvent]]:
        """Of one execution or of all. Whoever listens too slowly misses some."""
        ...
