"""The log on SQLite: one row per append. The head of an execution is compare-and-set and fence at once.

Executions are listed from their heads instead of their logs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import apsw
from msgspec import DecodeError
from msgspec.json import Decoder, Encoder

from noetl.adapters.sql import FOUND_MAX, matches, no_execution, no_executions, page_size, path_ranges
from noetl.adapters.sqlite.connection import instant, is_alive, micros
from noetl.adapters.sqlite.database import Database
from noetl.engine.facts import Fact, Requested
from noetl.engine.state import Status
from noetl.errors import Conflict, Damaged, Fenced
from noetl.failpoints import failpoint
from noetl.ports import Append, ExecutionHead, LogRow, Snapshot

PAGE_FACTS: Final = 5_000
THREAD_FACTS: Final = 2_000  # a thread reads more, so that the event loop stays free

_BEGIN: Final = """
INSERT INTO heads (execution_id, seq, owner, status, path, digest, parent, started_at, updated_at)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8 WHERE EXISTS (SELECT 1 FROM owners WHERE number = ?3)
ON CONFLICT DO NOTHING
"""
# While the status is the same no index has to be updated.
_ADVANCE: Final = """
UPDATE heads SET seq = ?2, updated_at = ?5 WHERE execution_id = ?1 AND seq = ?3 AND owner = ?4 AND status = ?6
"""
_CHANGE_STATUS: Final = """
UPDATE heads SET seq = ?2, updated_at = ?5, status = ?6 WHERE execution_id = ?1 AND seq = ?3 AND owner = ?4
"""
_INSERT: Final = "INSERT INTO log VALUES (?, ?, ?, ?, CAST(? AS TEXT))"
_HEAD: Final = "SELECT seq, owner FROM heads WHERE execution_id = ?"
# From the row that contains `after`, which the index finds: the rest of a long log is not read.
_READ: Final = """
SELECT first_seq, at, CAST(body AS BLOB) FROM log WHERE execution_id = ?1 AND last_seq > ?2
AND first_seq >= coalesce((SELECT max(first_seq) FROM log WHERE execution_id = ?1 AND first_seq <= ?2), 0)
AND first_seq <= ?3 ORDER BY first_seq
"""
_PAGE: Final = """
SELECT first_seq, at, CAST(body AS BLOB) FROM log
WHERE execution_id = ?1 AND first_seq > ?2 AND first_seq <= ?3 ORDER BY first_seq
"""
_KEEP: Final = """
INSERT INTO snapshots VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE
SET seq = excluded.seq, schema = excluded.schema, body = excluded.body
WHERE excluded.seq >= seq OR excluded.schema <> schema
"""


class _EncodedAppend(NamedTuple):
    """An append, encoded before the transaction begins."""

    append: Append
    at: int
    body: bytes


class SqliteStore:
    """An `EventStore`. `SqliteOwnership` decides who owns an execution."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._encoder = Encoder()
        self._decoder: Decoder[tuple[Fact, ...]] = Decoder(tuple[Fact, ...])

    async def append(self, appends: Sequence[Append]) -> list[Conflict | Fenced | None]:
        encoded = [_EncodedAppend(each, micros(each.at), self._encoder.encode(each.facts)) for each in appends]
        return await self._database.writer.write(lambda cursor: [_append(cursor, each) for each in encoded])

    async def read(self, execution_id: str, after: int = 0, up_to: int | None = None) -> list[LogRow]:
        head = self._database.fetch(_HEAD, (execution_id,))
        if not head:
            return []
        last = head[0][0] if up_to is None else min(up_to, head[0][0])
        values = (execution_id, after, last)
        if last - after > THREAD_FACTS:
            return await asyncio.to_thread(lambda: self._rows(self._database.fetch_in_thread(_READ, values)))
        return self._rows(self._database.fetch(_READ, values))

    def stream(self, execution_id: str) -> Iterator[LogRow]:
        """The whole log in pages, so that a long one need not be in memory."""
        after = 0
        while found := self._rows(self._database.fetch(_PAGE, (execution_id, after, after + PAGE_FACTS))):
            yield from found
            after = found[-1].first_seq + len(found[-1].facts) - 1

    def _rows(self, found: list[tuple[int, int, bytes]]) -> list[LogRow]:
        decode = self._decoder.decode
        try:
            return [LogRow(first_seq, instant(at), decode(body)) for first_seq, at, body in found]
        except DecodeError as error:
            raise Damaged(f'"{self._database.name}" contains facts that cannot be read: {error}') from error

    async def status(self, execution_id: str) -> Status | None:
        found = self._database.fetch("SELECT status FROM heads WHERE execution_id = ?", (execution_id,))
        return found[0][0] if found else None

    async def snapshot(self, execution_id: str) -> Snapshot | None:
        query = "SELECT seq, schema, body FROM snapshots WHERE execution_id = ?"
        found = self._database.fetch(query, (execution_id,))
        return Snapshot(*found[0]) if found else None

    async def keep(self, execution_id: str, snapshot: Snapshot) -> None:
        def work(cursor: apsw.Cursor) -> None:
            failpoint("sqlite.snapshot.before")
            cursor.execute(_KEEP, (execution_id, *snapshot))
            failpoint("sqlite.snapshot.after")

        await self._database.writer.write(work)


