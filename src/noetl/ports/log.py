"""The log of executions, its ownership, and the listing of executions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from noetl.engine.facts import Fact
from noetl.engine.state import Status
from noetl.errors import Conflict, Fenced


class Append(NamedTuple):
    """Facts of one execution that are committed together."""

    execution_id: str
    first_seq: int  # compare-and-set: it must follow the last seq in the log
    at: datetime
    facts: tuple[Fact, ...]
    owner: int  # the owner's number, which grows with each new owner; another than the current one is Fenced
    status: Status  # of the execution after these facts, so that a listing need not read the log


class LogRow(NamedTuple):
    """Facts that were appended together."""

    first_seq: int
    at: datetime
    facts: tuple[Fact, ...]


class Snapshot(NamedTuple):
    """The state after a fact: a copy that saves reading the log up to there."""

    seq: int
    schema: str  # of the state; a snapshot with another schema is ignored
    body: bytes


class EventStore(Protocol):
    """The log: one ordered stream of facts for each execution, written by one owner at a time.

    The log is the source of truth. A committed append is durable and is never changed. Every method raises
    Unavailable if the store does not answer, and Damaged if stored data cannot be decoded.
    """

    async def append(self, appends: Sequence[Append]) -> list[Conflict | Fenced | None]:
        """Commit appends; the result has one entry for each. None: it is durable.

        Each append succeeds or fails alone. Conflict: another writer was first. Fenced: the owner number is
        not the current one. Raises Unavailable if the outcome is unknown: some appends may be committed, and
        the caller must read the log before it continues.
        """
        ...

    async def read(self, execution_id: str, after: int = 0, up_to: int | None = None) -> list[LogRow]:
        """The rows that contain facts with seq > after, in order; empty for an unknown execution.

        Rows that begin behind `up_to` may be omitted. A row is never cut.
        """
        ...

    async def status(self, execution_id: str) -> Status | None:
        """The status of the last append; None for an unknown execution."""
        ...

    async def snapshot(self, execution_id: str) -> Snapshot | None:
        """The newest snapshot."""
        ...

    async def keep(self, execution_id: str, snapshot: Snapshot) -> None:
        """Store a snapshot unless there is a newer one of the same schema. It may be lost: it is a copy."""
        ...


class OwnedPartitions(NamedTuple):
    """The partitions that a server owns, and the store's time, which all instants in the log use (P6)."""

    epochs: dict[int, int]  # partition → epoch, which grows with each new owner
    at: datetime


class Partitions(Protocol):
    """Ownership of many servers on one log: each owns some partitions of the executions, under a lease.

    The store's clock decides when a lease ends. Ownership is only a hint until an append: the store refuses
    appends with an old epoch (Fenced). Every method raises Unavailable if the store does not answer.
    """

    async def live(self, partitions: Sequence[int]) -> list[tuple[str, int]]:
        """The executions of these partitions that have not ended, each with the seq of its last fact."""
        ...

    async def own(self, server: str, partitions: Sequence[int], ttl_s: float) -> OwnedPartitions:
        """Acquire or renew leases. The result omits partitions that another server owns.

        A lease that has expired gets a new epoch, also if its last owner acquires it again.
        """
        ...

    async def let_go(self, server: str, partitions: Sequence[int]) -> None:
        """Release leases, so that other servers can acquire them at once. Others' leases are ignored."""
        ...

    async def servers(self, server: str, ttl_s: float) -> list[str]:
        """Announce this server for `ttl_s`, and return the sorted names of all announced servers."""
        ...


class ExecutionOwnership(Protocol):
    """Ownership of several processes on one file: one live process holds each execution."""

    async def hold(self, execution_id: str) -> int:
        """Acquire an execution, which may be new. Returns the owner number for its appends.

        Raises Rejected("held", …) if another live process holds it. An execution of a dead process is
        acquired under a higher number.
        """
        ...


class ExecutionHead(NamedTuple):
    """An execution as a listing shows it, without its log."""

    execution_id: str
    path: str
    digest: str
    status: Status
    seq: int
    started_at: datetime
    updated_at: datetime
    parent: str | None
    pid: int | None  # of the process that holds it or held it last; None: unknown
    owner_alive: bool


class ExecutionListing(Protocol):
    """Queries over all executions. They read heads, never logs. Every method raises Unavailable."""

    async def executions(
        self,
        limit: int = 100,
        *,
        before: str | None = None,
        status: Status | None = None,
        open_only: bool = False,
        path: str | None = None,
    ) -> list[ExecutionHead]:
        """The newest first. `before` is the id of the last execution on the previous page."""
        ...

    async def head(self, execution_id: str) -> ExecutionHead:
        """Raises NotFound."""
        ...

    async def children(self, execution_id: str) -> list[ExecutionHead]:
        """The executions that frames of this one have started, in the order of their starts."""
        ...

    async def find(self, prefix: str) -> list[str]:
        """Some of the ids with this prefix, enough to show whether it is unique; a full id matches alone."""
        ...

    async def last(self) -> str:
        """The execution that started last. Raises NotFound if there is none."""
        ...
