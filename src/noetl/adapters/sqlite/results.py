"""Payloads inside the database file, in parts of a megabyte: small results without files of their own.

The tables are made when something is first put: most houses keep their results in files and need none.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any, Final

import apsw

from noetl.adapters.result_names import (
    PART_BYTES,
    Name,
    Place,
    checked,
    cut,
    gathered,
    name_of,
    pieces,
    verified,
)
from noetl.adapters.sqlite.connection import instant, micros
from noetl.adapters.sqlite.database import Database
from noetl.output import JSON
from noetl.ports import StoredResult

IN_PLACE_BYTES: Final = 1 << 18  # that much is read on the loop's own thread
PAGE: Final = 1_000  # results that are listed together

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS results (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    execution_id TEXT NOT NULL,
    key          TEXT UNIQUE, -- NULL: not whole yet
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
_THERE: Final = "SELECT 1 FROM sqlite_schema WHERE name = 'result_parts'"
_BEGIN: Final = "INSERT INTO results (execution_id, key, bytes, at) VALUES (?, ?, ?, ?) RETURNING id"
_ADD: Final = "INSERT INTO result_parts (result, place, body) VALUES (?, ?, ?)"
_PART: Final = "SELECT body FROM result_parts WHERE result = ? AND place = ?"
_LIST: Final = """
SELECT id, execution_id, key, bytes, at FROM results
WHERE (execution_id, id) > (?, ?) ORDER BY execution_id, id LIMIT ?
"""
_TORN: Final = re.compile(r"([0-9a-zA-Z-]{1,64})/\.(\d{1,18})")


class SqliteResults:
    """Keeps the contract of ResultStore. Each part is a commit of its own: no writer waits for a stream."""

    def __init__(self, database: Database) -> None:
        self.place = Place("relational", {"store": "sqlite"})
        self._database = database
        self._made = False  # are the tables there?

    async def put(self, execution_id: str, body: bytes, content_type: str) -> dict[str, JSON]:
        name = name_of(execution_id, body)
        if self._id(name) is None:
            if len(body) <= PART_BYTES:
                await self._database.writer.write(lambda cursor: self._insert(cursor, name, body))
            else:
                await self._stream(execution_id, pieces(body))
        return self.place.ref(name, content_type)

    async def get(self, ref: dict[str, JSON]) -> bytes:
        return await gathered(self.read(ref))

    async def write(
        self, execution_id: str, chunks: AsyncIterator[bytes], content_type: str
    ) -> dict[str, JSON]:
        return self.place.ref(await self._stream(checked(execution_id), chunks), content_type)

    async def read(self, ref: dict[str, JSON]) -> AsyncIterator[bytes]:
        name = self.place.name(ref)
        id = self._id(name)
        if id is None:
            raise name.missing()
        async for chunk in verified(name, self._parts(id, name.size)):
            yield chunk

    async def kept(self) -> AsyncIterator[StoredResult]:
        after: tuple[str, int] = ("", 0)
        while self._is_made():
            rows = self._database.fetch(_LIST, (*after, PAGE))
            for id, execution_id, key, size, at in rows:
                after = execution_id, id
                yield StoredResult(key or f"{execution_id}/.{id}", size, instant(at), torn=key is None)
            if len(rows) < PAGE:
                return

    async def drop(self, keys: Sequence[str]) -> None:
        if self._is_made():
            for key in keys:
                await self._database.writer.write(partial(_drop, key))

    async def _stream(self, execution_id: str, chunks: AsyncIterator[bytes]) -> Name:
        """Part by part under a number, and its name in the end, when its digest is known."""
        digest, size, id = hashlib.sha256(), 0, None
        try:
            place = 0
            async for chunk in cut(chunks, PART_BYTES):
                digest.update(chunk)
                size += len(chunk)
                id = await self._add(execution_id, id, place, chunk)
                place += 1
            name = Name(execution_id, digest.hexdigest(), size)
            if id is None:
                await self._database.writer.write(lambda cursor: self._insert(cursor, name, b""))
            else:
                await self._finish(id, name)
        except BaseException:
            if id is not None:
                await asyncio.shield(self._database.writer.write(lambda cursor: _forget(cursor, id)))
            raise
        return name

    async def _add(self, execution_id: str, id: int | None, place: int, chunk: bytes) -> int:
        at = micros(self._database.clock.now())

        def work(cursor: apsw.Cursor) -> int:
            begun = id if id is not None else self._begin(cursor, (execution_id, None, 0, at))
            cursor.execute(_ADD, (begun, place, chunk))
            cursor.execute("UPDATE results SET bytes = bytes + ? WHERE id = ?", (len(chunk), begun))
            return begun

        return await self._database.writer.write(work)

    async def _finish(self, id: int, name: Name) -> None:
        def work(cursor: apsw.Cursor) -> None:
            if _known(cursor, name.key):
                _forget(cursor, id)
            else:
                cursor.execute("UPDATE results SET key = ? WHERE id = ?", (name.key, id))

        await self._database.writer.write(work)

    def _insert(self, cursor: apsw.Cursor, name: Name, body: bytes) -> None:
        self._make(cursor)
        if not _known(cursor, name.key):
            at = micros(self._database.clock.now())
            id = self._begin(cursor, (name.execution_id, name.key, name.size, at))
            if body:
                cursor.execute(_ADD, (id, 0, body))

    def _begin(self, cursor: apsw.Cursor, values: tuple[str, str | None, int, int]) -> int:
        self._make(cursor)
        (row,) = cursor.execute(_BEGIN, values).fetchall()
        assert isinstance(row[0], int)
        return row[0]

    def _make(self, cursor: apsw.Cursor) -> None:
        if not self._made:  # Only a look that found them committed says that they are there to stay.
            cursor.execute(_TABLES)

    def _is_made(self) -> bool:
        self._made = self._made or bool(self._database.fetch(_THERE))
        return self._made

    def _id(self, name: Name) -> int | None:
        if not self._is_made():
            return None
        found = self._database.fetch("SELECT id FROM results WHERE key = ?", (name.key,))
        return found[0][0] if found else None

    async def _parts(self, id: int, size: int) -> AsyncIterator[bytes]:
        place = 0
        while rows := await self._part(id, place, size):
            body = rows[0][0]
            yield body
            place += 1

    async def _part(self, id: int, place: int, size: int) -> list[Any]:
        if size <= IN_PLACE_BYTES:
            return self._database.fetch(_PART, (id, place))
        return await asyncio.to_thread(self._database.fetch_far, _PART, (id, place))


def _known(cursor: apsw.Cursor, key: str) -> bool:
    return bool(cursor.execute("SELECT 1 FROM results WHERE key = ?", (key,)).fetchall())


def _forget(cursor: apsw.Cursor, id: int) -> None:
    cursor.execute("DELETE FROM result_parts WHERE result = ?", (id,))
    cursor.execute("DELETE FROM results WHERE id = ?", (id,))


def _drop(key: str, cursor: apsw.Cursor) -> None:
    torn = _TORN.fullmatch(key)
    try:
        if torn is not None:
            query = "SELECT id FROM results WHERE execution_id = ? AND id = ? AND key IS NULL"
            found = cursor.execute(query, (torn[1], int(torn[2]))).fetchall()
        else:
            found = cursor.execute("SELECT id FROM results WHERE key = ?", (key,)).fetchall()
    except UnicodeEncodeError:
        return  # half a character: nothing is stored under such a name
    for (id,) in found:
        assert isinstance(id, int)
        _forget(cursor, id)
