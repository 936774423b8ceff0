"""The log, who may write to which part of it, and what lists of executions are made from."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from noetl.engine.facts import Fact
from noetl.engine.state import Status
from noetl.errors import Conflict, Fenced


class Append(NamedTuple):
    """Facts of one execution that belong together."""

    execution_id: str
    first_seq: int  # compare-and-set: it must be the next
    at: datetime
    facts: tuple[Fact, ...]
    owner: int  # whose it is, as a number that grows with each new owner; another than the present is Fenced
    status: Status  # of the execution after these facts: whoever lists executions need not fold them


class LogRow(NamedTuple):
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

    async def read(self, execution_id: str, after: int = 0, up_to: int | None = None) -> list[LogRow]:
        """The rows that hold facts with seq > after, in order; empty when there is no such execution.

        `up_to`: those behind this one may be left out; a row is never cut.
        """
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


class OwnedPartitions(NamedTuple):
    """What is ours of the partitions; and the store's time, which all instants on record go by (P6)."""

    epochs: dict[int, int]  # partition → its epoch, which grows with each new owner
    at: datetime


class Partitions(Protocol):
    """Many servers on one log: each owns some partitions of the executions, under a lease."""

    async def live(self, partitions: Sequence[int]) -> list[tuple[str, int]]:
        """Executions of these that have not ended, each with the seq of its last fact."""
        ...

    async def own(self, server: str, partitions: Sequence[int], ttl_s: float) -> OwnedPartitions:
        """Take or keep these; those that are another's are not in the answer."""
        ...

    async def let_go(self, server: str, partitions: Sequence[int]) -> None:
        """Another may have them at once. What is not ours is passed over."""
        ...

    async def servers(self, server: str, ttl_s: float) -> list[str]:
        """We are here, for so long: the names of all who are, ours too, in order."""
        ...


class ExecutionOwnership(Protocol):
    """Several processes on one file: each execution is held by one of them, as long as it lives."""

    async def hold(self, execution_id: str) -> int:
        """Make it ours, also a new one: the owner's number that its appends carry from now on.

        Raises Rejected("held", …) when another process that lives has it.
        """
        ...


class ExecutionHead(NamedTuple):
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


class ExecutionListing(Protocol):
    """Questions over all executions, answered from their heads: nobody folds a log for a list."""

    async def executions(
        self,
        limit: int = 100,
        *,
        before: str | None = None,
        status: Status | None = None,
        open_only: bool = False,
        path: str | None = None,
    ) -> list[ExecutionHead]:
        """Newest first; `before` is the id of the last one on the page before."""
        ...

    async def head(self, execution_id: str) -> ExecutionHead:
        """Raises NotFound."""
        ...

    async def children(self, execution_id: str) -> list[ExecutionHead]:
        """Those that frames of it have started, in the order of their starts."""
        ...

    async def find(self, prefix: str) -> list[str]:
        """The ids that begin so, a few of them; the whole id finds itself alone."""
        ...

    async def last(self) -> str:
        """The execution that started last. Raises NotFound when there is none."""
        ...
