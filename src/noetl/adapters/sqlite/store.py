"""The log on SQLite: one row per append. The head of an execution is compare-and-set and fence at once.

Executions are listed from their heads instead of their logs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final, TypeAlias, get_args

import apsw
from msgspec import DecodeError, Struct
from msgspec.json import Decoder, encode

from noetl.adapters.process_locks import is_alive
from noetl.adapters.sql import (
    FOUND_MAX,
    decode_change,
    decode_labels,
    decode_waits,
    encode_labels,
    encode_waits,
    matches,
    no_execution,
    no_executions,
    page_size,
    path_ranges,
    search_patterns,
)
from noetl.adapters.sqlite.connection import instant, micros
from noetl.adapters.sqlite.database import Database
from noetl.engine.facts import Fact, Requested
from noetl.engine.state import Status
from noetl.errors import Conflict, Damaged, Fenced
from noetl.failpoints import failpoint
from noetl.ports import (
    ALL_EXECUTIONS,
    Append,
    ExecutionFilter,
    ExecutionHead,
    LabelChange,
    LogRow,
    SavedValue,
    Snapshot,
    SnapshotOf,
)

PAGE_FACTS: Final = 5_000
THREAD_FACTS: Final = 2_000  # a thread reads more, so that the event loop stays free

_BEGIN: Final = """
INSERT INTO heads (execution_id, seq, owner, status, path, digest, parent, started_at, updated_at, labels, error)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9, ?10 WHERE EXISTS (SELECT 1 FROM owners WHERE number = ?3)
ON CONFLICT DO NOTHING
"""
# While the status is the same no index has to be updated.
_ADVANCE: Final = """
UPDATE heads SET seq = ?2, updated_at = ?5 WHERE execution_id = ?1 AND seq = ?3 AND owner = ?4 AND status = ?6
"""
_CHANGE_STATUS: Final = """
UPDATE heads SET seq = ?2, updated_at = ?5, status = ?6, error = ?7
WHERE execution_id = ?1 AND seq = ?3 AND owner = ?4
"""
_WAITS: Final = "UPDATE heads SET waits = ?2 WHERE execution_id = ?1"
_INSERT: Final = "INSERT INTO log VALUES (?, ?, ?, ?, CAST(? AS TEXT))"
_UNNOTIFIED: Final = "INSERT OR REPLACE INTO unnotified VALUES (?, ?, ?)"
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
_SNAPSHOTS: Final[dict[SnapshotOf, str]] = {"state": "snapshots", "records": "run_records"}
_KEEP: Final = """
INSERT INTO {table} VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE
SET seq = excluded.seq, schema = excluded.schema, body = excluded.body
WHERE excluded.seq >= seq OR excluded.schema <> schema
"""


class _EncodedAppend(Struct, frozen=True):
    """An append, encoded before the transaction begins."""

    append: Append
    at: int
    body: bytes


class SqliteStore:
    """An `EventStore` with `PendingNotifications`. `SqliteOwnership` decides who owns an execution."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._decoder: Decoder[tuple[Fact, ...]] = Decoder(tuple[Fact, ...])

    async def append(self, appends: Sequence[Append]) -> list[Conflict | Fenced | None]:
        encoded = [_EncodedAppend(each, micros(each.at), each.body) for each in appends]
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

    async def snapshot(self, execution_id: str, of: SnapshotOf = "state") -> Snapshot | None:
        query = f"SELECT seq, schema, body FROM {_SNAPSHOTS[of]} WHERE execution_id = ?"
        found = self._database.fetch(query, (execution_id,))
        return Snapshot(*found[0]) if found else None

    async def unnotified(self, before: datetime, limit: int) -> list[str]:
        query = "SELECT execution_id FROM unnotified WHERE at < ? ORDER BY at, execution_id LIMIT ?"
        return [execution_id for (execution_id,) in self._database.fetch(query, (micros(before), limit))]

    async def notified(self, execution_id: str, seq: int) -> None:
        query = "DELETE FROM unnotified WHERE execution_id = ? AND seq <= ?"
        await self._database.writer.write(lambda cursor: cursor.execute(query, (execution_id, seq)) and None)

    async def keep(self, execution_id: str, snapshot: Snapshot, of: SnapshotOf = "state") -> None:
        query = _KEEP.format(table=_SNAPSHOTS[of])

        def work(cursor: apsw.Cursor) -> None:
            failpoint("sqlite.snapshot.before")
            cursor.execute(query, (execution_id, *snapshot))
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
            cursor.execute(_CHANGE_STATUS, (*values, append.error))
    if not cursor.connection.changes():
        return _refusal(cursor, append)
    failpoint("sqlite.append.torn")
    cursor.execute(_INSERT, (append.execution_id, append.first_seq, last_seq, encoded.at, encoded.body))
    for path, key, value in append.saved:
        from noetl.adapters.sqlite.saved import add_saved  # few playbooks save values

        add_saved(cursor, path, SavedValue(key, value, append.at, append.execution_id))
    if append.waits is not None:
        cursor.execute(_WAITS, (append.execution_id, encode_waits(append.waits)))
    if append.notifies:
        cursor.execute(_UNNOTIFIED, (append.execution_id, last_seq, encoded.at))
    return None


