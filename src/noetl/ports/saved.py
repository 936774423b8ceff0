"""Values of `saved.*`, which outlive the executions that write them."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple, Protocol, TypeAlias

from noetl.output import JSON


class SavedWrite(NamedTuple):
    """A value of `saved.*` for the path of a playbook. The later commit wins."""

    path: str
    key: str
    value: JSON


class SavedValue(NamedTuple):
    """A value of `saved.*`, now or earlier."""

    key: str
    value: JSON
    at: datetime
    execution_id: str | None = None  # None: a person has set it
    by: str | None = None  # who that was
    removed: bool = False


SavedValues: TypeAlias = list[SavedValue]


class SavedStore(Protocol):
    """The values of `saved.*` by the path of their playbook. Every method raises Unavailable.

    Executions write them by `EventStore.append`, with their facts. The last entries of each key are kept.
    """

    async def current(self, path: str) -> SavedValues:
        """By key, without removed ones."""
        ...

    async def history(self, path: str, key: str) -> SavedValues:
        """The newest first."""
        ...

    async def put(self, path: str, value: SavedValue) -> None:
        """Add an entry, which is durable when the method returns."""
        ...
