"""What control is given besides its ports: compiled playbooks, whose executions are whose, the numbers."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from noetl.net.program import Program
from noetl.ports import EventStore, ResultStore, WorkQueue


class ProgramSource(Protocol):
    """Compiled playbooks. An execution pins a digest; a path is looked up when something starts."""

    async def by_digest(self, digest: str) -> Program:
        """Raises NotFound."""
        ...

    async def find(self, path: str, near: str | None = None, version: int | None = None) -> str:
        """The digest of what is meant by a path in the playbook `near`, another digest; None: from outside.

        `version`: of those that are registered; None: what starts now. Raises NotFound, or PlaybookError when
        it can not run.
        """
        ...


class OwnershipRegistry(Protocol):
    """Which executions are ours to write."""

    async def number(self, execution_id: str) -> int:
        """The owner's number that our appends carry. Raises Unavailable or Rejected: it is another's."""
        ...

    def keeps(self, execution_id: str, number: int) -> bool:
        """Is it still ours under this number, as far as we know?"""
        ...

    def lost(self, execution_id: str) -> None:
        """The store has refused us."""
        ...

    def ended(self, execution_id: str) -> None:
        """There is nothing left to write."""
        ...

    async def open(self) -> list[tuple[str, int]]:
        """Ours that have not ended, each with the seq of its last fact, as far as the store tells."""
        ...


class ControlPorts(NamedTuple):
    """What control reaches."""

    store: EventStore
    queue: WorkQueue
    results: ResultStore


class ControlSettings(NamedTuple):
    lease_s: float = 30.0  # of a granted frame
    items_bytes: int = 65_536  # of a loop's items in the log; more go to the result store (D44)
    resend_s: float = 10.0  # a pointer that nobody followed is put again after this
    lost_max: int = (
        3  # workers that a call may take with it, one after the other; then it counts as the cause
    )
    settle_s: float = 0.0  # after a fold nothing is handed out for so long: workers may have some of it
    snapshot_bytes: int = 262_144  # of the log, at least, between two snapshots
    window: int = 128  # pointers on their way at once: twice the slots of the workers
