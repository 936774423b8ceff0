"""Connections to one PostgreSQL with durable settings, errors of the driver as Unavailable, and batched reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import asyncpg

from noetl.adapters.postgres.schema import migrate
from noetl.clock import Clock
from noetl.errors import NoetlError, Unavailable

if TYPE_CHECKING:
    from asyncpg import Connection, Pool


STATEMENTS_MAX: Final = 2  # concurrent ones: a connection that hangs must not delay all other reads

Key = TypeVar("Key")
Value = TypeVar("Value")


class BatchedReads(Generic[Key, Value]):
    """Reads of one kind by key: concurrent ones share a statement, and those of the same key their result.

    Reads that arrive while statements run wait for the next one, without a timer. A read never joins a running
    statement, so its result contains everything that was committed before the read.
    """

    def __init__(self, read_all: Callable[[list[Key]], Awaitable[Sequence[Value]]], batch_max: int = 256) -> None:
        """`read_all`: the values in the order of the keys, for at most `batch_max` keys."""
        self._read_all = read_all
        self._batch_max = batch_max
        self._waiting: dict[Key, list[asyncio.Future[Value]]] = {}
        self._running: set[asyncio.Task[None] | None] = set()

    async def read(self, key: Key) -> Value:
        """Raises Unavailable."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[Value] = loop.create_future()
        self._waiting.setdefault(key, []).append(result)
        if len(self._running) < STATEMENTS_MAX:
            self._running.add(loop.create_task(self._run()))
        return await result

    async def _run(self) -> None:
        try:
            while self._waiting:
                keys = list(islice(self._waiting, self._batch_max))
                await self._read(keys, [self._waiting.pop(each) for each in keys])
        finally:  # in the same iteration in which no read waits: the next read starts a new task
            self._running.discard(asyncio.current_task())

    async def _read(self, keys: list[Key], results: list[list[asyncio.Future[Value]]]) -> None:
        try:
            values = await self._read_all(keys)
        except Unavailable as error:
            _fail(results, str(error))
        except BaseException:
            _fail([*results, *self._waiting.values()], "the process is ending")
            self._waiting.clear()
            raise
        else:
            for some, value in zip(results, values, strict=True):
                for each in some:
                    if not each.done():  # otherwise its caller was cancelled
                        each.set_result(value)


def _fail(results: Iterable[list[asyncio.Future[Value]]], message: str) -> None:
    for some in results:
        for each in some:
            if not each.done():
                each.set_exception(Unavailable(message))  # one for each, with its own traceback


POOL_MAX: Final = 7  # connections for reads and small writes; the log has one more
TIMEOUT_S: Final = 30.0  # of a statement, and for a free connection
CONNECT_S: Final = 5.0
PAUSE_S: Final = 0.2  # between two failed attempts to connect
CLOSE_S: Final = 5.0

_SETTINGS: Final[dict[str, str]] = {
    "application_name": "noetl",
    "synchronous_commit": "on",  # regardless of the default of the server: acknowledged writes are on disk
    "default_transaction_isolation": "read committed",  # the statement of an append relies on it
    "idle_in_transaction_session_timeout": "10000",
    "statement_timeout": "30000",  # then the caller has given up
    "jit": "off",  # compilation takes longer than any of our statements
    "timezone": "UTC",
}


