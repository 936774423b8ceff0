"""Payloads that are too large for the log, and whoever clears them away in the end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from noetl.output import JSON


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


class StoredResult(NamedTuple):
    """A result that a store holds; or, torn, what is left of one that was never finished."""

    key: str  # <execution>/<digest>
    bytes: int
    at: datetime  # of storing
    torn: bool = False


class ResultCleanup(Protocol):
    """A result store, for whoever clears it."""

    def kept(self) -> AsyncIterator[StoredResult]:
        """All that it holds, whatever is of one execution together."""
        ...

    async def drop(self, keys: Sequence[str]) -> None:
        """Away with them; what is not there is passed over."""
        ...
