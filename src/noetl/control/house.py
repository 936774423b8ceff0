"""What control is given besides its ports: compiled playbooks, and the numbers that it goes by."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from noetl.net.program import Program
from noetl.ports import EventStore, ResultStore, WorkQueue


class Programs(Protocol):
    """Compiled playbooks: by digest for ever, by path for what starts now."""

    def by_digest(self, digest: str) -> Program: ...

    def by_path(self, path: str) -> Program:
        """Raises NotFound."""
        ...


class Outside(NamedTuple):
    """What control reaches."""

    store: EventStore
    queue: WorkQueue
    results: ResultStore


class Settings(NamedTuple):
    partitions: int = 64
    lease_s: float = 30.0  # of a granted frame
    items_bytes: int = 65_536  # of a loop's items in the log; more go to the result store (D44)
    resend_s: float = 10.0  # a pointer that nobody followed is put again after this