class PostgresDatabase:
    """Shared by the adapters of one database. It belongs to the event loop that uses it first."""

    def __init__(self, url: str, clock: Clock) -> None:
        self.clock = clock
        self._url = url
        self._pool: Pool | None = None
        self._slots = asyncio.Semaphore(POOL_MAX)  # callers wait here and not in the pool, where they would miss errors
        self._closed = False
        self._is_ready = False  # the tables exist
        self._preparing = asyncio.Lock()
        self._connecting = asyncio.Lock()
        self._failed_at: float | None = None  # monotonic time of the last attempt to connect if it failed
        self._failure = ""

    async def fetch(self, query: str, *values: object, timeout_s: float = TIMEOUT_S) -> list[Any]:
        """One statement in its own transaction. Strings that PostgreSQL cannot store match no rows."""
        if not all(is_text(value) for value in values if isinstance(value, str)):
            return []
        async with self._acquired() as connection:
            found: list[Any] = await connection.fetch(query, *values, timeout=timeout_s)
        return found

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """Several statements in one transaction."""
        async with self._acquired() as connection, connection.transaction():
            yield connection

    async def connect(self, settings: dict[str, str]) -> Connection:
        """A connection for the caller alone. Raises Unavailable."""
        with translated():
            since = self.clock.monotonic()
            await self._prepare(since)
            return await self._connect(settings, since)

    async def close(self) -> None:
        """Close all connections. Acknowledged writes are on disk already."""
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
        since = self.clock.monotonic()
        with translated():
            await self._prepare(since)
            async with self._slots:
                self._share_failure(since)
                async with (await self._opened()).acquire(timeout=TIMEOUT_S) as connection:
                    try:
                        yield connection
                    except (OSError, TimeoutError, asyncio.CancelledError):
                        # The connection may hang: do not wait for it.
                        connection.terminate()
                        raise

    async def _prepare(self, since: float) -> None:
        """Ensure that the tables exist. Raises Unavailable."""
        if self._closed:
            raise Unavailable("the database is closed")
        if self._is_ready:
            return
        async with self._preparing:
            if self._is_ready:
                return
            connection = await self._connect({"statement_timeout": "0"}, since)
            try:
                await migrate(connection)
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
                reset=_no_reset,  # our statements leave no session state, and a reset costs a round trip
            )
        return await self._pool

    async def _pooled(self, *_args: object, **_kwargs: object) -> Connection:
        return await self._connect({}, self.clock.monotonic())

    async def _connect(self, settings: dict[str, str], since: float) -> Connection:
        """`since`: when the caller began to wait. Attempts that failed since then count for it."""
        async with self._connecting:
            self._share_failure(since)
            if self._failed_at is not None:
                await self.clock.sleep(max(0.0, self._failed_at + PAUSE_S - self.clock.monotonic()))
            try:
                connection = await asyncpg.connect(
                    self._url, timeout=CONNECT_S, command_timeout=TIMEOUT_S, server_settings={**_SETTINGS, **settings}
                )
            except Exception as error:  # noqa: BLE001  # also for an invalid URL
                unavailable = explained(error)
                self._failed_at, self._failure = self.clock.monotonic(), str(unavailable)
                raise unavailable from None
            self._failed_at = None
            return connection

    def _share_failure(self, since: float) -> None:
        if self._failed_at is not None and self._failed_at >= since:
            raise Unavailable(self._failure)


async def _no_reset(_connection: Connection) -> None:
    pass


def open_postgres(url: str, clock: Clock) -> PostgresDatabase:
    """Connects at the first use. Raises Unavailable for an invalid URL."""
    if not url.startswith(("postgresql://", "postgres://")):
        raise Unavailable("the URL of PostgreSQL begins with postgresql://user:password@host/database")
    return PostgresDatabase(url, clock)


# Meaning and advice by SQLSTATE, or by its class.
_MESSAGES: Final[dict[str, str]] = {
    "53100": "storage full: PostgreSQL has no space; free some space",
    "53300": "PostgreSQL has no connection left: raise max_connections, or close other connections",
    "57P03": "PostgreSQL is starting or stopping",
    "57014": "PostgreSQL did not finish the statement in time",
    "28": "PostgreSQL refuses the user or the password of the URL",
    "3D000": "the database of the URL does not exist: create it (createdb, ENCODING 'UTF8')",
    "42501": "permission denied: the user needs CREATE on the database, or all rights on the schema noetl",
    "25006": "PostgreSQL is read-only: the URL leads to a standby, or to a read-only database",
}


def explained(error: Exception) -> Unavailable:
    """The translated error. The outcome of the statement is unknown."""
    code = str(getattr(error, "sqlstate", None) or "")
    if isinstance(error, TimeoutError):
        return Unavailable("PostgreSQL does not answer in time")
    if message := _MESSAGES.get(code) or _MESSAGES.get(code[:2]):
        return Unavailable(f"{message} ({code})")
    if isinstance(error, asyncpg.PostgresError):
        return Unavailable(f"PostgreSQL refuses the statement ({type(error).__name__}, {code})")
    if isinstance(error, OSError):
        return Unavailable(f"PostgreSQL cannot be reached: {error.strerror or type(error).__name__}")
    return Unavailable(f"the connection to PostgreSQL is lost ({type(error).__name__})")


@contextmanager
def translated() -> Iterator[None]:
    """Raise Unavailable for every error of the driver, which has many types for a lost connection.

    Errors of the server are not chained, so that no traceback in a process log shows a value.
    """
    try:
        yield
    except NoetlError:
        raise
    except Exception as error:  # noqa: BLE001  # after any of them the outcome of a write is unknown
        raise explained(error) from (None if isinstance(error, asyncpg.PostgresError) else error)


def is_text(value: str) -> bool:
    """Whether PostgreSQL can store it: neither NUL nor lone surrogates, which command lines may contain."""
    try:
        return b"\0" not in value.encode()
    except UnicodeEncodeError:
        return False