def _begin(cursor: apsw.Cursor, encoded: _EncodedAppend, last_seq: int) -> None:
    append = encoded.append
    first = append.facts[0]
    path, digest, parent, labels = "", "", None, None
    if isinstance(first, Requested):
        path, digest, parent, labels = first.path, first.digest, first.parent, encode_labels(first.labels)
    head = (append.execution_id, last_seq, append.owner, append.status, path, digest, parent, encoded.at, labels)
    cursor.execute(_BEGIN, (*head, append.error))


def _refusal(cursor: apsw.Cursor, append: Append) -> Conflict | Fenced:
    """Why the head did not change: another owner, or another writer."""
    seq, owner = cursor.execute(_HEAD, (append.execution_id,)).fetchone() or (0, None)
    if owner != append.owner and (owner is not None or append.first_seq == 1):
        return Fenced(f"{append.execution_id} is not owned under number {append.owner}")
    return Conflict(f"{append.execution_id} is at seq {seq}, not at {append.first_seq - 1}")


_SELECT: Final = """
SELECT heads.execution_id, heads.path, heads.digest, heads.status, heads.seq,
       heads.started_at, heads.updated_at, heads.parent, owners.lock, owners.pid, heads.labels,
       heads.error, heads.waits
FROM heads LEFT JOIN owners ON owners.number = heads.owner
"""
_NEWEST_FIRST: Final = "ORDER BY heads.started_at DESC, heads.execution_id DESC LIMIT ?"
_BEFORE: Final = """
(heads.started_at, heads.execution_id) < (SELECT started_at, execution_id FROM heads WHERE execution_id = ?)
"""
_OPEN: Final = "heads.status NOT IN ('ok', 'error', 'cancelled')"  # exactly as in the index


_LABEL: Final = "EXISTS (SELECT 1 FROM json_each(heads.labels) AS label WHERE label.key = ? AND label.atom = ?)"

# A range, so that the index is used: a parent is "<execution>/<frame>", and "0" follows "/".
_CHILDREN: Final = """
WHERE heads.parent >= ?1 || '/' AND heads.parent < ?1 || '0' ORDER BY heads.started_at, heads.execution_id
"""


def _within(patterns: Sequence[str]) -> str:
    return f"({' OR '.join(['heads.path BETWEEN ? AND ?'] * len(patterns)) or 'FALSE'})"


_Values: TypeAlias = tuple[str | int, ...]

_SEARCH: Final = r"""
(heads.path LIKE ? ESCAPE '\' OR heads.execution_id LIKE ? ESCAPE '\' OR heads.execution_id LIKE ? ESCAPE '\'
 OR heads.error LIKE ? ESCAPE '\' OR heads.labels IS NOT NULL AND EXISTS (
     SELECT 1 FROM json_each(heads.labels) AS label WHERE label.key || '=' || label.atom LIKE ? ESCAPE '\'
 ))
"""


def _where(wanted: ExecutionFilter, before: str | None = None) -> tuple[str, _Values]:
    """The clause and its values. A status is not a parameter: the plan must know which index fits."""
    found: list[tuple[str, _Values]] = []
    if before is not None:
        found.append((_BEFORE, (before,)))
    if wanted.status is not None:
        assert wanted.status in get_args(Status), wanted.status
        found.append((f"heads.status = '{wanted.status}'", ()))
    if wanted.open_only:
        found.append((_OPEN, ()))
    if wanted.path is not None:
        found.append(("heads.path = ?", (wanted.path,)))
    if wanted.path_prefix:
        found.append(("heads.path BETWEEN ? AND ?", path_ranges([f"{wanted.path_prefix}*"])[0]))
    if wanted.digest is not None:
        found.append(("heads.digest = ?", (wanted.digest,)))
    found += [(_LABEL, each) for each in (wanted.labels or {}).items()]
    if wanted.since is not None:
        found.append(("heads.started_at >= ?", (micros(wanted.since),)))
    if wanted.until is not None:
        found.append(("heads.started_at < ?", (micros(wanted.until),)))
    if wanted.roots:
        found.append(("heads.parent IS NULL", ()))
    if wanted.waiting:
        found.append(("heads.waits IS NOT NULL", ()))
    if wanted.search is not None:
        part, start, end = search_patterns(wanted.search)
        found.append((_SEARCH, (part, start, end, part, part)))
    if wanted.within is not None:
        found.append((_within(wanted.within), tuple(end for each in path_ranges(wanted.within) for end in each)))
    clause = " AND ".join(condition for condition, _ in found)
    return clause and f"WHERE {clause}", tuple(value for _, values in found for value in values)


