"""The tokens of a house on PostgreSQL, for whoever has its database: the first one can not be asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from noetl.clock import SystemClock
from noetl.errors import Rejected, install_hint
from noetl.ports import ApiTokenStore


@asynccontextmanager
async def open_tokens(url: str) -> AsyncIterator[ApiTokenStore]:
    """Raises Rejected when the driver is not installed, Unavailable when nobody answers."""
    try:
        from noetl.adapters.postgres.database import open_postgres
        from noetl.adapters.postgres.tokens import PostgresTokens
    except ImportError as error:
        raise Rejected("no-adapter", f"PostgreSQL needs an extra: {install_hint('postgres')}") from error
    database = open_postgres(url, SystemClock())
    try:
        yield PostgresTokens(database)
    finally:
        await database.close()
