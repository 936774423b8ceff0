"""The log on PostgreSQL: one row per append, leases of partitions on the clock of the database, lists, deletion."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias, get_args

import msgspec
from msgspec import DecodeError
from msgspec.json import Decoder, Encoder

from noetl.adapters.postgres.database import BatchedReads, PostgresDatabase, is_text
from noetl.adapters.postgres.group_commit import TIMEOUT_S, Appender, AppendRow
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
from noetl.engine.facts import Fact, Requested
from noetl.engine.state import Status
from noetl.errors import Conflict, Damaged, Fenced, Unavailable
from noetl.ids import partition_of
from noetl.ports import (
    ALL_EXECUTIONS,
    Append,
    ExecutionFilter,
    ExecutionHead,
    LabelChange,
    LogRow,
    OwnedPartitions,
    Snapshot,
    SnapshotOf,
)

PARTITIONS: Final = 64
PAGE_ROWS: Final = 1_000  # of a long log in one query
FIRST_ROWS: Final = 50  # of each log in a batched read: most have no more
LOGS_MAX: Final = 32  # in a batched read
LEASE_TIMEOUT_S: Final = 5.0  # at least; otherwise half a lease
SEQ_MAX: Final = (1 << 63) - 1
THREAD_BYTES: Final = 200_000  # a thread decodes more, so that the event loop stays free

# From the row that contains `after`, which the index finds: the rest of a long log is not read.
_READ: Final = """
SELECT wanted.place, found.* FROM unnest($1::text[], $2::bigint[], $3::bigint[])
WITH ORDINALITY AS wanted (execution_id, after, up_to, place) CROSS JOIN LATERAL (
    SELECT first_seq, last_seq, at, body FROM noetl.log
    WHERE execution_id = wanted.execution_id AND last_seq > wanted.after
    AND first_seq >= coalesce((
        SELECT first_seq FROM noetl.log WHERE execution_id = wanted.execution_id AND first_seq <= wanted.after
        ORDER BY first_seq DESC LIMIT 1
    ), 0) AND first_seq <= wanted.up_to
    ORDER BY first_seq LIMIT $4
) AS found ORDER BY wanted.place, found.first_seq
"""
_STATUS: Final = "SELECT execution_id, status FROM noetl.heads WHERE execution_id = ANY($1::text[])"
_SNAPSHOTS: Final[dict[SnapshotOf, str]] = {"state": "noetl.snapshots", "records": "noetl.run_records"}
_KEEP: Final = """
INSERT INTO {table} AS kept
SELECT $1, $2, $3, $4 WHERE EXISTS (SELECT FROM noetl.heads WHERE execution_id = $1)
ON CONFLICT (execution_id) DO UPDATE
SET seq = excluded.seq, schema = excluded.schema, body = excluded.body
WHERE excluded.seq >= kept.seq OR excluded.schema <> kept.schema
"""
_LIVE: Final = """
SELECT execution_id, seq FROM noetl.heads
WHERE partition = ANY($1::smallint[]) AND status NOT IN ('ok', 'error', 'cancelled')
ORDER BY started_at, execution_id
"""
# An expired lease gets a new epoch, even if no other server acquired it meanwhile. Rows are locked in the
# order of their numbers. The lock waits for a running append under the old epoch.
_OWN: Final = """
WITH free AS MATERIALIZED (
    SELECT number, (server = $1 AND until > now()) AS is_ours FROM noetl.partitions
    WHERE number = ANY($2::smallint[]) AND (server = $1 OR until <= now()) ORDER BY number FOR UPDATE
), kept AS (
    UPDATE noetl.partitions AS each SET server = $1, until = now() + $3,
    epoch = CASE WHEN free.is_ours THEN each.epoch ELSE each.epoch + 1 END
    FROM free WHERE each.number = free.number RETURNING each.number, each.epoch
), made AS (
    INSERT INTO noetl.partitions
    SELECT number, 1, $1, now() + $3 FROM unnest($2::smallint[]) AS wanted (number)
    WHERE (SELECT count(*) FROM free) < cardinality($2)
    AND NOT EXISTS (SELECT FROM noetl.partitions AS each WHERE each.number = wanted.number)
    ORDER BY number ON CONFLICT DO NOTHING RETURNING number, epoch
)
SELECT number, epoch, clock_timestamp() AS at FROM (TABLE kept UNION ALL TABLE made) AS ours
UNION ALL SELECT NULL, NULL, clock_timestamp()
"""
# The new epoch refuses late appends of the last owner.
_LET_GO: Final = """
WITH ours AS MATERIALIZED (
    SELECT number FROM noetl.partitions WHERE number = ANY($2::smallint[]) AND server = $1
    ORDER BY number FOR UPDATE
)
UPDATE noetl.partitions AS each SET server = '', until = now(), epoch = epoch + 1
FROM ours WHERE each.number = ours.number
"""
_SERVERS: Final = """
WITH here AS (
    INSERT INTO noetl.servers VALUES ($1, now() + $2)
    ON CONFLICT (name) DO UPDATE SET until = excluded.until RETURNING name
), forgotten AS (
    DELETE FROM noetl.servers WHERE name IN (
        SELECT name FROM noetl.servers WHERE until < now() - interval '1 day' AND name <> $1
        FOR UPDATE SKIP LOCKED
    )
)
SELECT name FROM noetl.servers WHERE until > now() AND name <> $1 UNION SELECT name FROM here ORDER BY name
"""
# Two statements: the one that meets a row committed meanwhile does not see it.
_FIRST_COUNT: Final = "INSERT INTO noetl.house (partitions) VALUES ($1) ON CONFLICT DO NOTHING"
_COUNT: Final = "SELECT partitions FROM noetl.house"

_Range: TypeAlias = tuple[str, int, int]  # execution, after, up to


class PostgresStore:
    """An `EventStore` with `Partitions`."""

    def __init__(
        self, database: PostgresDatabase, partitions: int = PARTITIONS, *, timeout_s: float = TIMEOUT_S
    ) -> None:
        """`timeout_s`: after that the outcome of an append is unknown."""
        self._database = database
        self._partitions = partitions
        self._is_checked = False  # the database has the same number of partitions
        self._appender = Appender(database, timeout_s)
        self._encoder = Encoder()
        self._decoder: Decoder[tuple[Fact, ...]] = Decoder(tuple[Fact, ...])
        self._first_rows: BatchedReads[_Range, list[Any]] = BatchedReads(self._found, LOGS_MAX)
        self._statuses: BatchedReads[str, Status | None] = BatchedReads(self._status_of)

    async def append(self, appends: Sequence[Append]) -> list[Conflict | Fenced | None]:
        return await self._appender.append([self._row(each) for each in appends])

    async def read(self, execution_id: str, after: int = 0, up_to: int | None = None) -> list[LogRow]:
        if not is_text(execution_id):
            return []
        after, last = min(after, SEQ_MAX), SEQ_MAX if up_to is None else min(up_to, SEQ_MAX)
        found = await self._first_rows.read((execution_id, after, last))
        rows, limit = await self._decoded(execution_id, found), FIRST_ROWS
        while len(found) == limit:
            limit, after = PAGE_ROWS, found[-1]["last_seq"]
            (found,) = await self._found([(execution_id, after, last)], limit)
            rows += await self._decoded(execution_id, found)
        return rows

    async def status(self, execution_id: str) -> Status | None:
        return await self._statuses.read(execution_id) if is_text(execution_id) else None

    async def snapshot(self, execution_id: str, of: SnapshotOf = "state") -> Snapshot | None:
        query = f"SELECT seq, schema, body FROM {_SNAPSHOTS[of]} WHERE execution_id = $1"
        found = await self._database.fetch(query, execution_id)
        return Snapshot(*found[0]) if found else None

    async def keep(self, execution_id: str, snapshot: Snapshot, of: SnapshotOf = "state") -> None:
        await self._database.fetch(_KEEP.format(table=_SNAPSHOTS[of]), execution_id, *snapshot)

    async def unnotified(self, before: datetime, limit: int) -> list[str]:
        query = "SELECT execution_id FROM noetl.unnotified WHERE at < $1 ORDER BY at, execution_id LIMIT $2"
        return [row["execution_id"] for row in await self._database.fetch(query, before, limit)]

    async def notified(self, execution_id: str, seq: int) -> None:
        query = "DELETE FROM noetl.unnotified WHERE execution_id = $1 AND seq <= $2"
        await self._database.fetch(query, execution_id, seq)

    async def live(self, partitions: Sequence[int]) -> list[tuple[str, int]]:
        return [(row["execution_id"], row["seq"]) for row in await self._database.fetch(_LIVE, [*partitions])]

    async def own(self, server: str, partitions: Sequence[int], ttl_s: float) -> OwnedPartitions:
        await self._check_partitions()
        values = server, [*partitions], timedelta(seconds=ttl_s)
        found = await self._database.fetch(_OWN, *values, timeout_s=max(LEASE_TIMEOUT_S, ttl_s / 2))
        epochs = {row["number"]: row["epoch"] for row in found if row["number"] is not None}
        return OwnedPartitions(epochs, found[0]["at"])

    async def let_go(self, server: str, partitions: Sequence[int]) -> None:
        await self._database.fetch(_LET_GO, server, [*partitions])

    async def servers(self, server: str, ttl_s: float) -> list[str]:
        found = await self._database.fetch(_SERVERS, server, timedelta(seconds=ttl_s))
        return [row["name"] for row in found]

    async def close(self) -> None:
        """Close the connection of the log. The caller closes the database."""
        await self._appender.close()

    def _row(self, append: Append) -> AppendRow:
        first = append.facts[0]
        path, digest, parent, labels = "", "", None, None
        if isinstance(first, Requested):
            path, digest, parent, labels = first.path, first.digest, first.parent, encode_labels(first.labels)
        return AppendRow(
            execution_id=append.execution_id,
            partition=partition_of(append.execution_id, self._partitions),
            epoch=append.owner,
            first_seq=append.first_seq,
            last_seq=append.first_seq + len(append.facts) - 1,
            at=append.at,
            status=append.status,
            body=append.body.decode(),
            path=path,
            digest=digest,
            parent=parent,
            labels=labels,
            error=append.error,
            waits=None if append.waits is None else encode_waits(append.waits) or "",
            saved=tuple((each.path, each.key, self._encoder.encode(each.value).decode()) for each in append.saved),
            notifies=append.notifies,
        )

    async def _found(self, ranges: list[_Range], limit: int = FIRST_ROWS) -> list[list[Any]]:
        """The rows of each range, at most `limit`."""
        found: list[list[Any]] = [[] for _ in ranges]
        for row in await self._database.fetch(_READ, *map(list, zip(*ranges, strict=True)), limit):
            found[row["place"] - 1].append(row)
        return found

    async def _status_of(self, execution_ids: list[str]) -> list[Status | None]:
        found = dict(await self._database.fetch(_STATUS, execution_ids))
        return [found.get(each) for each in execution_ids]

    async def _decoded(self, execution_id: str, found: list[Any]) -> list[LogRow]:
        if sum(len(row["body"]) for row in found) > THREAD_BYTES:
            return await asyncio.to_thread(self._rows, execution_id, found)
        return self._rows(execution_id, found)

    def _rows(self, execution_id: str, found: list[Any]) -> list[LogRow]:
        decode = self._decoder.decode
        try:
            return [LogRow(first_seq, at, decode(body)) for _, first_seq, _, at, body in found]
        except DecodeError as error:
            raise Damaged(f"the log of {execution_id} contains facts that cannot be read: {error}") from error

    async def _check_partitions(self) -> None:
        """Raises Unavailable: servers with different numbers would own the same executions."""
        if self._is_checked:
            return
        await self._database.fetch(_FIRST_COUNT, self._partitions)
        ((count,),) = await self._database.fetch(_COUNT)
        if count != self._partitions:
            raise Unavailable(f"the log has {count} partitions, but this server expects {self._partitions}")
        self._is_checked = True


_SELECT: Final = """
SELECT heads.execution_id, heads.path, heads.digest, heads.status, heads.seq, heads.started_at,
       heads.updated_at, heads.parent, heads.labels::text, coalesce(partitions.until > now(), false) AS owner_alive,
       heads.error, heads.waits
