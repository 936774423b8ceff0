"""Results in a table of PostgreSQL, in parts of a megabyte, so that a backup of the database contains them.

Each part is a transaction of its own, so that a slow stream holds no snapshot open.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import asyncpg

from noetl.adapters.result_refs import (
    KEY,
    PART_BYTES,
    TORN_KEY,
    RefLocation,
    ResultName,
    checked_id,
    joined,
    name_of,
    split,
    verified,
    write_parts,
)
from noetl.errors import Unavailable
from noetl.output import JSON
from noetl.ports import StoredResult

if TYPE_CHECKING:
    from asyncpg import Connection, Pool

CONNECTIONS_MAX: Final = 8
TIMEOUT_S: Final = 30.0
PAGE: Final = 1_000  # results per query of a listing
_LOCK: Final = 0x4E6F4552  # advisory lock for the creation of tables: "NoER"

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS noetl_results (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    execution_id text COLLATE "C" NOT NULL,
    key          text UNIQUE, -- null: incomplete
    bytes        bigint NOT NULL,
    at           timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS noetl_results_by_execution ON noetl_results (execution_id, id);
CREATE TABLE IF NOT EXISTS noetl_result_parts (
    result bigint NOT NULL REFERENCES noetl_results ON DELETE CASCADE,
    place  integer NOT NULL,
    body   bytea NOT NULL,
    PRIMARY KEY (result, place)
);
ALTER TABLE noetl_result_parts ALTER COLUMN body SET STORAGE EXTERNAL;
"""
_WHOLE: Final = """
WITH begun AS (
    INSERT INTO noetl_results (execution_id, key, bytes) VALUES ($1, $2, $3) ON CONFLICT (key) DO NOTHING
    RETURNING id
)
INSERT INTO noetl_result_parts (result, place, body) SELECT id, 0, $4 FROM begun WHERE $3 > 0
"""
_BEGIN: Final = "INSERT INTO noetl_results (execution_id, bytes) VALUES ($1, 0) RETURNING id"
_ADD: Final = """
WITH grown AS (UPDATE noetl_results SET bytes = bytes + $4 WHERE id = $1)
INSERT INTO noetl_result_parts (result, place, body) VALUES ($1, $2, $3)
"""
_LIST: Final = """
SELECT id, execution_id, key, bytes, at FROM noetl_results
WHERE (execution_id, id) > ($1, $2) ORDER BY execution_id, id LIMIT $3
"""


class PostgresResults:
    """A `ResultStore`. It connects at the first use and belongs to that event loop."""

    def __init__(self, dsn: str) -> None:
        self.place = RefLocation("relational", {"store": "postgres"})
        self._dsn = dsn
        self._opening = asyncio.Lock()
        self._pool: Pool | None = None

    async def put(self, execution_id: str, body: bytes, content_type: str) -> dict[str, JSON]:
        name = name_of(execution_id, body)
        if len(body) > PART_BYTES:
            if await self._id(name) is None:
                await write_parts(self, execution_id, split(body))
        else:
            with self._translated():
                pool = await self._open()
                await pool.execute(_WHOLE, execution_id, name.key, name.size, body)
        return self.place.ref(name, content_type)

    async def get(self, ref: dict[str, JSON]) -> bytes:
        return await joined(self.read(ref))

    async def write(self, execution_id: str, chunks: AsyncIterator[bytes], content_type: str) -> dict[str, JSON]:
        return self.place.ref(await write_parts(self, checked_id(execution_id), chunks), content_type)

    async def read(self, ref: dict[str, JSON]) -> AsyncIterator[bytes]:
        name = self.place.name(ref)
        id = await self._id(name)
        if id is None:
            raise name.missing()
        async for chunk in verified(name, self._parts(id)):
            yield chunk

    async def kept(self) -> AsyncIterator[StoredResult]:
        after: tuple[str, int] = ("", 0)
        while True:
            with self._translated():
                rows = await (await self._open()).fetch(_LIST, *after, PAGE)
            for id, execution_id, key, size, at in rows:
                after = execution_id, id
                yield StoredResult(key or f"{execution_id}/.{id}", size, at, torn=key is None)
            if len(rows) < PAGE:
                return

    async def drop(self, keys: Sequence[str]) -> None:
        complete = [key for key in keys if KEY.fullmatch(key)]
        torn = [(found[1], int(found[2])) for found in map(TORN_KEY.fullmatch, keys) if found]
        with self._translated():
            pool = await self._open()
            if complete:
                await pool.execute("DELETE FROM noetl_results WHERE key = ANY($1::text[])", complete)
            for execution_id, id in torn:
                query = "DELETE FROM noetl_results WHERE id = $2 AND execution_id = $1 AND key IS NULL"
                await pool.execute(query, execution_id, id)

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    async def add_part(self, execution_id: str, id: int | None, place: int, part: bytes) -> int:
        with self._translated():
            pool = await self._open()
            number: int = await pool.fetchval(_BEGIN, execution_id) if id is None else id
            await pool.execute(_ADD, number, place, part, len(part))
        return number

    async def finish(self, id: int | None, name: ResultName) -> None:
        with self._translated():
            pool = await self._open()
            if id is None:
                await pool.execute(_WHOLE, name.execution_id, name.key, 0, b"")
                return
            try:
                await pool.execute("UPDATE noetl_results SET key = $2 WHERE id = $1", id, name.key)
                return
            except asyncpg.UniqueViolationError:
                pass  # the same result is already stored
        await self.forget(id)

    async def forget(self, id: int) -> None:
        with self._translated():
            await (await self._open()).execute("DELETE FROM noetl_results WHERE id = $1", id)

    async def _id(self, name: ResultName) -> int | None:
        with self._translated():
            query = "SELECT id FROM noetl_results WHERE key = $1"
            id: int | None = await (await self._open()).fetchval(query, name.key)
        return id

    async def _parts(self, id: int) -> AsyncIterator[bytes]:
        query, place = "SELECT body FROM noetl_result_parts WHERE result = $1 AND place = $2", 0
        while True:
            with self._translated():
                body: bytes | None = await (await self._open()).fetchval(query, id, place)
            if body is None:
                return
            yield body
            place += 1

    async def _open(self) -> Pool:
        async with self._opening:
            if self._pool is None:
                pool = await asyncpg.create_pool(
                    self._dsn, min_size=0, max_size=CONNECTIONS_MAX, command_timeout=TIMEOUT_S
                )
                async with pool.acquire() as connection:
                    await _create_tables(connection)
                self._pool = pool
            return self._pool

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Raise Unavailable with type and SQLSTATE only: the text of an error may contain values."""
        try:
            yield
        except asyncpg.DiskFullError as error:
            raise Unavailable("storage full: PostgreSQL has no space for results; free some space") from error
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
            code = getattr(error, "sqlstate", None)
            reason = f"{type(error).__name__}, {code}" if code else type(error).__name__
            raise Unavailable(f"the result store in PostgreSQL does not answer ({reason})") from error
        except (asyncpg.InternalClientError, ValueError) as error:
            raise Unavailable("the connection to the result store in PostgreSQL was lost") from error


async def _create_tables(connection: Connection) -> None:
    """Under a lock: PostgreSQL fails if two sessions create the same table at once."""
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        await connection.execute(_TABLES)
