"""Rows of a query in batches, the same for all databases, for tools that pass rows on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

from noetl.output import JSON, Output
from noetl.tools.sql.statements import Statement


class OpenRows(NamedTuple):
    """The rows of a statement that is running. Read all of them, or close the context."""

    columns: list[str]
    batches: AsyncIterator[list[dict[str, JSON]]]


class RowSource(Protocol):
    """A database that a tool reads from."""

    def open(self, statement: Statement) -> AbstractAsyncContextManager[OpenRows]:
        """Raises ToolError, and errors of the driver that `failure` explains."""
        ...

    def failure(self, error: Exception) -> Output: ...