FROM noetl.heads LEFT JOIN noetl.partitions ON partitions.number = heads.partition
"""
_NEWEST_FIRST: Final = "ORDER BY heads.started_at DESC, heads.execution_id DESC"
_OPEN: Final = "heads.status NOT IN ('ok', 'error', 'cancelled')"  # exactly as in the index
_CHILDREN: Final = """
WHERE split_part(heads.parent, '/', 1) = $1 AND heads.parent IS NOT NULL
ORDER BY heads.started_at, heads.execution_id
"""
# A range, so that the index is used; no id contains the highest character.
_FIND: Final = "SELECT execution_id FROM noetl.heads WHERE execution_id BETWEEN $1 AND $1 || chr(1114111)"
_FOUND: Final = "ORDER BY execution_id LIMIT $2"


_BEFORE: Final = """
(heads.started_at, heads.execution_id) < (SELECT started_at, execution_id FROM noetl.heads WHERE execution_id = $)
"""
_Value: TypeAlias = str | int | datetime | list[str]


def _within(first: int, patterns: Sequence[str]) -> str:
    """`first`: the number of the first parameter."""
    numbers = range(first, first + 2 * len(patterns), 2)
    return f"({' OR '.join(f'heads.path BETWEEN ${each} AND ${each + 1}' for each in numbers) or 'FALSE'})"


_SEARCH: Final = """
(heads.path ILIKE $part OR heads.execution_id LIKE $start OR heads.execution_id LIKE $end OR heads.error ILIKE $part
 OR heads.labels IS NOT NULL AND EXISTS (
     SELECT FROM jsonb_each_text(heads.labels) AS label WHERE label.key || '=' || label.value ILIKE $part
 ))
