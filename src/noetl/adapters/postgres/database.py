"""One PostgreSQL: connections with the settings that durability needs, made when they are first used.

While it is away, one attempt to connect is made every PAUSE_S, which all who ask in the meantime share.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from noetl.adapters.postgres.errors import explained, is_text, translated
from noetl.adapters.postgres.schema import bring_up_to_date
from noetl.clock import Clock
from noetl.errors import Unavailable

if TYPE_CHECKING:
    from asyncpg import Connection, Pool

POOL_MAX: Final = 7  # connections for reads and small writes; one more is the log's own
PATIENCE_S: Final = 30.0  # for a statement, or a free connection
CONNECT_S: Final = 5.0
PAUSE_S: Final = 0.2  # between two attempts to connect that fail
CLOSE_S: Final = 5.0

_SETTINGS: Final[dict[str, str]] = {
    "application_name": "noetl",
    "synchronous_commit": "on",  # whatever the server's default is: what we acknowledge is on disk
    "default_transaction_isolation": "read committed",  # what the one statement of an append relies on
    "idle_in_transaction_session_timeout": "10000",
    "statement_timeout": "30000",  # nobody waits for it any longer
    "jit": "off",  # compiling takes longer than any of our statements
    "timezone": "UTC",
}


class PostgresDatabase:
    """What the adapters on one PostgreSQL share. It belongs to the event loop that uses it first."""

    def __init__(self, url: str, clock: Clock) -> None:
        self.clock = clock
        self._url = url
        self._pool: Pool | None = None
        self._seats = asyncio.Semaphore(POOL_MAX)  # so that nobody queues in the pool, where he hears nothing
        self._closed = False
        self._is_ready = False  # its tables are there
        self._preparing = asyncio.Lock()
        self._connecting = asyncio.Lock()
        self._failed_at: float | None = None  # when the last attempt to connect failed; None: it did not
        self._failed_why = ""

    async def fetch(self, query: str, *values: object, patience_s: float = PATIENCE_S) -> list[Any]:
        """One statement, in a transaction of its own; no rows for names that PostgreSQL can not hold."""
        if not all(is_text(value) for value in values if isinstance(value, str)):
            return []
        async with self._acquired() as connection:
            found: list[Any] = await connection.fetch(query, *values, timeout=patience_s)
        return found

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """Several statements that stand or fall together."""
        async with self._acquired() as connection, connection.transaction():
            yield connection

    async def connect(self, settings: dict[str, str]) -> Connection:
        """A connection of the caller's own. Raises Unavailable."""
        with translated():
            asked = self.clock.monotonic()
            await self._prepare(asked)
            return await self._connect(settings, asked)

    async def close(self) -> None:
        """Whatever was acknowledged is on disk already."""
        self._closed = True
        pool, self._pool = self._pool, None
        if pool is None:
            return
        try:
            async with asyncio.timeout(CLOSE_S):
                await pool.close()
        except (TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            pool.terminate()

    @asynccontextmanager
    async def _acquired(self) -> AsyncIterator[Connection]:
        asked = self.clock.monotonic()
        with translated():
            await self._prepare(asked)
            async with self._seats:
                self._share_failure(asked)
                async with (await self._opened()).acquire(timeout=PATIENCE_S) as connection:
                    try:
                        yield connection
                    except (OSError, TimeoutError, asyncio.CancelledError):
                        # The line may be dead without a word: none is waited for on it.
                        connection.terminate()
                        raise

    async def _prepare(self, asked: float) -> None:
        """The tables are there, or Unavailable says why not."""
        if self._closed:
            raise Unavailable("the database is closed")
        if self._is_ready:
            return
        async with self._preparing:
            if self._is_ready:
                return
            connection = await self._connect({"statement_timeout": "0"}, asked)
            try:
                await bring_up_to_date(connection)
            finally:
                with suppress(Exception):
                    await connection.close(timeout=CLOSE_S)
            self._is_ready = True

    async def _opened(self) -> Pool:
        if self._pool is None:
            self._pool = asyncpg.create_pool(
                min_size=0,
                max_size=POOL_MAX,
                connect=self._pooled,
                reset=_nothing,  # no statement of ours leaves anything behind, and asking costs a round trip
            )
        return await self._pool

    async def _pooled(self, *_given: object, **_named: object) -> Connection:
        return await self._connect({}, self.clock.monotonic())

    async def _connect(self, settings: dict[str, str], asked: float) -> Connection:
        """`asked`: since when somebody waits for it. What has failed since then has failed for him, too."""
        async with self._connecting:
            self._share_failure(asked)
            if self._failed_at is not None:
                await self.clock.sleep(max(0.0, self._failed_at + PAUSE_S - self.clock.monotonic()))
            try:
                connection = await asyncpg.connect(
                    self._url,
                    timeout=CONNECT_S,
                    command_timeout=PATIENCE_S,
                    server_settings={**_SETTINGS, **settings},
                )
            except Exception as error:  # noqa: BLE001  # a URL that is wrong shows itself here, too
                told = explained(error)
                self._failed_at, self._failed_why = self.clock.monotonic(), str(told)
                raise told from None
            self._failed_at = None
            return connection

    def _share_failure(self, asked: float) -> None:
        if self._failed_at is not None and self._failed_at >= asked:
            raise Unavailable(self._failed_why)


async def _nothing(_connection: Connection) -> None:
    pass


def open_postgres(url: str, clock: Clock) -> PostgresDatabase:
    """No connection is made before the first use. Raises Unavailable when this is no URL of a PostgreSQL."""
    if not url.startswith(("postgresql://", "postgres://")):
        raise Unavailable("the URL of a PostgreSQL begins with postgresql://user:password@host/database")
    return PostgresDatabase(url, clock)
