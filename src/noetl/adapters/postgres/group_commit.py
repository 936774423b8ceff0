"""Group commit: appends that arrive while a statement is out gather for the next one, without a timer.

One statement is out at a time: two were no quicker, and would share locks on the rows of partitions.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import asyncpg

from noetl.adapters.postgres.database import CLOSE_S, PostgresDatabase
from noetl.adapters.postgres.errors import translated
from noetl.errors import Conflict, Fenced, Unavailable

if TYPE_CHECKING:
    from asyncpg import Connection

GROUP_MAX: Final = 512  # appends in one statement
GROUP_BYTES_MAX: Final = 4 << 20  # of their bodies; a larger one goes alone
PATIENCE_S: Final = 15.0  # then nobody knows whether it happened
IDLE_S: Final = 300.0  # then the line may be dead without a word, as firewalls have it: another one is made

# The plan is made once, when the tables may be empty, and must still be right when they are large.
_SETTINGS: Final[dict[str, str]] = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off"}

# Partitions are locked in the order of their numbers, by owners too: nobody waits in a circle. The lock
# waits for an owner who is just taking over, and then sees his epoch. Heads of one partition are written by
# one owner at a time; whatever did not come back from them was refused, and the answer says which.
_APPEND: Final = """
WITH given AS (
    SELECT * FROM unnest(
        $2::text[], $3::smallint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::timestamptz[],
        $8::text[], $9::text[], $10::text[], $11::text[], $12::text[]
    ) AS given (execution_id, partition, epoch, first_seq, last_seq, at, status, body, path, digest, parent)
), held AS MATERIALIZED (
    SELECT number, epoch FROM noetl.partitions WHERE number = ANY($1::smallint[]) ORDER BY number FOR SHARE
), moved AS (
    UPDATE noetl.heads SET seq = given.last_seq, status = given.status, updated_at = given.at
    FROM given JOIN held ON held.number = given.partition AND held.epoch = given.epoch
    WHERE heads.execution_id = given.execution_id AND heads.seq = given.first_seq - 1 AND given.first_seq > 1
    RETURNING heads.execution_id
), begun AS (
    INSERT INTO noetl.heads
    SELECT execution_id, partition, last_seq, status, path, digest, parent, at, at
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


class Ready(NamedTuple):
    """An append, encoded before anyone waits for it: a row as the statement takes it."""

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


class _Waiting(NamedTuple):
    ready: Ready
    answer: asyncio.Future[Conflict | Fenced | None]


_Refused: TypeAlias = (
    "dict[str, int | None]"  # execution → the epoch of its partition, None: nobody ever had it
)


class Appender:
    """The one connection that writes to the log, and who waits for it."""

    def __init__(self, database: PostgresDatabase, patience_s: float = PATIENCE_S) -> None:
        self._database = database
        self._patience_s = patience_s
        self._connection: Connection | None = None
        self._used_at = 0.0
        # By execution, in the order of coming: of one execution never two are in a statement.
        self._waiting: dict[str, deque[_Waiting]] = {}
        self._sending: asyncio.Task[None] | None = None
        self._alone = 0  # so many are sent one by one
        self._closed = False

    async def append(self, appends: Sequence[Ready]) -> list[Conflict | Fenced | None]:
        """Each stands or falls alone. Raises Unavailable when it is not known of one of them."""
        if self._closed:
            raise Unavailable("the log is closed")
        loop = asyncio.get_running_loop()
        answers = []
        for ready in appends:
            waiting = _Waiting(ready, loop.create_future())
            self._waiting.setdefault(ready.execution_id, deque()).append(waiting)
            answers.append(waiting.answer)
        if self._sending is None and answers:
            self._sending = loop.create_task(self._send_all())
        if len(answers) == 1:
            return [await answers[0]]
        done = await asyncio.gather(*answers, return_exceptions=True)
        return [_known(each) for each in done]

    async def close(self) -> None:
        """What is out is waited for, what has only been asked for is not begun."""
        self._closed = True
        self._refuse_all(Unavailable("the log is closed"))
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
            self._refuse_all(Unavailable("the process is ending"))
            raise
        finally:
            self._sending = None

    async def _is_connected(self) -> bool:
        """Otherwise nothing can be sent, and all who wait are told so."""
        idle_s = self._database.clock.monotonic() - self._used_at
        if self._connection is not None and not self._connection.is_closed() and idle_s < IDLE_S:
            return True
        self._hang_up()
        settings = {**_SETTINGS, "statement_timeout": f"{self._patience_s * 1_000:.0f}"}
        try:
            self._connection = await self._database.connect(settings)
        except Unavailable as error:
            self._refuse_all(error)
            return False
        return True

    def _refuse_all(self, error: Unavailable) -> None:
        waiting, self._waiting = self._waiting, {}
        self._settle([each for queue in waiting.values() for each in queue], error)

    def _group(self) -> list[_Waiting]:
        """The first of each execution, as many as fit, those whose execution came first in front."""
        group: list[_Waiting] = []
        room, most = GROUP_BYTES_MAX, GROUP_MAX
        if self._alone:
            most, self._alone = 1, self._alone - 1
        rest: dict[str, deque[_Waiting]] = {}
        while self._waiting:
            execution_id, queue = next(iter(self._waiting.items()))
            room -= len(queue[0].ready.body)
            if group and (room < 0 or len(group) == most):
                break
            del self._waiting[execution_id]
            waiting = queue.popleft()
            if queue:
                rest[execution_id] = queue
            if not waiting.answer.done():  # otherwise nobody waits any more, and it need not be tried
                group.append(waiting)
        self._waiting.update(rest)  # behind the others
        group.sort(key=lambda waiting: waiting.ready.execution_id)
        return group

    async def _send(self, group: list[_Waiting]) -> None:
        try:
            refused = await self._written([waiting.ready for waiting in group])
        except (asyncpg.DataError, asyncpg.ProgramLimitExceededError) as error:
            # It is about the values of one of them: it alone is refused. Nothing has been written.
            if len(group) > 1:
                self._send_alone(group)
                return
            code = f"{type(error).__name__}, {error.sqlstate}"
            self._settle(group, Unavailable(f"PostgreSQL can not hold these facts ({code})"))
        except Unavailable as error:
            self._settle(group, error)
        except BaseException:
            self._settle(group, Unavailable("the process is ending"))
            raise
        else:
            self._settle(group, refused)

    def _send_alone(self, group: list[_Waiting]) -> None:
        """Before all others, each in a statement of its own."""
        again = {each.ready.execution_id: deque([each]) for each in group}
        for execution_id, queue in self._waiting.items():
            again.setdefault(execution_id, deque()).extend(queue)
        self._waiting = again
        self._alone = len(group)

    async def _written(self, rows: list[Ready]) -> _Refused:
        assert self._connection is not None
        partitions = list({row.partition for row in rows})
        try:
            found = await self._connection.fetch(
                _APPEND, partitions, *zip(*rows, strict=True), timeout=self._patience_s
            )
            self._used_at = self._database.clock.monotonic()
        except (asyncpg.DataError, asyncpg.ProgramLimitExceededError):
            raise
        except BaseException:
            self._hang_up()  # a line on which anything went wrong is not used again
            with translated():
                raise
        return dict(found)

    def _settle(self, group: Sequence[_Waiting], told: _Refused | Unavailable) -> None:
        """Every future gets its answer; those that nobody waits for any more are passed over."""
        for ready, answer in group:
            if answer.done():
                continue
            if isinstance(told, Unavailable):
                answer.set_exception(Unavailable(str(told)))  # one for each, with its own traceback
            elif ready.execution_id in told:
                answer.set_result(_refusal(ready, told[ready.execution_id]))
            else:
                answer.set_result(None)

    def _hang_up(self) -> None:
        """Without a word that would have to be waited for."""
        if self._connection is not None:
            self._connection.terminate()
        self._connection = None


def _refusal(ready: Ready, epoch: int | None) -> Conflict | Fenced:
    if epoch != ready.epoch:
        return Fenced(f"partition {ready.partition} is not ours under epoch {ready.epoch}")
    return Conflict(f"{ready.execution_id} does not stand at {ready.first_seq - 1}")


def _known(answer: Any) -> Conflict | Fenced | None:
    """What came back for one of several; what gather has caught is raised."""
    if isinstance(answer, BaseException) and not isinstance(answer, Conflict | Fenced):
        raise answer
    refusal: Conflict | Fenced | None = answer
    return refusal
