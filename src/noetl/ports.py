"""What we ask of the world. An adapter is right when it passes the contract in noetl.testing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple, Protocol, TypeAlias

from noetl.engine.commands import Command, Report, Start
from noetl.engine.facts import Fact
from noetl.engine.pipeline import Work
from noetl.engine.state import Status
from noetl.errors import Conflict, Fenced
from noetl.output import JSON, Output
from noetl.playbook.model import Credential
from noetl.secret import Secret

Epoch: TypeAlias = tuple[int, int]  # of the partition's owner, and a counter: a higher one refuses all lower


class Append(NamedTuple):
    """Facts of one execution that belong together."""

    execution_id: str
    first_seq: int  # compare-and-set: it must be the next
    at: datetime
    facts: tuple[Fact, ...]
    owner: int  # whose it is, as a number that grows with each new owner; another than the present is Fenced
    status: Status  # of the execution after these facts: whoever lists executions need not fold them


class Row(NamedTuple):
    first_seq: int
    at: datetime
    facts: tuple[Fact, ...]


class Snapshot(NamedTuple):
    """A state as it was after a fact: a copy that saves reading the log up to there."""

    seq: int
    schema: str  # of the state; another one than ours: the log is read instead
    body: bytes


class EventStore(Protocol):
    """The log: one ordered stream for each execution, written by one owner at a time."""

    async def append(self, appends: Sequence[Append]) -> list[Conflict | Fenced | None]:
        """Each stands or falls alone. Raises Unavailable when the outcome is not known."""
        ...

    async def read(self, execution_id: str, after: int = 0) -> list[Row]:
        """The rows that hold facts with seq > after, in order; empty when there is no such execution."""
        ...

    async def status(self, execution_id: str) -> Status | None:
        """That of the last append; None: there is no such execution."""
        ...

    async def snapshot(self, execution_id: str) -> Snapshot | None:
        """The newest that was kept."""
        ...

    async def keep(self, execution_id: str, snapshot: Snapshot) -> None:
        """It may be lost: it is a copy."""
        ...


class Owned(NamedTuple):
    """A partition is ours; and the store's time, which all instants on record go by (P6)."""

    epoch: int  # grows with each new owner
    at: datetime


class Partitions(Protocol):
    """Many servers on one log: each owns some partitions of the executions, under a lease."""

    async def live(self, partition: int) -> list[tuple[str, int]]:
        """Executions of a partition that have not ended, each with the seq of its last fact."""
        ...

    async def own(self, partition: int, server: str, ttl_s: float) -> Owned | None:
        """Take or keep a partition; None: it is another's."""
        ...


class Holding(Protocol):
    """Several processes on one file: each execution is held by one of them, as long as it lives."""

    async def hold(self, execution_id: str) -> int:
        """Make it ours, also a new one: the owner's number that its appends carry from now on.

        Raises Rejected("held", …) when another process that lives has it.
        """
        ...


class Head(NamedTuple):
    """An execution as a list of them shows it, without a look into its log."""

    execution_id: str
    path: str
    digest: str
    status: Status
    seq: int
    started_at: datetime
    updated_at: datetime
    parent: str | None
    pid: int | None  # of the process that has it or had it last; None: it is long gone
    owner_alive: bool


class Text(NamedTuple):
    """A playbook as its author wrote it; an execution pins its digest."""

    digest: str
    path: str  # metadata.path
    text: str
    origin: str | None = None  # the file it came from: what `path` of a child is relative to


class Catalog(Protocol):
    """The texts of playbooks: by digest for ever, by path for what starts now."""

    async def put(self, text: Text) -> None:
        """The same digest is the same text: putting it twice is one."""
        ...

    async def get(self, digest: str) -> Text:
        """Raises NotFound."""
        ...

    async def newest(self, path: str) -> Text:
        """What was put last under a path. Raises NotFound."""
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


class Fetched(NamedTuple):
    """A credential as it is now."""

    values: Mapping[str, Secret]  # by field; the only one of a single value stands under ""
    version: str  # another one when the values are others; it tells nothing of them
    expires_s: float | None = None  # None: it does not say


class SecretProvider(Protocol):
    """Where credentials come from. No error of it shows a value."""

    async def fetch(self, credential: Credential, *, fresh: bool = False) -> Fetched:
        """`fresh`: what was given last did not work. Raises NotFound (with the name), or Unavailable."""
        ...


class ResultStore(Protocol):
    """Payloads that are too large for the log. What a Ref points at never changes."""

    async def put(self, execution_id: str, body: bytes, content_type: str) -> dict[str, JSON]:
        """Durable when it returns: the Ref goes into the log only then. The same body is the same Ref."""
        ...

    async def get(self, ref: dict[str, JSON]) -> bytes:
        """Checked against the sha256 of the Ref. Raises NotFound, or Damaged."""
        ...

    async def write(
        self, execution_id: str, chunks: AsyncIterator[bytes], content_type: str
    ) -> dict[str, JSON]:
        """`put` for what nobody wants to hold in memory."""
        ...

    def read(self, ref: dict[str, JSON]) -> AsyncIterator[bytes]:
        """`get` in chunks. Damage is told at the end at the latest: what came before is not to be trusted."""
        ...


class Kept(NamedTuple):
    """A result that a store holds; or, torn, what is left of one that was never finished."""

    key: str  # <execution>/<digest>
    bytes: int
    at: datetime  # of storing
    torn: bool = False


class Clearing(Protocol):
    """A result store, for whoever clears it."""

    def kept(self) -> AsyncIterator[Kept]:
        """All that it holds, whatever is of one execution together."""
        ...

    async def drop(self, keys: Sequence[str]) -> None:
        """Away with them; what is not there is passed over."""
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
    next: tuple[Grant, ...] = ()  # frames of the same execution that the worker may go on with


class Link(Protocol):
    """How workers and servers reach the owner of an execution. Every answer comes after the commit."""

    async def begin(self, execution_id: str, frame: str, worker: str) -> Grant | None:
        """None: there is nothing to do, or someone else does it."""
        ...

    async def report(self, execution_id: str, report: Report, *, room: int = 0) -> Answer:
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
