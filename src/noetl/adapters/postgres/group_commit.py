"""Group commit: appends that arrive while a statement runs wait for the next one, without a timer.

One statement runs at a time: two are not faster, and would contend for the rows of partitions.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import asyncpg

from noetl.adapters.postgres.database import CLOSE_S, PostgresDatabase, translated
from noetl.adapters.sql import SAVED_HISTORY_MAX
from noetl.errors import Conflict, Fenced, Unavailable

if TYPE_CHECKING:
    from asyncpg import Connection
    from asyncpg.prepared_stmt import PreparedStatement

GROUP_MAX: Final = 512  # appends in one statement
GROUP_BYTES_MAX: Final = 4 << 20  # of their bodies; a larger one goes alone
TIMEOUT_S: Final = 15.0  # after which the result is unknown
IDLE_S: Final = 300.0  # after which a firewall may have dropped the connection: a new one is made

# The plan is made once, perhaps for empty tables, and must still be good when they are large.
_SETTINGS: Final[dict[str, str]] = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off"}

# Partitions are locked in the order of their numbers, as by their owners, so that there is no deadlock. The
# lock waits for a server that is just acquiring the partition, and then sees its epoch. One owner at a time
# writes the heads of a partition. The result lists the appends that were refused.
_APPEND: Final = """
WITH given AS (
    SELECT * FROM unnest(
        $2::text[], $3::smallint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::timestamptz[],
        $8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[],
        $15::text[]
    ) AS given (
        execution_id, partition, epoch, first_seq, last_seq, at, status, body, path, digest, parent, labels, error,
        waits
    )
), held AS MATERIALIZED (
    SELECT number, epoch FROM noetl.partitions WHERE number = ANY($1::smallint[]) ORDER BY number FOR SHARE
), moved AS (
    UPDATE noetl.heads SET seq = given.last_seq, status = given.status, updated_at = given.at,
    error = given.error, waits = CASE WHEN given.waits IS NULL THEN heads.waits ELSE nullif(given.waits, '') END
    FROM given JOIN held ON held.number = given.partition AND held.epoch = given.epoch
    WHERE heads.execution_id = given.execution_id AND heads.seq = given.first_seq - 1 AND given.first_seq > 1
    RETURNING heads.execution_id
), begun AS (
    INSERT INTO noetl.heads
    SELECT execution_id, partition, last_seq, status, path, digest, parent, at, at, labels::jsonb, error,
    nullif(waits, '')
    FROM given JOIN held ON held.number = given.partition AND held.epoch = given.epoch
    WHERE first_seq = 1 ORDER BY execution_id
    ON CONFLICT DO NOTHING RETURNING execution_id
), stood AS (
    SELECT execution_id FROM moved UNION ALL SELECT execution_id FROM begun
), written AS (
    INSERT INTO noetl.log SELECT execution_id, first_seq, last_seq, at, body FROM given
    WHERE execution_id IN (SELECT execution_id FROM stood)
)
SELECT given.execution_id, held.epoch FROM given LEFT JOIN held ON held.number = given.partition
WHERE given.execution_id NOT IN (SELECT execution_id FROM stood)
"""


# The same for one append that continues a log, as in a chain of steps: it takes about two thirds of the time.
_APPEND_ONE: Final = """
WITH held AS MATERIALIZED (
    SELECT epoch FROM noetl.partitions WHERE number = $2::smallint FOR SHARE
), moved AS (
    UPDATE noetl.heads SET seq = $5::bigint, status = $7::text, updated_at = $6::timestamptz, error = $9::text,
    waits = CASE WHEN $10::text IS NULL THEN heads.waits ELSE nullif($10::text, '') END
    WHERE execution_id = $1::text AND seq = $4::bigint - 1 AND EXISTS (SELECT FROM held WHERE epoch = $3::bigint)
    RETURNING execution_id
), written AS (
    INSERT INTO noetl.log SELECT execution_id, $4::bigint, $5::bigint, $6::timestamptz, $8::text FROM moved
)
SELECT $1::text, (SELECT epoch FROM held) WHERE NOT EXISTS (SELECT FROM moved)
"""

# Only a group with values that outlive their executions, or with ends that are notified, uses this statement.
_APPEND_MORE: Final = _APPEND.replace(
    "\n)\nSELECT given.execution_id",
    f"""
), saving AS (
    SELECT each.*, given.at FROM unnest($16::text[], $17::text[], $18::text[], $19::text[])
    WITH ORDINALITY AS each (execution_id, path, key, value, place) JOIN given USING (execution_id)
    WHERE execution_id IN (SELECT execution_id FROM stood)
), pruned AS (
    DELETE FROM noetl.saved AS old USING (SELECT DISTINCT path, key FROM saving) AS each
    WHERE old.path = each.path AND old.key = each.key AND old.id <= (
        SELECT newer.id FROM noetl.saved AS newer WHERE newer.path = each.path AND newer.key = each.key
        ORDER BY newer.id DESC LIMIT 1 OFFSET {SAVED_HISTORY_MAX - 1}
    )
), saved AS (
    INSERT INTO noetl.saved (path, key, value, at, execution_id)
    SELECT path, key, value, at, execution_id FROM saving ORDER BY place
), unnotified AS (
    INSERT INTO noetl.unnotified SELECT execution_id, last_seq, at FROM given
    WHERE execution_id IN (SELECT execution_id FROM stood) AND execution_id = ANY($20::text[])
    ON CONFLICT (execution_id) DO UPDATE SET seq = excluded.seq, at = excluded.at
)
SELECT given.execution_id""",
)


class AppendRow(NamedTuple):
    """An encoded append: one row of the statement's input."""

    execution_id: str
    partition: int
    epoch: int
    first_seq: int
    last_seq: int
    at: datetime
    status: str
    body: str
    path: str
    digest: str
    parent: str | None
    labels: str | None = None  # a JSON object; None: none
    error: str | None = None
    waits: str | None = None  # a JSON array; "": nothing; None: as before
    saved: tuple[tuple[str, str, str], ...] = ()  # path, key, JSON: no column of its own
    notifies: bool = False  # no column of its own


