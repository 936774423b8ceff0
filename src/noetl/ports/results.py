"""Payloads that are too large for the log, and their removal."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from noetl.output import JSON


class ResultStore(Protocol):
    """Payloads that are too large for the log, addressed by Refs. A stored payload never changes.

    A store derives the name of a payload from execution and sha256, and checks every Ref before it uses it: a
    forged Ref reaches nothing else. Every method raises Unavailable if the store does not answer or is full.
    """

    async def put(self, execution_id: str, body: bytes, content_type: str) -> dict[str, JSON]:
        """Store a payload and return its Ref. It is durable when the method returns.

        The same body gives the same Ref. Raises Rejected for an invalid execution id.
        """
        ...

    async def get(self, ref: dict[str, JSON]) -> bytes:
        """Raises NotFound, or Damaged if the payload does not match the sha256 of the Ref."""
        ...

    async def write(self, execution_id: str, chunks: AsyncIterator[bytes], content_type: str) -> dict[str, JSON]:
        """`put` for a stream, without holding it in memory. Errors of the stream are raised unchanged.

        A stream that fails leaves no result; its remains may appear as torn in `ResultCleanup.kept`.
        """
        ...

    def read(self, ref: dict[str, JSON]) -> AsyncIterator[bytes]:
        """`get` in chunks. Damaged may be raised after the last chunk: use no chunk before the end."""
        ...


class StoredResult(NamedTuple):
    """A stored payload, or the remains of one that was never completed."""

    key: str  # <execution>/<digest>
    bytes: int
    at: datetime  # of storing
    torn: bool = False


class ResultCleanup(Protocol):
    """The view of a result store for the removal of old results."""

    def kept(self) -> AsyncIterator[StoredResult]:
        """All stored results, grouped by execution. Results that are stored meanwhile may be missing."""
        ...

    async def drop(self, keys: Sequence[str]) -> None:
        """Remove results. Unknown keys are ignored."""
        ...