def _reads_all(wanted: ExecutionFilter) -> bool:
    """No index finds these executions: a thread reads them, so that the event loop stays free."""
    return wanted.search is not None or bool(wanted.labels)


class SqliteListing:
    """An `ExecutionListing` of one file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def executions(
        self, limit: int = 100, wanted: ExecutionFilter = ALL_EXECUTIONS, *, before: str | None = None
    ) -> list[ExecutionHead]:
        where, values = _where(wanted, before)
        query, values = f"{_SELECT} {where} {_NEWEST_FIRST}", (*values, page_size(limit))
        if _reads_all(wanted):
            return await asyncio.to_thread(lambda: self._read(self._database.fetch_in_thread(query, values)))
        return self._heads(query, values)

    async def count(self, wanted: ExecutionFilter = ALL_EXECUTIONS) -> int:
        where, values = _where(wanted)
        query = f"SELECT count(*) FROM heads {where}"
        if _reads_all(wanted):
            found = await asyncio.to_thread(lambda: self._database.fetch_in_thread(query, values))
        else:
            found = self._database.fetch(query, values)
        return int(found[0][0])

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

    async def label(self, execution_id: str, change: LabelChange) -> None:
        labels = encode(change.labels).decode()

        def work(cursor: apsw.Cursor) -> bool:
            cursor.execute(_LABEL_HEAD, (execution_id, labels))
            found = bool(cursor.connection.changes())
            if found:
                cursor.execute(_LABEL_CHANGE, (execution_id, micros(change.at), change.by, labels))
            return found

        known = self._database.fetch(_HEAD, (execution_id,))
        if not known or not await self._database.writer.write(work):
            raise no_execution(execution_id)

    async def label_changes(self, execution_id: str) -> list[LabelChange]:
        found = self._database.fetch(_LABEL_CHANGES, (execution_id,))
        return [LabelChange(instant(at), by, decode_change(labels)) for at, by, labels in found]

    def _heads(self, query: str, values: _Values) -> list[ExecutionHead]:
        return self._read(self._database.fetch(query, values))

    def _read(self, found: list[tuple[Any, ...]]) -> list[ExecutionHead]:
        alive: dict[str | None, bool] = {None: False}
        heads = []
        for row in found:
            execution_id, path, digest, status, seq, started_at, updated_at, parent, lock, pid, *rest = row
            if lock not in alive:
                alive[lock] = is_alive(self._database.locks, lock)
            instants = instant(started_at), instant(updated_at)
            labels, error, waits = rest
            head = ExecutionHead(execution_id, path, digest, status, seq, *instants, parent, pid, alive[lock])
            heads.append(head._replace(labels=decode_labels(labels), error=error, waits=decode_waits(waits)))
        return heads


# A merge patch: a null removes the label.
_LABEL_HEAD: Final = """
UPDATE heads SET labels = nullif(json_patch(coalesce(labels, '{}'), ?2), '{}') WHERE execution_id = ?1
"""
_LABEL_CHANGE: Final = "INSERT INTO label_changes (execution_id, at, who, labels) VALUES (?, ?, ?, ?)"
_LABEL_CHANGES: Final = "SELECT at, who, labels FROM label_changes WHERE execution_id = ? ORDER BY number"

_DELETE: Final = """
DELETE FROM heads WHERE execution_id IN (SELECT value FROM json_each(?)) AND status IN ('ok', 'error', 'cancelled')
RETURNING execution_id
"""


class SqliteRetention:
    """Removes executions from one file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def delete(self, execution_ids: Sequence[str]) -> list[str]:
        """Remove these executions, as far as they have ended; the ids of those that are removed."""

        def work(cursor: apsw.Cursor) -> list[str]:
            wanted = encode(list(execution_ids)).decode()
            gone = [str(row[0]) for row in cursor.execute(_DELETE, (wanted,)).fetchall()]
            for table in ("log", "snapshots", "unnotified"):
                cursor.execute(
                    f"DELETE FROM {table} WHERE execution_id IN (SELECT value FROM json_each(?))",
                    (encode(gone).decode(),),
                )
            return sorted(gone)

        return await self._database.writer.write(work)