class _Waiting(NamedTuple):
    row: AppendRow
    answer: asyncio.Future[Conflict | Fenced | None]


_Refused: TypeAlias = "dict[str, int | None]"  # execution → the epoch of its partition, None: it never had an owner


class Appender:
    """The connection that writes to the log, and the queue of appends for it."""

    def __init__(self, database: PostgresDatabase, timeout_s: float = TIMEOUT_S) -> None:
        self._database = database
        self._timeout_s = timeout_s
        self._connection: Connection | None = None
        self._prepared: dict[str, PreparedStatement] = {}  # of this connection
        self._used_at = 0.0
        # By execution, in the order of arrival: a statement contains at most one append of an execution.
        self._waiting: dict[str, deque[_Waiting]] = {}
        self._sending: asyncio.Task[None] | None = None
        self._alone = 0  # how many of the next appends are sent one by one
        self._closed = False

    async def append(self, appends: Sequence[AppendRow]) -> list[Conflict | Fenced | None]:
        """Each succeeds or fails alone. Raises Unavailable if the result of one of them is unknown."""
        if self._closed:
            raise Unavailable("the log is closed")
        loop = asyncio.get_running_loop()
        answers = []
        for row in appends:
            waiting = _Waiting(row, loop.create_future())
            self._waiting.setdefault(row.execution_id, deque()).append(waiting)
            answers.append(waiting.answer)
        if self._sending is None and answers:
            self._sending = loop.create_task(self._send_all())
        if len(answers) == 1:
            return [await answers[0]]
        done = await asyncio.gather(*answers, return_exceptions=True)
        return [_known(each) for each in done]

    async def close(self) -> None:
        """Wait for the running statement. Waiting appends fail with Unavailable."""
        self._closed = True
        self._fail_all(Unavailable("the log is closed"))
        if self._sending is not None:
            await asyncio.wait([self._sending])
        if self._connection is not None:
            with suppress(Exception):  # it is closed in any case
                await self._connection.close(timeout=CLOSE_S)

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                if await self._is_connected() and (group := self._group()):
                    await self._send(group)
        except BaseException:
            self._fail_all(Unavailable("the process is ending"))
            raise
        finally:
            self._sending = None

    async def _is_connected(self) -> bool:
        """Connect if necessary. If that fails, all waiting appends fail."""
        idle_s = self._database.clock.monotonic() - self._used_at
        if self._connection is not None and not self._connection.is_closed() and idle_s < IDLE_S:
            return True
        self._disconnect()
        settings = {**_SETTINGS, "statement_timeout": f"{self._timeout_s * 1_000:.0f}"}
        try:
            self._connection = await self._database.connect(settings)
        except Unavailable as error:
            self._fail_all(error)
            return False
        return True

    def _fail_all(self, error: Unavailable) -> None:
        waiting, self._waiting = self._waiting, {}
        self._settle([each for queue in waiting.values() for each in queue], error)

    def _group(self) -> list[_Waiting]:
        """The first append of each execution, as many as fit, in the order of arrival."""
        group: list[_Waiting] = []
        room, limit = GROUP_BYTES_MAX, GROUP_MAX
        if self._alone:
            limit, self._alone = 1, self._alone - 1
        rest: dict[str, deque[_Waiting]] = {}
        while self._waiting:
            execution_id, queue = next(iter(self._waiting.items()))
            room -= len(queue[0].row.body)
            if group and (room < 0 or len(group) == limit):
                break
            del self._waiting[execution_id]
            waiting = queue.popleft()
            if queue:
                rest[execution_id] = queue
            if not waiting.answer.done():  # otherwise its caller was cancelled
                group.append(waiting)
        self._waiting.update(rest)  # behind the others
        group.sort(key=lambda waiting: waiting.row.execution_id)
        return group

    async def _send(self, group: list[_Waiting]) -> None:
        try:
            refused = await self._written([waiting.row for waiting in group])
        except (asyncpg.DataError, asyncpg.ProgramLimitExceededError) as error:
            # One append has values that PostgreSQL refuses. Nothing was written: send each alone to find it.
            if len(group) > 1:
                self._send_alone(group)
                return
            code = f"{type(error).__name__}, {error.sqlstate}"
            self._settle(group, Unavailable(f"PostgreSQL cannot store these facts ({code})"))
        except Unavailable as error:
            self._settle(group, error)
        except BaseException:
            self._settle(group, Unavailable("the process is ending"))
            raise
        else:
            self._settle(group, refused)

    def _send_alone(self, group: list[_Waiting]) -> None:
        """Send these first, each in its own statement."""
        again = {each.row.execution_id: deque([each]) for each in group}
        for execution_id, queue in self._waiting.items():
            again.setdefault(execution_id, deque()).extend(queue)
        self._waiting = again
        self._alone = len(group)

    async def _written(self, rows: list[AppendRow]) -> _Refused:
        assert self._connection is not None
        query, values = _statement(rows)
        try:
            statement = self._prepared.get(query)
            if statement is None:
                statement = self._prepared[query] = await self._connection.prepare(query, timeout=self._timeout_s)
            found = await statement.fetch(*values, timeout=self._timeout_s)
            self._used_at = self._database.clock.monotonic()
        except (asyncpg.DataError, asyncpg.ProgramLimitExceededError):
            raise
        except BaseException:
            self._disconnect()  # a connection with an error is not used again
            with translated():
                raise
        return dict(found)

    def _settle(self, group: Sequence[_Waiting], result: _Refused | Unavailable) -> None:
        """Answer every append. Cancelled ones are skipped."""
        for row, answer in group:
            if answer.done():
                continue
            if isinstance(result, Unavailable):
                answer.set_exception(Unavailable(str(result)))  # one for each, with its own traceback
            elif row.execution_id in result:
                answer.set_result(_refusal(row, result[row.execution_id]))
            else:
                answer.set_result(None)

    def _disconnect(self) -> None:
        """Close the connection without waiting for the server."""
        if self._connection is not None:
            self._connection.terminate()
        self._connection, self._prepared = None, {}


