"""What we ask of the world. An adapter is right when it passes the contract in noetl.testing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, NamedTuple, Protocol, TypeAlias

from noetl.engine.commands import Command, Report, Start
from noetl.engine.facts import Fact
from noetl.engine.pipeline import Work
from noetl.errors import Conflict, Fenced
from noetl.output import JSON

Epoch: TypeAlias = tuple[int, int]  # of the partition's owner, and a counter: a higher one refuses all lower


class Append(NamedTuple):
    """Facts of one execution that belong together."""

    execution_id: str
    first_seq: int  # compare-and-set: it must be the next
    at: datetime
    facts: tuple[Fact, ...]
    owner: int  # the owner's epoch of the partition; a lower one than the present is Fenced
    live: bool  # has the execution not ended?


class Row(NamedTuple):
    first_seq: int
    at: datetime
    facts: tuple[Fact, ...]


class Owned(NamedTuple):
    """A partition is ours; and the store's time, which all instants on record go by (P6)."""

    epoch: int  # grows with each new owner
    at: datetime


class EventStore(Protocol):
    """The log: one ordered stream for each execution; and who owns which partition of them."""

    async def append(self, appends: Sequence[Append]) -> list[Conflict | Fenced | None]:
        """Each stands or falls alone. Raises Unavailable when the outcome is not known."""
        ...

    async def read(self, execution_id: str, after: int = 0) -> list[Row]:
        """The rows that hold facts with seq > after, in order; empty when there is no such execution."""
        ...

    async def live(self, partition: int) -> list[tuple[str, int]]:
        """Executions of a partition that have not ended, each with the seq of its last fact."""
        ...

    async def own(self, partition: int, server: str, ttl_s: float) -> Owned | None:
        """Take or keep a partition; None: it is another's."""
        ...


class Pointer(NamedTuple):
    """A frame to do. It names the work and does not hold it."""

    execution_id: str
    frame: str
    dispatch: int  # grows with each time it is put, so that no dedup swallows a second one


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


class ResultStore(Protocol):
    """Payloads that are too large for the log. What a Ref points at never changes."""

    async def put(self, execution_id: str, body: bytes, content_type: str) -> dict[str, JSON]:
        """Durable when it returns: the Ref goes into the log only then. The same body is the same Ref."""
        ...

    async def get(self, ref: dict[str, JSON]) -> bytes:
        """Checked against the sha256 of the Ref. Raises NotFound."""
        ...


class Grant(NamedTuple):
    """The right to work on a frame, for a while."""

    work: Work
    epoch: Epoch
    lease_s: float
    at: datetime  # the owner's time: the worker goes by it, and not by its own


class Answer(NamedTuple):
    """What becomes of a report."""

    word: Literal["go", "stop"]  # go: it is on record and the frame is still yours
    why: str = ""


class Link(Protocol):
    """How workers and servers reach the owner of an execution. Every answer comes after the commit."""

    async def begin(self, execution_id: str, frame: str, worker: str) -> Grant | None:
        """None: there is nothing to do, or someone else does it."""
        ...

    async def report(self, execution_id: str, report: Report) -> Answer: ...

    async def beat(self, worker: str, holds: Sequence[tuple[str, str, Epoch]]) -> list[tuple[str, str]]:
        """Keep leases; the answer lists the frames to stop."""
        ...

    async def start(self, execution_id: str, path: str, start: Start) -> None:
        """Known ids are ignored: starting twice is one start."""
        ...

    async def command(self, execution_id: str, command: Command) -> None: ...