"""


def _where(wanted: ExecutionFilter, before: str | None = None) -> tuple[str, list[_Value]]:
    """The clause and its values. A status is not a parameter: the plan must know which index fits."""
    conditions, values = list[str](), list[_Value]()

    def add(condition: str, value: _Value) -> None:
        values.append(value)
        conditions.append(condition.replace("$", f"${len(values)}"))

    if before is not None:
        add(_BEFORE, before)
    if wanted.status is not None:
        assert wanted.status in get_args(Status), wanted.status
        conditions.append(f"heads.status = '{wanted.status}'")
    if wanted.open_only:
        conditions.append(_OPEN)
    if wanted.path is not None:
        add("left(heads.path, 200) = left($, 200) AND heads.path = $", wanted.path)
    if wanted.path_prefix:
        add("heads.path BETWEEN $ AND $ || chr(1114111)", wanted.path_prefix)
    if wanted.digest is not None:
        add("heads.digest = $", wanted.digest)
    if wanted.labels:
        add("heads.labels IS NOT NULL AND heads.labels @> $::text::jsonb", encode_labels(wanted.labels) or "{}")
    if wanted.since is not None:
        add("heads.started_at >= $", wanted.since)
    if wanted.until is not None:
        add("heads.started_at < $", wanted.until)
    if wanted.roots:
        conditions.append("heads.parent IS NULL")
    if wanted.waiting:
        conditions.append("heads.waits IS NOT NULL")
    if wanted.search is not None:
        condition = _SEARCH
        for name, pattern in search_patterns(wanted.search)._asdict().items():
            values.append(pattern.lower() if name.startswith("id") else pattern)
            condition = condition.replace(f"${name.removeprefix('id_')}", f"${len(values)}")
        conditions.append(condition)
    if wanted.within is not None:
        conditions.append(_within(len(values) + 1, wanted.within))
        values += [bound for each in path_ranges(wanted.within) for bound in each]
    return f"WHERE {' AND '.join(conditions)}" if conditions else "", values


class PostgresListing:
    """An `ExecutionListing`."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._batched: BatchedReads[str, ExecutionHead | None] = BatchedReads(self._heads_of)

    async def executions(
        self, limit: int = 100, wanted: ExecutionFilter = ALL_EXECUTIONS, *, before: str | None = None
    ) -> list[ExecutionHead]:
        where, values = _where(wanted, before)
        limited = f"LIMIT ${len(values) + 1}"
        return await self._heads(f"{_SELECT} {where} {_NEWEST_FIRST} {limited}", *values, page_size(limit))

    async def count(self, wanted: ExecutionFilter = ALL_EXECUTIONS) -> int:
        where, values = _where(wanted)
        found = await self._database.fetch(f"SELECT count(*) FROM noetl.heads {where}", *values)
        return int(found[0][0]) if found else 0

    async def head(self, execution_id: str) -> ExecutionHead:
        found = await self._batched.read(execution_id) if is_text(execution_id) else None
        if found is None:
            raise no_execution(execution_id)
        return found

    async def children(self, execution_id: str) -> list[ExecutionHead]:
        return await self._heads(f"{_SELECT} {_CHILDREN}", execution_id)

    async def find(self, prefix: str, *, within: Sequence[str] | None = None) -> list[str]:
        limited = "" if within is None else f"AND {_within(3, within)}"
        bounds = [bound for each in path_ranges(within or ()) for bound in each]
        found = await self._database.fetch(f"{_FIND} {limited} {_FOUND}", prefix, FOUND_MAX, *bounds)
        return matches(prefix, [row["execution_id"] for row in found])

    async def last(self) -> str:
        found = await self.executions(1)
        if not found:
            raise no_executions()
        return found[0].execution_id

    async def label(self, execution_id: str, change: LabelChange) -> None:
        labels = msgspec.json.encode(change.labels).decode()
        known = is_text(execution_id)
        if not known or not await self._database.fetch(_LABEL, execution_id, labels, change.at, change.by):
            raise no_execution(execution_id)

    async def label_changes(self, execution_id: str) -> list[LabelChange]:
        found = await self._database.fetch(_LABEL_CHANGES, execution_id)
        return [LabelChange(row["at"], row["who"], decode_change(row["labels"])) for row in found]

    async def _heads_of(self, execution_ids: list[str]) -> list[ExecutionHead | None]:
        heads = await self._heads(f"{_SELECT} WHERE heads.execution_id = ANY($1::text[])", execution_ids)
        found = {head.execution_id: head for head in heads}
        return [found.get(each) for each in execution_ids]

    async def _heads(self, query: str, *values: _Value) -> list[ExecutionHead]:
        found = await self._database.fetch(query, *values)
        return [
            ExecutionHead(
                **{**row, "labels": decode_labels(row["labels"]), "waits": decode_waits(row["waits"])}, pid=None
            )
            for row in found
        ]


