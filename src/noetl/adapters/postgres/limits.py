"""Limits by key in PostgreSQL, for all servers. Each change locks the row of its key."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from noetl.adapters.postgres.database import PostgresDatabase
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

if TYPE_CHECKING:
    from asyncpg import Connection

# Locks the row of the key until the end of the transaction, and makes it if there is none.
_LOCK: Final = """
INSERT INTO noetl.buckets (key, idle_at) VALUES ($1, $2)
ON CONFLICT (key) DO UPDATE SET key = excluded.key RETURNING tokens, at, idle_at, xmax = 0 AS is_new
"""
# With each new key, some obsolete rows are deleted: a full bucket and a missing one are the same.
_PRUNE: Final = """
DELETE FROM noetl.buckets WHERE key IN (
    SELECT key FROM noetl.buckets WHERE idle_at <= $1 AND key <> $2 AND NOT EXISTS (
        SELECT FROM noetl.permits WHERE permits.key = buckets.key
    ) ORDER BY idle_at LIMIT 16 FOR UPDATE SKIP LOCKED
)
"""
_ADD: Final = """
INSERT INTO noetl.permits (key, holder, holds, in_flight, rate_count, rate_per_s, at)
VALUES ($1, $2, false, $3, $4, $5, $6) ON CONFLICT (holder) DO NOTHING
"""
_WAITING: Final = f"""
SELECT key, holder, in_flight, rate_count, rate_per_s,
       (SELECT count(*) FROM noetl.permits WHERE key = $1 AND holds AND in_flight IS NOT NULL) AS held
FROM noetl.permits WHERE key = $1 AND NOT holds ORDER BY number LIMIT {WAITING_READ}
"""
_KEEP: Final = "UPDATE noetl.buckets SET tokens = $2, at = $3, idle_at = $4 WHERE key = $1"
_GRANT: Final = "UPDATE noetl.permits SET holds = true WHERE holder = ANY($1::text[])"
_KEYS: Final = "SELECT DISTINCT key FROM noetl.permits WHERE holder = ANY($1::text[]) ORDER BY key"
_REMOVE: Final = "DELETE FROM noetl.permits WHERE holder = ANY($1::text[])"
_IN_USE: Final = """
SELECT DISTINCT ON (permits.key) permits.key, in_flight, rate_count, rate_per_s, tokens, buckets.at, idle_at
FROM noetl.permits LEFT JOIN noetl.buckets ON buckets.key = permits.key ORDER BY permits.key, number DESC
"""
_ENTRIES: Final = """
SELECT key, holder, holds, at FROM noetl.permits WHERE $1::text[] IS NULL OR key = ANY($1) ORDER BY number
"""


class PostgresLimits:
    """A `Limits`."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def acquire(self, request: PermitRequest, at: datetime, *, wait: bool = True) -> PermitAnswer:
        rate = request.rate or (None, None)
        async with self._database.transaction() as connection:
            bucket = await _lock(connection, request.key, at)
            await connection.execute(_ADD, request.key, request.holder, request.in_flight, *rate, at)
            answer = await _grant(connection, request.key, bucket, at)
            if request.holder in answer.granted:
                return answer
            if await connection.fetchval("SELECT holds FROM noetl.permits WHERE holder = $1", request.holder):
                return answer._replace(granted=[request.holder, *answer.granted])
            if not wait:
                await connection.execute(_REMOVE, [request.holder])
            return answer

    async def release(self, holders: Sequence[str], at: datetime) -> list[str]:
        granted: list[str] = []
        async with self._database.transaction() as connection:
            keys = [row["key"] for row in await connection.fetch(_KEYS, holders)]
            buckets = {key: await _lock(connection, key, at) for key in keys}  # in order: no two can block each other
            if keys:
                await connection.execute(_REMOVE, holders)
            for key, bucket in buckets.items():
                granted += (await _grant(connection, key, bucket, at)).granted
        return granted

    async def advance(self, key: str, at: datetime) -> PermitAnswer:
        async with self._database.transaction() as connection:
            return await _grant(connection, key, await _lock(connection, key, at), at)

    async def block(self, key: str, until: datetime, rate: Rate | None = None) -> None:
        async with self._database.transaction() as connection:
            bucket = await _lock(connection, key, until)
            await connection.execute(_KEEP, key, *blocked_bucket(bucket, until, rate))

    async def entries(self, keys: Sequence[str] | None = None) -> list[PermitEntry]:
        return [PermitEntry(*row) for row in await self._database.fetch(_ENTRIES, keys)]

    async def keys(self) -> dict[str, KeyState]:
        found: dict[str, KeyState] = {}
        for row in await self._database.fetch(_IN_USE):
            bucket = None if row["at"] is None else Bucket(row["tokens"], row["at"], row["idle_at"])
            found[row["key"]] = KeyState(row["in_flight"], _request_rate(row), bucket)
        return found


async def _lock(connection: Connection, key: str, at: datetime) -> Bucket | None:
    row = await connection.fetchrow(_LOCK, key, at)
    if row["is_new"]:
        await connection.execute(_PRUNE, at, key)
    return None if row["at"] is None else Bucket(row["tokens"], row["at"], row["idle_at"])


async def _grant(connection: Connection, key: str, bucket: Bucket | None, at: datetime) -> PermitAnswer:
    """Inside a transaction that has locked the key."""
    granted: list[str] = []
    while True:
        rows = await connection.fetch(_WAITING, key)
        if not rows:
            return PermitAnswer(granted)
        waiting = [_request(row) for row in rows]
        grants = grant_waiting(rows[0]["held"], waiting, bucket, at)
        if grants.bucket is not None and grants.bucket != bucket:
            bucket = grants.bucket
            await connection.execute(_KEEP, key, *bucket)
        if grants.number:
            some = [each.holder for each in waiting[: grants.number]]
            await connection.execute(_GRANT, some)
            granted += some
        if grants.number < WAITING_READ:
            return PermitAnswer(granted, grants.retry_at)


def _request(row: Any) -> PermitRequest:
    return PermitRequest(row["key"], row["holder"], row["in_flight"], _request_rate(row))


def _request_rate(row: Any) -> Rate | None:
    count = row["rate_count"]
    return None if count is None else Rate(count, row["rate_per_s"])
