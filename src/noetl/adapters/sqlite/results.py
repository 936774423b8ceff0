"""Results inside the database file, in parts of a megabyte.

The first `put` creates the tables: most deployments store results as files and do not need them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any, Final

import apsw

from noetl.adapters.result_refs import (
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
from noetl.adapters.sqlite.connection import instant, micros
from noetl.adapters.sqlite.database import Database
from noetl.output import JSON
from noetl.ports import StoredResult

IN_PLACE_BYTES: Final = 1 << 18  # a smaller result is read on the thread of the event loop
PAGE: Final = 1_000  # results per query of a listing

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS results (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    execution_id TEXT NOT NULL,
    key          TEXT UNIQUE, -- NULL: incomplete
    bytes        INTEGER NOT NULL,
    at           INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS results_by_execution ON results (execution_id, id);
CREATE TABLE IF NOT EXISTS result_parts (
    result INTEGER NOT NULL,
    place  INTEGER NOT NULL,
    body   BLOB NOT NULL,
    PRIMARY KEY (result, place)
) STRICT;
"""
_EXISTS: Final = "SELECT 1 FROM sqlite_schema WHERE name = 'result_parts'"
_BEGIN: Final = "INSERT INTO results (execution_id, key, bytes, at) VALUES (?, ?, ?, ?) RETURNING id"
_ADD: Final = "INSERT INTO result_parts (result, place, body) VALUES (?, ?, ?)"
_PART: Final = "SELECT body FROM result_parts WHERE result = ? AND place = ?"
_LIST: Final = """
SELECT id, execution_id, key, bytes, at FROM results
WHERE (execution_id, id) > (?, ?) ORDER BY execution_id, id LIMIT ?
"""


class SqliteResults:
    """A `ResultStore`. Each part is a commit of its own, so no writer waits for a stream."""

    def __init__(self, database: Database) -> None:
        self.place = RefLocation("relational", {"store": "sqlite"})
        self._database = database
        self._tables_exist = False

    async def put(self, execution_id: str, body: bytes, content_type: str) -> dict[str, JSON]:
        name = name_of(execution_id, body)
        if self._id(name) is None:
            if len(body) <= PART_BYTES:
                await self._database.writer.write(lambda cursor: self._insert(cursor, name, body))
            else:
                await write_parts(self, execution_id, split(body))
        return self.place.ref(name, content_type)

    async def get(self, ref: dict[str, JSON]) -> bytes:
        return await joined(self.read(ref))

    async def write(self, execution_id: str, chunks: AsyncIterator[bytes], content_type: str) -> dict[str, JSON]:
        return self.place.ref(await write_parts(self, checked_id(execution_id), chunks), content_type)

    async def read(self, ref: dict[str, JSON]) -> AsyncIterator[bytes]:
        name = self.place.name(ref)
        id = self._id(name)
        if id is None:
            raise name.missing()
        async for chunk in verified(name, self._parts(id, name.size)):
            yield chunk

    async def kept(self) -> AsyncIterator[StoredResult]:
        after: tuple[str, int] = ("", 0)
        while self._has_tables():
            rows = self._database.fetch(_LIST, (*after, PAGE))
            for id, execution_id, key, size, at in rows:
                after = execution_id, id
                yield StoredResult(key or f"{execution_id}/.{id}", size, instant(at), torn=key is None)
            if len(rows) < PAGE:
                return

    async def drop(self, keys: Sequence[str]) -> None:
        if self._has_tables():
            for key in keys:
                await self._database.writer.write(partial(_drop, key))

    async def add_part(self, execution_id: str, id: int | None, place: int, part: bytes) -> int:
        at = micros(self._database.clock.now())

        def work(cursor: apsw.Cursor) -> int:
            number = id if id is not None else self._begin(cursor, (execution_id, None, 0, at))
            cursor.execute(_ADD, (number, place, part))
            cursor.execute("UPDATE results SET bytes = bytes + ? WHERE id = ?", (len(part), number))
            return number

        return await self._database.writer.write(work)

    async def finish(self, id: int | None, name: ResultName) -> None:
        def work(cursor: apsw.Cursor) -> None:
            if id is None:
                self._insert(cursor, name, b"")
            elif _known(cursor, name.key):
                _forget(cursor, id)
            else:
                cursor.execute("UPDATE results SET key = ? WHERE id = ?", (name.key, id))

        await self._database.writer.write(work)

    async def forget(self, id: int) -> None:
        await self._database.writer.write(lambda cursor: _forget(cursor, id))

    def _insert(self, cursor: apsw.Cursor, name: ResultName, body: bytes) -> None:
        self._create_tables(cursor)
        if not _known(cursor, name.key):
            at = micros(self._database.clock.now())
            id = self._begin(cursor, (name.execution_id, name.key, name.size, at))
            if body:
                cursor.execute(_ADD, (id, 0, body))

    def _begin(self, cursor: apsw.Cursor, values: tuple[str, str | None, int, int]) -> int:
        self._create_tables(cursor)
        (row,) = cursor.execute(_BEGIN, values).fetchall()
        assert isinstance(row[0], int)
        return row[0]

    def _create_tables(self, cursor: apsw.Cursor) -> None:
        if not self._tables_exist:  # True only after they were seen committed.
            cursor.execute(_TABLES)

    def _has_tables(self) -> bool:
        self._tables_exist = self._tables_exist or bool(self._database.fetch(_EXISTS))
        return self._tables_exist

    def _id(self, name: ResultName) -> int | None:
        if not self._has_tables():
            return None
        found = self._database.fetch("SELECT id FROM results WHERE key = ?", (name.key,))
        return found[0][0] if found else None

    async def _parts(self, id: int, size: int) -> AsyncIterator[bytes]:
        place = 0
        while rows := await self._part(id, place, size):
            yield rows[0][0]
            place += 1

    async def _part(self, id: int, place: int, size: int) -> list[Any]:
        if size <= IN_PLACE_BYTES:
            return self._database.fetch(_PART, (id, place))
        return await asyncio.to_thread(self._database.fetch_in_thread, _PART, (id, place))


def _known(cursor: apsw.Cursor, key: str) -> bool:
    return bool(cursor.execute("SELECT 1 FROM results WHERE key = ?", (key,)).fetchall())


def _forget(cursor: apsw.Cursor, id: int) -> None:
    cursor.execute("DELETE FROM result_parts WHERE result = ?", (id,))
    cursor.execute("DELETE FROM results WHERE id = ?", (id,))


def _drop(key: str, cursor: apsw.Cursor) -> None:
    torn = TORN_KEY.fullmatch(key)
    try:
        if torn is not None:
            query = "SELECT id FROM results WHERE execution_id = ? AND id = ? AND key IS NULL"
            found = cursor.execute(query, (torn[1], int(torn[2]))).fetchall()
        else:
            found = cursor.execute("SELECT id FROM results WHERE key = ?", (key,)).fetchall()
    except UnicodeEncodeError:
        return  # a lone surrogate: no stored key contains one
    for (id,) in found:
        assert isinstance(id, int)
        _forget(cursor, id)