_LABEL: Final = """
WITH changed AS (
    UPDATE noetl.heads SET labels = nullif(jsonb_strip_nulls(coalesce(labels, '{}') || $2::text::jsonb), '{}')
    WHERE execution_id = $1 RETURNING execution_id
)
INSERT INTO noetl.label_changes (execution_id, at, who, labels) SELECT execution_id, $3, $4::text, $2::text FROM changed
RETURNING number
"""
_LABEL_CHANGES: Final = "SELECT at, who, labels FROM noetl.label_changes WHERE execution_id = $1 ORDER BY number"

FORGET_EXECUTIONS_MAX: Final = 500  # in one transaction
FORGET_FACTS_MAX: Final = 100_000  # in one transaction; an execution with more is removed alone
FORGET_TIMEOUT_S: Final = 600.0

# In the order of starts, from the end of the last transaction, so that old running executions are visited
# once. A child stays while its parent runs, which may still need its result; and an execution stays while a
# fork keeps its results.
_FORGET: Final = """
WITH found AS MATERIALIZED (
    SELECT execution_id, started_at, seq FROM noetl.heads
    WHERE (started_at, execution_id) > ($2, $3) AND started_at < $1 AND updated_at < $1
    AND status IN ('ok', 'error', 'cancelled')
    AND NOT EXISTS (
        SELECT FROM noetl.heads AS parent WHERE parent.execution_id = split_part(heads.parent, '/', 1)
        AND parent.status NOT IN ('ok', 'error', 'cancelled')
    )
    AND NOT EXISTS (
        SELECT FROM noetl.heads AS fork WHERE fork.labels IS NOT NULL
        AND fork.labels @> jsonb_build_object('fork-of', heads.execution_id)
    )
    ORDER BY started_at, execution_id LIMIT $4 FOR UPDATE OF heads SKIP LOCKED
), old AS MATERIALIZED (
    SELECT execution_id, started_at FROM (
        SELECT *, sum(seq) OVER (ORDER BY started_at, execution_id) - seq AS facts_before FROM found
    ) AS counted WHERE facts_before < $5
), without_log AS (
    DELETE FROM noetl.log USING old WHERE log.execution_id = old.execution_id
), without_snapshots AS (
    DELETE FROM noetl.snapshots USING old WHERE snapshots.execution_id = old.execution_id
), without_lines AS (
    DELETE FROM noetl.printed USING old WHERE printed.execution_id = old.execution_id
), without_notes AS (
    DELETE FROM noetl.unnotified USING old WHERE unnotified.execution_id = old.execution_id
), without_heads AS (
    DELETE FROM noetl.heads USING old WHERE heads.execution_id = old.execution_id
)
SELECT execution_id, started_at FROM old ORDER BY started_at, execution_id
"""


