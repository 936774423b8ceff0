"""Limits by key in the SQLite file, for all processes that use it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import apsw
import msgspec

from noetl.adapters.sqlite.connection import instant, micros
from noetl.adapters.sqlite.database import Database
from noetl.ports import (
    WAITING_READ,
    Bucket,
    KeyState,
    PermitAnswer,
    PermitEntry,
    PermitRequest,
    Rate,
    blocked_bucket,
    grant_waiting,
)

_ADD: Final = """
INSERT INTO permits (key, holder, holds, in_flight, rate_count, rate_per_s, at) VALUES (?, ?, 0, ?, ?, ?, ?)
ON CONFLICT (holder) DO NOTHING
"""
_HELD: Final = "SELECT count(*) FROM permits WHERE key = ? AND holds AND in_flight IS NOT NULL"
_WAITING: Final = f"""
SELECT key, holder, in_flight, rate_count, rate_per_s FROM permits WHERE key = ? AND NOT holds
ORDER BY number LIMIT {WAITING_READ}
"""
_BUCKET: Final = "SELECT tokens, at, idle_at FROM buckets WHERE key = ?"
_KEEP: Final = """
INSERT INTO buckets (key, tokens, at, idle_at) VALUES (?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET tokens = excluded.tokens, at = excluded.at, idle_at = excluded.idle_at
"""
_PRUNE: Final = "DELETE FROM buckets WHERE idle_at <= ?"  # a full bucket and a missing one are the same
_GRANT: Final = "UPDATE permits SET holds = 1 WHERE holder = ?"
_KEYS: Final = "SELECT DISTINCT key FROM permits WHERE holder IN (SELECT value FROM json_each(?)) ORDER BY key"
_REMOVE: Final = "DELETE FROM permits WHERE holder IN (SELECT value FROM json_each(?))"
_IN_USE: Final = """
SELECT permits.key, in_flight, rate_count, rate_per_s, tokens, buckets.at, idle_at
FROM permits LEFT JOIN buckets ON buckets.key = permits.key
WHERE number IN (SELECT max(number) FROM permits GROUP BY key)
"""
_ENTRIES: Final = "SELECT key, holder, holds, at FROM permits"


class SqliteLimits:
    """A `Limits`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def acquire(self, request: PermitRequest, at: datetime, *, wait: bool = True) -> PermitAnswer:
        rate = request.rate or (None, None)
        row = (request.key, request.holder, request.in_flight, *rate, micros(at))

        def write(cursor: apsw.Cursor) -> PermitAnswer:
            cursor.execute(_ADD, row)
            answer = _grant(cursor, request.key, at)
            holds = cursor.execute("SELECT holds FROM permits WHERE holder = ?", (request.holder,)).get
            if holds and request.holder not in answer.granted:
                return answer._replace(granted=[request.holder, *answer.granted])
            if not holds and not wait:
                cursor.execute("DELETE FROM permits WHERE holder = ?", (request.holder,))
            return answer

        return await self._database.writer.write(write)

    async def release(self, holders: Sequence[str], at: datetime) -> list[str]:
        listed = (msgspec.json.encode(holders).decode(),)

        def write(cursor: apsw.Cursor) -> list[str]:
            keys = [str(key) for (key,) in cursor.execute(_KEYS, listed).fetchall()]
            cursor.execute(_REMOVE, listed)
            return [holder for key in keys for holder in _grant(cursor, key, at).granted]

        return await self._database.writer.write(write)

    async def advance(self, key: str, at: datetime) -> PermitAnswer:
        return await self._database.writer.write(lambda cursor: _grant(cursor, key, at))

    async def block(self, key: str, until: datetime, rate: Rate | None = None) -> None:
        def write(cursor: apsw.Cursor) -> None:
            _keep(cursor, key, blocked_bucket(_bucket(cursor, key), until, rate))

        await self._database.writer.write(write)

    async def entries(self, keys: Sequence[str] | None = None) -> list[PermitEntry]:
        if keys is None:
            rows = self._database.fetch(f"{_ENTRIES} ORDER BY number")
        else:
            listed = (msgspec.json.encode(keys).decode(),)
            query = f"{_ENTRIES} WHERE key IN (SELECT value FROM json_each(?)) ORDER BY number"
            rows = self._database.fetch(query, listed)
        return [PermitEntry(key, holder, bool(holds), instant(at)) for key, holder, holds, at in rows]

    async def keys(self) -> dict[str, KeyState]:
        found: dict[str, KeyState] = {}
        for key, in_flight, count, per_s, tokens, at, idle_at in self._database.fetch(_IN_USE):
            bucket = None if tokens is None else Bucket(tokens, instant(at), instant(idle_at))
            found[key] = KeyState(in_flight, None if count is None else Rate(count, per_s), bucket)
        return found


def _grant(cursor: apsw.Cursor, key: str, at: datetime) -> PermitAnswer:
    """Inside a transaction."""
    granted: list[str] = []
    while True:
        held = cursor.execute(_HELD, (key,)).get
        assert isinstance(held, int)
        rows: Any = cursor.execute(_WAITING, (key,)).fetchall()
        waiting = [_request(*row) for row in rows]
        if not waiting:
            return PermitAnswer(granted)
        before = _bucket(cursor, key)
        grants = grant_waiting(held, waiting, before, at)
        if grants.bucket is not None and grants.bucket != before:
            _keep(cursor, key, grants.bucket)
            cursor.execute(_PRUNE, (micros(at),))
        for each in waiting[: grants.number]:
            cursor.execute(_GRANT, (each.holder,))
            granted.append(each.holder)
        if grants.number < WAITING_READ:
            return PermitAnswer(granted, grants.retry_at)


def _request(key: str, holder: str, in_flight: int | None, count: int | None, per_s: float | None) -> PermitRequest:
    return PermitRequest(key, holder, in_flight, None if count is None or per_s is None else Rate(count, per_s))


def _bucket(cursor: apsw.Cursor, key: str) -> Bucket | None:
    row: Any = cursor.execute(_BUCKET, (key,)).fetchone()
    return None if row is None else Bucket(row[0], instant(row[1]), instant(row[2]))


def _keep(cursor: apsw.Cursor, key: str, bucket: Bucket) -> None:
    cursor.execute(_KEEP, (key, bucket.tokens, micros(bucket.at), micros(bucket.idle_at)))