def _append(cursor: apsw.Cursor, encoded: _EncodedAppend) -> Conflict | Fenced | None:
    append = encoded.append
    last_seq = append.first_seq + len(append.facts) - 1
    if append.first_seq == 1:
        _begin(cursor, encoded, last_seq)
    else:
        before = append.first_seq - 1
        values = (append.execution_id, last_seq, before, append.owner, encoded.at, append.status)
        cursor.execute(_ADVANCE, values)
        if not cursor.connection.changes():
            cursor.execute(_CHANGE_STATUS, values)
    if not cursor.connection.changes():
        return _refusal(cursor, append)
    failpoint("sqlite.append.torn")
    cursor.execute(_INSERT, (append.execution_id, append.first_seq, last_seq, encoded.at, encoded.body))
    return None


def _begin(cursor: apsw.Cursor, encoded: _EncodedAppend, last_seq: int) -> None:
    append = encoded.append
    first = append.facts[0]
    path, digest, parent = (first.path, first.digest, first.parent) if isinstance(first, Requested) else ("", "", None)
    values = (append.execution_id, last_seq, append.owner, append.status, path, digest, parent, encoded.at)
    cursor.execute(_BEGIN, values)


def _refusal(cursor: apsw.Cursor, append: Append) -> Conflict | Fenced:
    """Why the head did not change: another owner, or another writer."""
    seq, owner = cursor.execute(_HEAD, (append.execution_id,)).fetchone() or (0, None)
    if owner != append.owner and (owner is not None or append.first_seq == 1):
        return Fenced(f"{append.execution_id} is not owned under number {append.owner}")
    return Conflict(f"{append.execution_id} is at seq {seq}, not at {append.first_seq - 1}")


_SELECT: Final = """
SELECT heads.execution_id, heads.path, heads.digest, heads.status, heads.seq,
       heads.started_at, heads.updated_at, heads.parent, owners.lock, owners.pid
FROM heads LEFT JOIN owners ON owners.number = heads.owner
"""
_NEWEST_FIRST: Final = "ORDER BY heads.started_at DESC, heads.execution_id DESC LIMIT ?"
_BEFORE: Final = """
(heads.started_at, heads.execution_id) < (SELECT started_at, execution_id FROM heads WHERE execution_id = ?)
"""
_OPEN: Final = "heads.status NOT IN ('ok', 'error', 'cancelled')"  # exactly as in the index


# A range, so that the index is used: a parent is "<execution>/<frame>", and "0" follows "/".
_CHILDREN: Final = """
WHERE heads.parent >= ?1 || '/' AND heads.parent < ?1 || '0' ORDER BY heads.started_at, heads.execution_id
"""


def _within(patterns: Sequence[str]) -> str:
    return f"({' OR '.join(['heads.path BETWEEN ? AND ?'] * len(patterns)) or 'FALSE'})"


class SqliteListing:
    """An `ExecutionListing` of one file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def executions(
        self,
        limit: int = 100,
        *,
        before: str | None = None,
        status: Status | None = None,
        open_only: bool = False,
        path: str | None = None,
        within: Sequence[str] | None = None,
    ) -> list[ExecutionHead]:
        conditions: list[str] = []
        values: list[str | int] = []
        if before is not None:
            conditions.append(_BEFORE)
            values.append(before)
        if status is not None:
            conditions.append("heads.status = ?")
            values.append(status)
        if open_only:
            conditions.append(_OPEN)
        if path is not None:
            conditions.append("heads.path = ?")
            values.append(path)
        if within is not None:
            conditions.append(_within(within))
            values += [bound for each in path_ranges(within) for bound in each]
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        query = f"{_SELECT} {where} {_NEWEST_FIRST}"
        return self._heads(query, (*values, page_size(limit)))

    async def head(self, execution_id: str) -> ExecutionHead:
        found = self._heads(f"{_SELECT} WHERE heads.execution_id = ?", (execution_id,))
        if not found:
            raise no_execution(execution_id)
        return found[0]

    async def children(self, execution_id: str) -> list[ExecutionHead]:
        return self._heads(f"{_SELECT} {_CHILDREN}", (execution_id,))

    async def find(self, prefix: str, *, within: Sequence[str] | None = None) -> list[str]:
        # A range, so that the index is used; no id contains the highest character.
        query = (
            f"SELECT execution_id FROM heads WHERE execution_id BETWEEN ?1 AND ?1 || char(0x10FFFF)"
            f"{'' if within is None else f' AND {_within(within)}'}"
            f" ORDER BY execution_id <> ?1, execution_id LIMIT {FOUND_MAX}"
        )
        bounds = [bound for each in path_ranges(within or ()) for bound in each]
        found = [row[0] for row in self._database.fetch(query, (prefix, *bounds))]
        return matches(prefix, found)

    async def last(self) -> str:
        found = self._heads(f"{_SELECT} {_NEWEST_FIRST}", (1,))
        if not found:
            raise no_executions()
        return found[0].execution_id

    def _heads(self, query: str, values: tuple[str | int, ...]) -> list[ExecutionHead]:
        alive: dict[str | None, bool] = {None: False}
        heads = []
        for row in self._database.fetch(query, values):
            execution_id, path, digest, status, seq, started_at, updated_at, parent, lock, pid = row
            if lock not in alive:
                alive[lock] = is_alive(self._database.locks, lock)
            instants = instant(started_at), instant(updated_at)
            heads.append(ExecutionHead(execution_id, path, digest, status, seq, *instants, parent, pid, alive[lock]))
        return heads