def _statement(rows: list[AppendRow]) -> tuple[str, list[Any]]:
    """The statement that appends the rows, and its values."""
    if len(rows) == 1 and rows[0].first_seq > 1 and not rows[0].saved and not rows[0].notifies:
        (row,) = rows
        place = (row.execution_id, row.partition, row.epoch, row.first_seq, row.last_seq, row.at)
        return _APPEND_ONE, [*place, row.status, row.body, row.error, row.waits]
    *columns, saved, notifies = zip(*rows, strict=True)
    values: list[Any] = [list({row.partition for row in rows}), *columns]
    if not any(saved) and not any(notifies):
        return _APPEND, values
    kept = [(row.execution_id, *each) for row in rows for each in row.saved]
    values += zip(*kept, strict=True) if kept else [[]] * 4
    return _APPEND_MORE, [*values, [row.execution_id for row in rows if row.notifies]]


def _refusal(row: AppendRow, epoch: int | None) -> Conflict | Fenced:
    if epoch != row.epoch:
        return Fenced(f"partition {row.partition} does not have epoch {row.epoch}")
    return Conflict(f"{row.execution_id} is not at seq {row.first_seq - 1}")


def _known(answer: Any) -> Conflict | Fenced | None:
    """The result of one of several appends; raises an error that gather has caught."""
    if isinstance(answer, BaseException) and not isinstance(answer, Conflict | Fenced):
        raise answer
    refusal: Conflict | Fenced | None = answer
    return refusal