_DELETE: Final = """
WITH without_heads AS (
    DELETE FROM noetl.heads WHERE execution_id = ANY($1::text[]) AND status IN ('ok', 'error', 'cancelled')
    RETURNING execution_id
), without_log AS (
    DELETE FROM noetl.log USING without_heads AS gone WHERE log.execution_id = gone.execution_id
), without_snapshots AS (
    DELETE FROM noetl.snapshots USING without_heads AS gone WHERE snapshots.execution_id = gone.execution_id
), without_lines AS (
    DELETE FROM noetl.printed USING without_heads AS gone WHERE printed.execution_id = gone.execution_id
), without_notes AS (
    DELETE FROM noetl.unnotified USING without_heads AS gone WHERE unnotified.execution_id = gone.execution_id
)
SELECT execution_id FROM without_heads ORDER BY execution_id
"""


class PostgresRetention:
    """Removes executions from one database. Several processes can do it at once."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def delete(self, execution_ids: Sequence[str]) -> list[str]:
        """Remove these executions, as far as they have ended; the ids of those that are removed."""
        known = [each for each in execution_ids if is_text(each)]
        found = await self._database.fetch(_DELETE, known, timeout_s=FORGET_TIMEOUT_S)
        return [row["execution_id"] for row in found]

    async def forget(self, before: datetime) -> AsyncIterator[list[str]]:
        """Remove executions that ended before then, and yield their ids in batches, after each commit."""
        started_at, execution_id = datetime.min.replace(tzinfo=UTC), ""
        while True:
            async with self._database.transaction() as connection:
                await connection.execute(f"SET LOCAL statement_timeout = {FORGET_TIMEOUT_S * 1_000:.0f}")
                values = before, started_at, execution_id, FORGET_EXECUTIONS_MAX, FORGET_FACTS_MAX
                found = await connection.fetch(_FORGET, *values, timeout=FORGET_TIMEOUT_S)
            if not found:
                return
            execution_id, started_at = found[-1]
            yield [row["execution_id"] for row in found]
