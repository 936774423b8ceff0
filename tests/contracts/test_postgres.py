"""The adapters on a real PostgreSQL keep the contracts, and nothing acknowledged is lost when it is killed."""

from __future__ import annotations

import asyncio
import hashlib
import signal
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest

from noetl.adapters.postgres.audit import PostgresAudit
from noetl.adapters.postgres.catalog import PATH_BYTES_MAX, PostgresCatalog
from noetl.adapters.postgres.database import PostgresDatabase, open_postgres
from noetl.adapters.postgres.group_commit import GROUP_BYTES_MAX
from noetl.adapters.postgres.limits import PostgresLimits
from noetl.adapters.postgres.logs import PostgresLogs
from noetl.adapters.postgres.saved import PostgresSaved
from noetl.adapters.postgres.schema import _STEPS, VERSION
from noetl.adapters.postgres.secrets import PostgresSecretRows, PostgresTokens
from noetl.adapters.postgres.sessions import PostgresSessions
from noetl.adapters.postgres.store import (
    FIRST_ROWS,
    FORGET_EXECUTIONS_MAX,
    LOGS_MAX,
    PAGE_ROWS,
    THREAD_BYTES,
    PostgresListing,
    PostgresRetention,
    PostgresStore,
)
from noetl.adapters.postgres.triggers import PostgresTriggers
from noetl.clock import SystemClock
from noetl.engine.facts import Evaluated, Fact, Processed, Requested, Started, Token
from noetl.engine.state import Status
from noetl.errors import Conflict, Damaged, Fenced, NotFound, Rejected, Unavailable
from noetl.ids import partition_of
from noetl.ports import (
    ApiTokenStore,
    Append,
    Catalog,
    EventStore,
    Limits,
    PlaybookText,
    SecretRow,
    SecretRows,
    Snapshot,
    WebSessionStore,
)
from noetl.testing.contracts import error_of
from noetl.testing.contracts.audit import AuditContract, OpenedAudit
from noetl.testing.contracts.limits import LimitsContract
from noetl.testing.contracts.listing import ListedLog, ListingContract
from noetl.testing.contracts.logs import LIMIT, LogStoreContract, OpenedLogs, line, texts
from noetl.testing.contracts.notifications import NotifyingLog, PendingNotificationsContract
from noetl.testing.contracts.saved import SavedContract, SavingLog
from noetl.testing.contracts.secret_inputs import RowsOfLog, SecretInputRowsContract
from noetl.testing.contracts.secrets import SecretRowsContract, TokensContract, WebSessionsContract
from noetl.testing.contracts.stores import (
    AT,
    PARTITION,
    PARTITIONS,
    CatalogContract,
    EventStoreContract,
    PartitionedStore,
    PartitionsContract,
    append,
    epoch_of,
)
from noetl.testing.contracts.triggers import OpenedTriggers, TriggersContract
from tests.services import PASSWORD, PostgresServer, connected, database, postgres

TTL_S = 60.0
READY_S = 60.0  # many times what ours take to be back when PostgreSQL takes connections again


@asynccontextmanager
async def opened(name: str) -> AsyncIterator[PostgresDatabase]:
    made = open_postgres(postgres().dsn(name), SystemClock())
    try:
        yield made
    finally:
        await made.close()


@asynccontextmanager
async def fresh() -> AsyncIterator[PostgresDatabase]:
    async with database() as name, opened(name) as made:
        yield made


@asynccontextmanager
async def store_on(made: PostgresDatabase, partitions: int = PARTITIONS) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(made, partitions)
    try:
        yield store
    finally:
        await store.close()


class OnFreshDatabases:
    """For contracts that ask for a store and do not close it: it ends with the loop that it was made in."""

    @pytest.fixture(autouse=True)
    def running(self) -> Iterator[None]:
        with asyncio.Runner() as runner:
            made = database()
            self.name = runner.run(made.__aenter__())
            yield
            runner.run(made.__aexit__(None, None, None))

    def make(self) -> PartitionedStore:
        made = open_postgres(postgres().dsn(self.name), SystemClock())
        store = PostgresStore(made, PARTITIONS)
        self.closing = asyncio.get_running_loop().create_task(_close_when_cancelled(store, made))
        return store


async def _close_when_cancelled(store: PostgresStore, made: PostgresDatabase) -> None:
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        await store.close()
        await made.close()


class TestPostgresStore(OnFreshDatabases, EventStoreContract):
    async def owned(self) -> tuple[EventStore, int]:
        store = self.make()
        return store, await epoch_of(store, "s1")


class TestPostgresPartitions(OnFreshDatabases, PartitionsContract):
    pass


class TestPostgresLimits(LimitsContract):
    @asynccontextmanager
    async def make(self) -> AsyncIterator[Limits]:
        async with fresh() as made:
            yield PostgresLimits(made)


class TestPostgresSaved(SavedContract):
    @asynccontextmanager
    async def make(self) -> AsyncIterator[SavingLog]:
        async with fresh() as made, store_on(made) as store:

            async def owner(execution_id: str) -> int:
                partition = partition_of(execution_id, PARTITIONS)
                return (await store.own("s1", [partition], TTL_S)).epochs[partition]

            yield SavingLog(store, PostgresSaved(made), owner)


class TestPostgresPendingNotifications(PendingNotificationsContract):
    @asynccontextmanager
    async def make(self) -> AsyncIterator[NotifyingLog]:
        async with fresh() as made, store_on(made) as store:

            async def owner(execution_id: str) -> int:
                partition = partition_of(execution_id, PARTITIONS)
                return (await store.own("s1", [partition], TTL_S)).epochs[partition]

            yield NotifyingLog(store, owner)


class TestPostgresListing(ListingContract):
    @asynccontextmanager
    async def make(self) -> AsyncIterator[ListedLog]:
        async with fresh() as made, store_on(made) as store:

            async def owner(execution_id: str) -> int:
                partition = partition_of(execution_id, PARTITIONS)
                return (await store.own("s1", [partition], TTL_S)).epochs[partition]

            yield ListedLog(store, PostgresListing(made), owner, PostgresRetention(made).delete)


class TestPostgresCatalog(CatalogContract):
    @asynccontextmanager
    async def make(self) -> AsyncIterator[Catalog]:
        async with fresh() as made:
            yield PostgresCatalog(made)


class TestPostgresTriggers(TriggersContract):
    @asynccontextmanager
    async def make(self) -> AsyncIterator[OpenedTriggers]:
        async with fresh() as made:

            async def register(path: str, digest: str) -> None:
                await PostgresCatalog(made).put(PlaybookText(digest, path, ""))

            yield OpenedTriggers(PostgresTriggers(made), register)


class TestPostgresTokens(TokensContract):
    @asynccontextmanager
    async def make(self) -> AsyncIterator[ApiTokenStore]:
        async with fresh() as made:
            yield PostgresTokens(made)


class TestPostgresSessions(WebSessionsContract):
    @asynccontextmanager
    async def make(self) -> AsyncIterator[WebSessionStore]:
        async with fresh() as made:
            yield PostgresSessions(made)


class TestPostgresSecretRows(SecretRowsContract):
    @asynccontextmanager
    async def make(self) -> AsyncIterator[SecretRows]:
        async with fresh() as made:
            yield PostgresSecretRows(made)


class TestPostgresSecretInputRows(SecretInputRowsContract):
    @asynccontextmanager
    async def make(self) -> AsyncIterator[RowsOfLog]:
        async with fresh() as made, store_on(made) as store:

            async def owner(execution_id: str) -> int:
                partition = partition_of(execution_id, PARTITIONS)
                return (await store.own("s1", [partition], TTL_S)).epochs[partition]

            log = ListedLog(store, PostgresListing(made), owner, PostgresRetention(made).delete)
            yield RowsOfLog(PostgresSecretRows(made, "secret_inputs"), log)


class TestPostgresLogs(LogStoreContract):
    @asynccontextmanager
    async def make(self) -> AsyncIterator[OpenedLogs]:
        async with fresh() as made, store_on(made, 1) as store:
            epoch = (await store.own("s1", [0], TTL_S)).epochs[0]
            for each in ("e", "f"):
                assert await store.append([append(1, epoch, execution_id=each, status="ok")]) == [None]

            async def delete(execution_id: str) -> None:
                query = "UPDATE noetl.heads SET updated_at = now() + interval '1 day' WHERE execution_id <> $1"
                await made.fetch(query, execution_id)
                before = SystemClock().now() + timedelta(hours=1)
                assert [ids async for ids in PostgresRetention(made).forget(before)] == [[execution_id]]

            yield OpenedLogs(PostgresLogs(made, LIMIT), delete)

    def test_a_deleted_execution_leaves_no_lines(self) -> None:
        async def work() -> None:
            async with fresh() as made, store_on(made, 1) as store:
                epoch = (await store.own("s1", [0], TTL_S)).epochs[0]
                assert await store.append([append(1, epoch, status="ok")]) == [None]
                assert await PostgresLogs(made).append("e", [line(1)])
                assert list(await PostgresRetention(made).delete(["e"])) == ["e"]
                assert await made.fetch("SELECT FROM noetl.printed") == []

        run(work)

    def test_servers_that_append_at_the_same_time_lose_nothing(self) -> None:
        async def work() -> None:
            async with self.make() as logs:
                made = [logs.store.append("e", [line(number)]) for number in range(8)]
                assert await asyncio.gather(*made) == [True] * 8
                assert sorted(await texts(logs.store, "e")) == [f"line {number}" for number in range(8)]

        run(work)


class TestPostgresAudit(AuditContract):
    @asynccontextmanager
    async def make(self) -> AsyncIterator[OpenedAudit]:
        async with database() as name, opened(name) as made:

            async def sql(query: str) -> None:
                async with connected(name) as stranger:
                    try:
                        await stranger.execute(query.format(audit="noetl.audit"))
                    except asyncpg.RaiseError as error:
                        raise Unavailable(str(error)) from error

            fields = "at, action, what, target, who, caller, address, detail, times"
            replacing = (
                f"INSERT INTO {{audit}} (id, {fields}) OVERRIDING SYSTEM VALUE SELECT id, {fields} FROM {{audit}} "
                "ON CONFLICT (id) DO UPDATE SET who = 'eve'",
                "MERGE INTO {audit} AS old USING {audit} AS new ON old.id = new.id "
                "WHEN MATCHED THEN UPDATE SET who = 'eve'",
                "MERGE INTO {audit} AS old USING {audit} AS new ON old.id = new.id WHEN MATCHED THEN DELETE",
                "TRUNCATE {audit}",
            )
            yield OpenedAudit(PostgresAudit(made), sql, replacing)

    def test_truncate_is_refused_too(self) -> None:
        async def work() -> None:
            async with self.make() as audit:
                assert await audit.store.read() == []
                assert "append-only" in str(await error_of(audit.sql("TRUNCATE {audit}")))

        run(work)


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(work())


def said(error: BaseException | None) -> str:
    """All that a process log could show of an error."""
    return "".join(traceback.format_exception(error)) if error is not None else ""


async def blocked(stranger: asyncpg.Connection, count: int = 1) -> None:
    """Until so many statements of ours wait for a lock."""
    async with asyncio.timeout(READY_S):
        while await stranger.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted") < count:
            pass


# The log


def test_two_appends_of_one_execution_at_once_come_out_in_their_order() -> None:
    async def work() -> None:
        async with fresh() as made, store_on(made) as store:
            epoch = await epoch_of(store, "s1")
            done = await asyncio.gather(*(store.append([append(seq, epoch)]) for seq in range(1, 101)))
            assert done == [[None]] * 100
            assert [row.first_seq for row in await store.read("e")] == list(range(1, 101))

    run(work)


def test_a_group_holds_only_so_many_bytes_and_a_larger_one_goes_alone() -> None:
    async def work() -> None:
        async with fresh() as made, store_on(made) as store:
            epochs = (await store.own("s1", range(PARTITIONS), TTL_S)).epochs
            appends = []
            for number in range(6):
                execution_id, size = f"e{number}", GROUP_BYTES_MAX // 3 if number else GROUP_BYTES_MAX + 1
                fact = Requested(path="p", digest="d", workload={"large": "x" * size})
                owner = epochs[partition_of(execution_id, PARTITIONS)]
                appends.append(Append(execution_id, 1, AT, (fact,), owner, "running"))
            assert await store.append(appends) == [None] * 6
            for each in appends:
                assert (await store.read(each.execution_id))[0].facts == each.facts

    run(work)


def test_what_postgresql_can_not_hold_is_refused_alone() -> None:
    async def work() -> None:
        async with fresh() as made, store_on(made) as store:
            epochs = (await store.own("s1", range(PARTITIONS), TTL_S)).epochs

            def start(execution_id: str, path: str) -> Append:
                owner = epochs[partition_of(execution_id, PARTITIONS)]
                facts = (Requested(path=path, digest="d"),)
                return Append(execution_id, 1, AT, facts, owner, "running")

            # Also when it is compressed: it does not fit into an index.
            too_long = "".join(hashlib.sha256(b"%d" % number).hexdigest() for number in range(200))
            asked = (
                start("e1", "p"),
                start("e2", "hidden \0 path"),
                start(too_long, "p"),
                start("e3", "p"),
            )
            done = await asyncio.gather(*(store.append([each]) for each in asked), return_exceptions=True)
            assert [type(each) for each in done] == [list, Unavailable, Unavailable, list]
            assert "hidden" not in said(done[1] if isinstance(done[1], BaseException) else None)
            assert done[0] == done[3] == [None]
            assert await store.status("e2") is None

    run(work)


def test_a_body_may_hold_every_character_and_the_view_shows_one_row_an_event() -> None:
    async def work() -> None:
        async with fresh() as made, store_on(made) as store:
            epoch = await epoch_of(store, "s1")
            workload = {"nul": "a\0b", "escaped": "\\u0000", "far": "\U0001f600 ü ' \" $1 %s"}
            first: tuple[Fact, ...] = (
                Requested(path="p", digest="d", workload=workload),
                Evaluated(),
                Started(workload=workload, token=Token(id=">0", step="a")),
            )
            await store.append([Append("e", 1, AT, first, epoch, "running")])
            await store.append([Append("e", 4, AT, (Processed(status="ok"),), epoch, "ok")])
            assert (await store.read("e"))[0].facts == first
            found = await made.fetch("SELECT execution_id, seq, at, fact FROM noetl.events ORDER BY seq")
            assert [tuple(row) for row in found] == [
                ("e", 1, AT, "playbook.execution.requested"),
                ("e", 2, AT, "playbook.request.evaluated"),
                ("e", 3, AT, "workflow.started"),
                ("e", 4, AT, "playbook.processed"),
            ]

    run(work)


def test_a_long_log_is_read_in_pages_and_what_can_not_be_read_is_damaged() -> None:
    async def work() -> None:
        async with fresh() as made, store_on(made) as store:
            epoch = await epoch_of(store, "s1")
            facts = (Evaluated(keychain={"k": "v" * (2 * THREAD_BYTES // PAGE_ROWS)}),)
            await store.append([append(1, epoch)])
            seqs = range(2, 2 * PAGE_ROWS + 2)
            assert set(await store.append([Append("e", seq, AT, facts, epoch, "running") for seq in seqs])) == {None}
            rows = await store.read("e")
            assert [row.first_seq for row in rows] == [1, *seqs]
            assert await store.read("e", after=PAGE_ROWS) == rows[PAGE_ROWS:]
            await made.fetch('UPDATE noetl.log SET body = \'[{"fact": "no.such"}]\' WHERE first_seq = 3')
            error = await error_of(store.read("e"))
            assert isinstance(error, Damaged)
            assert "log of e " in str(error)
            assert len(await store.read("e", after=3)) == len(rows) - 3

    run(work)


def test_many_who_ask_at_once_get_each_the_answer_to_his_own_question() -> None:
    async def work() -> None:
        async with fresh() as made, store_on(made) as store:
            epoch, listing, many = await epoch_of(store, "s1"), PostgresListing(made), 5
            ids = [name for number in range(2_000) if (name := f"e{number}") and of_ours(name)][:many]
            appends = [
                append(seq, epoch, execution_id=id)
                for length, id in enumerate(ids, FIRST_ROWS - 2)
                for seq in range(1, length + 1)
            ]
            assert set(await store.append(appends)) == {None}
            asked = [*ids, *(f"nobody{number}" for number in range(LOGS_MAX)), "no\x00text"]
            rows = await asyncio.gather(*(store.read(id, 1) for id in asked))
            assert [len(each) for each in rows[:many]] == [*range(FIRST_ROWS - 3, FIRST_ROWS - 3 + many)]
            assert rows[many:] == [[]] * (LOGS_MAX + 1)
            assert all([row.first_seq for row in each] == [*range(2, len(each) + 2)] for each in rows)
            known = await asyncio.gather(*(store.status(id) for id in asked))
            assert known == ["running"] * many + [None] * (LOGS_MAX + 1)
            heads = await asyncio.gather(*(listing.head(id) for id in ids))
            assert [head.execution_id for head in heads] == ids
            for id in asked[-2:]:
                with pytest.raises(NotFound):
                    await listing.head(id)
            assert await store.read(ids[0], 1 << 70) == []

    def of_ours(id: str) -> bool:
        return partition_of(id, PARTITIONS) == PARTITION

    run(work)


def test_what_no_longer_has_anyone_waiting_holds_up_nobody() -> None:
    async def work() -> None:
        async with (
            database() as name,
            opened(name) as made,
            store_on(made) as store,
            connected(name) as other,
        ):
            epoch = await epoch_of(store, "s1")
            async with other.transaction():
                await other.execute("SELECT FROM noetl.partitions FOR UPDATE")
                out = asyncio.create_task(store.append([append(1, epoch)]))
                await blocked(other)
                gone = asyncio.create_task(store.append([append(2, epoch)]))
                stays = asyncio.create_task(store.append([append(2, epoch, facts=2)]))
                await asyncio.wait([gone], timeout=0)
                gone.cancel()
            assert await out == [None]
            assert await stays == [None]
            assert [len(row.facts) for row in await store.read("e")] == [1, 2]

    run(work)


def test_closing_waits_for_what_is_out_and_begins_nothing_more() -> None:
    async def work() -> None:
        async with database() as name, opened(name) as made, connected(name) as other:
            store = PostgresStore(made, PARTITIONS)
            epoch = await epoch_of(store, "s1")
            async with other.transaction():
                await other.execute("SELECT FROM noetl.partitions FOR UPDATE")
                out = asyncio.create_task(store.append([append(1, epoch)]))
                await blocked(other)
                waits = asyncio.create_task(error_of(store.append([append(2, epoch)])))
                await asyncio.wait([waits], timeout=0)
                closing = asyncio.create_task(store.close())
                assert isinstance(await waits, Unavailable)
                assert not closing.done()
            await closing
            assert await out == [None]
            assert isinstance(await error_of(store.append([append(2, epoch)])), Unavailable)
            await made.close()
            assert isinstance(await error_of(store.read("e")), Unavailable)

    run(work)


def test_no_column_that_every_append_changes_is_in_an_index() -> None:
    async def work() -> None:
        async with fresh() as made:
            found = await made.fetch(
                "SELECT string_agg(pg_get_indexdef(indexrelid), ' ') AS text FROM pg_index"
                " WHERE indrelid = 'noetl.heads'::regclass"
            )
            assert "started_at" in found[0]["text"]
            for column in ("updated_at", "seq"):
                assert column not in found[0]["text"], "such an update would touch all indexes (no HOT)"

    run(work)


# Whose it is


def test_an_append_that_meets_a_take_over_waits_for_it_and_is_fenced() -> None:
    async def work() -> None:
        async with (
            database() as name,
            opened(name) as made,
            store_on(made) as store,
            connected(name) as other,
        ):
            epoch = await epoch_of(store, "s1")
            assert await store.append([append(1, epoch)]) == [None]
            async with other.transaction():
                await other.execute("UPDATE noetl.partitions SET epoch = epoch + 1, server = 's2'")
                out = asyncio.create_task(store.append([append(2, epoch)]))
                await blocked(other)
            assert isinstance((await out)[0], Fenced)
            assert len(await store.read("e")) == 1

    run(work)


def test_a_take_over_waits_for_what_is_being_written_under_the_old_epoch() -> None:
    async def work() -> None:
        async with (
            database() as name,
            opened(name) as made,
            store_on(made) as store,
            connected(name) as other,
        ):
            epoch = await epoch_of(store, "s1", 0.0)
            async with other.transaction():
                await other.execute("SELECT FROM noetl.partitions FOR SHARE")  # as an append has it
                taking = asyncio.create_task(epoch_of(store, "s2"))
                await blocked(other)
                assert not taking.done()
            assert await taking > epoch

    run(work)


def test_of_two_who_take_over_at_once_one_has_it() -> None:
    async def work() -> None:
        async with (
            database() as name,
            opened(name) as made,
            store_on(made) as store,
            connected(name) as other,
        ):
            epoch = await epoch_of(store, "s1", 0.0)
            async with other.transaction():
                await other.execute("SELECT FROM noetl.partitions FOR SHARE")
                asked = (store.own(server, [PARTITION], TTL_S) for server in ("s2", "s3"))
                taking = [asyncio.create_task(each) for each in asked]
                await blocked(other, 2)
            first, second = [(await each).epochs for each in taking]
            assert sorted([first, second], key=len) == [{}, {PARTITION: epoch + 1}]

    run(work)


def test_of_servers_that_fight_for_a_partition_no_deposed_one_writes_after_the_next() -> None:
    acked: list[tuple[int, str]] = []
    refused = 0

    async def fight(store: PostgresStore, server: str) -> None:
        nonlocal refused
        for _ in range(40):
            owned = (await store.own(server, [PARTITION], 0.0)).epochs  # it runs out at once
            if PARTITION not in owned:
                continue
            rows = await store.read("e")
            first = len(rows) + 1
            by = f"{owned[PARTITION]:06} {server}"
            fact: Fact = Evaluated(keychain={"by": by}) if rows else Requested(path="p", digest="d", by=by)
            (done,) = await store.append([Append("e", first, AT, (fact,), owned[PARTITION], "running")])
            if done is None:
                acked.append((first, by))
            else:
                refused += 1

    async def work() -> None:
        async with database() as name, AsyncExitStack() as stack:
            stores = []
            for _ in range(3):
                made = await stack.enter_async_context(opened(name))
                stores.append(await stack.enter_async_context(store_on(made)))
            await asyncio.gather(*(fight(store, f"s{place}") for place, store in enumerate(stores)))
            rows = await stores[0].read("e")
            written = [
                (row.first_seq, fact.by or "" if isinstance(fact, Requested) else fact.keychain["by"])
                for row in rows
                for fact in row.facts
                if isinstance(fact, Requested | Evaluated)
            ]
            assert written == sorted(acked), "what was acknowledged is there, and nothing else"
            epochs = [int(by.split()[0]) for _, by in written]
            assert epochs == sorted(epochs)
            assert refused > 0
            assert len({by.split()[1] for _, by in written}) > 1

    run(work)


def test_many_servers_that_start_at_once_share_all_partitions() -> None:
    async def work() -> None:
        async with database() as name, AsyncExitStack() as stack:
            stores = []
            for _ in range(5):
                made = await stack.enter_async_context(opened(name))
                stores.append(await stack.enter_async_context(store_on(made, 64)))
            owned = await asyncio.gather(
                *(store.own(f"s{place}", range(64), TTL_S) for place, store in enumerate(stores))
            )
            assert sorted(number for each in owned for number in each.epochs) == list(range(64))

    run(work)


def test_leases_go_by_the_time_of_the_database() -> None:
    async def work() -> None:
        async with fresh() as made, store_on(made) as store:
            owned = await store.own("s1", [0, 1], TTL_S)
            ((until, now),) = await made.fetch("SELECT min(until), clock_timestamp() FROM noetl.partitions")
            assert owned.at <= now
            assert timedelta(0) < until - owned.at <= timedelta(seconds=TTL_S)
            assert (await store.own("s2", [], TTL_S)).epochs == {}

    run(work)


_WAITING = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


def test_a_server_that_starts_while_the_first_one_writes_the_number_of_partitions_reads_it() -> None:
    async def work() -> None:
        async with fresh() as made, store_on(made, 64) as store:
            async with made.transaction() as first:
                await first.execute("INSERT INTO noetl.house (partitions) VALUES (64)")
                later = asyncio.create_task(store.own("s2", range(64), TTL_S))
                while not await made.fetch(_WAITING):
                    pass
            assert len((await later).epochs) == 64

    run(work)


def test_servers_that_count_partitions_differently_are_refused() -> None:
    async def work() -> None:
        async with fresh() as made, store_on(made, 64) as store, store_on(made, 4) as other:
            assert len((await store.own("s1", range(64), TTL_S)).epochs) == 64
            error = await error_of(other.own("s2", range(4), TTL_S))
            assert isinstance(error, Unavailable)
            assert "64 partitions, but this server expects 4" in str(error)

    run(work)


# Tables


def test_those_who_come_first_at_once_make_the_tables_once() -> None:
    async def work() -> None:
        async with database() as name, AsyncExitStack() as stack:
            all_of_them = [await stack.enter_async_context(opened(name)) for _ in range(6)]
            asked = (made.fetch("SELECT number FROM noetl.version") for made in all_of_them)
            assert [[tuple(row) for row in found] for found in await asyncio.gather(*asked)] == [[(VERSION,)]] * 6
            async with opened(name) as later:
                assert await PostgresListing(later).executions() == []

    run(work)


def test_tables_of_an_earlier_version_are_migrated() -> None:
    async def work() -> None:
        async with database() as name:
            async with connected(name) as old:
                await old.execute("CREATE SCHEMA noetl; CREATE TABLE noetl.version (number integer NOT NULL)")
                await old.execute("INSERT INTO noetl.version VALUES (2)")
                for step in _STEPS[:2]:
                    await old.execute(step)
                values = "'a', 'ci', ARRAY['read', 'run'], 'x', now()"
                await old.execute(f"INSERT INTO noetl.tokens (id, name, scopes, digest, created_at) VALUES ({values})")
            async with opened(name) as made:
                (token,) = await PostgresTokens(made).list()
                assert (token.name, token.scopes, token.roles) == ("ci", frozenset({"read", "run"}), ())
                assert [tuple(row) for row in await made.fetch("SELECT number FROM noetl.version")] == [(VERSION,)]

    run(work)


@pytest.mark.parametrize(
    ("spoilt", "words"),
    [
        (f"UPDATE noetl.version SET number = {VERSION + 1}", "update NoETL"),
        ("DROP SCHEMA noetl CASCADE; CREATE SCHEMA noetl", "belongs to another program"),
    ],
    ids=["newer", "foreign"],
)
def test_tables_that_are_not_ours_are_refused_and_left_alone(spoilt: str, words: str) -> None:
    async def work() -> None:
        async with database() as name:
            async with opened(name) as made:
                await PostgresListing(made).executions()
            async with connected(name) as stranger:
                await stranger.execute(spoilt)
                query = "SELECT count(*) FROM pg_class"
                before = await stranger.fetchval(query)
                async with opened(name) as made:
                    for _ in range(2):
                        error = await error_of(PostgresListing(made).executions())
                        assert isinstance(error, Unavailable)
                        assert words in str(error)
                assert await stranger.fetchval(query) == before

    run(work)


def test_a_database_that_can_not_hold_all_characters_is_refused() -> None:
    async def work() -> None:
        async with database() as name, connected(name) as owner:
            await owner.execute(f"CREATE DATABASE {name}latin ENCODING 'LATIN1' TEMPLATE template0")
            try:
                async with opened(f"{name}latin") as made:
                    error = await error_of(PostgresListing(made).executions())
                assert "ENCODING 'UTF8'" in str(error)
            finally:
                await owner.execute(f"DROP DATABASE {name}latin WITH (FORCE)")

    run(work)


def test_whoever_may_only_use_the_tables_may_use_them() -> None:
    async def work() -> None:
        async with database() as name, connected(name) as owner:
            await owner.execute(f"CREATE ROLE {name}user LOGIN")
            url = postgres().dsn(name).replace("postgres@", f"{name}user@")
            user = open_postgres(url, SystemClock())
            try:
                error = await error_of(PostgresListing(user).executions())
                assert "needs CREATE on the database" in str(error)
                async with opened(name) as made:
                    await PostgresListing(made).executions()
                await owner.execute(f"GRANT USAGE ON SCHEMA noetl TO {name}user")
                await owner.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA noetl TO {name}user")
                assert await PostgresListing(user).executions() == []
            finally:
                await user.close()
                await owner.execute(f"DROP OWNED BY {name}user")
                await owner.execute(f"DROP ROLE {name}user")

    run(work)


def test_sessions_commit_durably_whatever_the_database_says() -> None:
    async def work() -> None:
        async with database() as name, connected(name) as owner:
            for setting in (
                "synchronous_commit = off",
                "default_transaction_isolation = 'serializable'",
                "timezone = 'Asia/Tokyo'",
            ):
                await owner.execute(f"ALTER DATABASE {name} SET {setting}")
            async with opened(name) as made, store_on(made) as store:
                query = "SELECT current_setting('synchronous_commit'), current_setting('transaction_isolation')"
                assert [tuple(row) for row in await made.fetch(query)] == [("on", "read committed")]
                epoch = await epoch_of(store, "s1")
                assert await store.append([append(1, epoch)]) == [None]
                assert (await store.read("e"))[0].at == AT

    run(work)


# Retention


async def _execution(
    store: PostgresStore, execution_id: str, at: datetime, status: Status, parent: str | None = None
) -> None:
    partition = partition_of(execution_id, PARTITIONS)
    owner = (await store.own("s1", [partition], TTL_S)).epochs[partition]
    first = Requested(path="p", digest="d", parent=parent)
    assert await store.append([Append(execution_id, 1, at, (first,), owner, "running")]) == [None]
    assert await store.append([Append(execution_id, 2, at, (Evaluated(),), owner, status)]) == [None]
    await store.keep(execution_id, Snapshot(2, "s", b"state"))


def test_no_snapshot_is_kept_of_what_is_not_there() -> None:
    async def work() -> None:
        async with fresh() as made, store_on(made) as store:
            await store.keep("gone", Snapshot(2, "s", b"state"))
            assert await store.snapshot("gone") is None

    run(work)


def test_what_has_long_ended_is_forgotten_whole_and_nothing_else() -> None:
    async def work() -> None:
        async with fresh() as made, store_on(made) as store:
            old, new = AT - timedelta(days=90), AT
            await _execution(store, "old-ok", old, "ok")
            await _execution(store, "old-open", old, "paused")
            await _execution(store, "old-child-of-open", old, "ok", parent="old-open/call#1@1")
            await _execution(store, "old-child-of-ended", old, "error", parent="old-ok/call#1@1")
            await _execution(store, "old-child-of-nobody", old, "cancelled", parent="gone/call#1@1")
            await _execution(store, "new-ok", new, "ok")
            batches = [ids async for ids in PostgresRetention(made).forget(AT - timedelta(days=30))]
            gone = {"old-ok", "old-child-of-ended", "old-child-of-nobody"}
            assert {each for batch in batches for each in batch} == gone
            left = {"old-open", "old-child-of-open", "new-ok"}
            for table in ("heads", "log", "snapshots"):
                found = await made.fetch(f"SELECT DISTINCT execution_id FROM noetl.{table}")
                assert {row["execution_id"] for row in found} == left
            assert [ids async for ids in PostgresRetention(made).forget(AT - timedelta(days=30))] == []

    run(work)


def test_much_is_forgotten_in_small_transactions_past_what_is_open_or_in_use() -> None:
    async def work() -> None:
        async with database() as name, opened(name) as made, connected(name) as other:
            await PostgresListing(made).executions()
            await other.execute(
                "INSERT INTO noetl.heads SELECT 'e' || n, 0, CASE WHEN n = 7 THEN 1000000 ELSE 1 END,"
                " CASE WHEN n % 3 = 0 THEN 'running' ELSE 'ok' END, 'p', 'd', NULL, $1, $1"
                " FROM generate_series(1, $2::integer) AS n",
                AT - timedelta(days=90),
                3 * FORGET_EXECUTIONS_MAX,
            )
            async with other.transaction():
                await other.execute("SELECT FROM noetl.heads WHERE execution_id = 'e1' FOR UPDATE")
                batches = [ids async for ids in PostgresRetention(made).forget(AT)]
            assert sum(map(len, batches)) == 2 * FORGET_EXECUTIONS_MAX - 1
            assert max(map(len, batches)) <= FORGET_EXECUTIONS_MAX
            assert any(batch[-1] == "e7" for batch in batches), "what is very long ends its transaction"
            assert [ids async for ids in PostgresRetention(made).forget(AT)] == [["e1"]]

    run(work)


# What else is refused


def test_what_can_not_be_kept_is_refused_in_words() -> None:
    async def work() -> None:
        async with fresh() as made:
            long = PlaybookText("d", "p" * (PATH_BYTES_MAX + 1), "1")
            assert "path-too-long" in str(await error_of(PostgresCatalog(made).put(long)))
            nul = PlaybookText("d", "p", "a\0b")
            assert isinstance(await error_of(PostgresCatalog(made).put(nul)), Rejected)
            row = SecretRow("half \ud800", 1, b"n", b"b", "k", AT)
            assert isinstance(await error_of(PostgresSecretRows(made).put(row, None)), Rejected)

    run(work)


# While PostgreSQL is unreachable


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user:hidden@127.0.0.1:1/nobody",
        "postgresql://user:hid/hidden@127.0.0.1:1/nobody",
        "postgresql://user:x@127.0.0.1:hidden/nobody",
        "postgresql://user:hidden@/nobody?host=/tmp/nowhere&hidden=1",
        "postgresql://user:hidden@127.0.0.1:1/nobody?sslmode=hidden",
    ],
)
def test_a_url_that_leads_nowhere_is_unavailable_and_its_password_is_not_told(url: str) -> None:
    async def work() -> None:
        made = open_postgres(url, SystemClock())
        store = PostgresStore(made)
        for asked in (store.read("e"), store.append([append(1, 1)]), store.own("s", [0], 1.0)):
            error = await error_of(asked)
            assert isinstance(error, Unavailable)
            assert "hidden" not in said(error)
        await store.close()
        await made.close()

    run(work)


def test_a_url_of_something_else_is_refused() -> None:
    with pytest.raises(Unavailable, match="begins with postgresql://") as caught:
        open_postgres("mysql://user:hidden@127.0.0.1/nobody", SystemClock())
    assert "hidden" not in str(caught.value)


def test_a_password_that_is_refused_is_not_told_and_one_that_is_right_opens() -> None:
    async def work() -> None:
        for password, is_right in ((PASSWORD, True), ("hidden", False)):
            url = f"postgresql://postgres:{password}@127.0.0.1:{postgres().port}/postgres"
            made = open_postgres(url, SystemClock())
            error = await error_of(made.fetch("SELECT 1 FROM noetl.version"))
            assert (error is None) == is_right
            if error is not None:
                assert "user or the password" in str(error)
                assert "hidden" not in said(error)
            await made.close()

    run(work)


def test_a_value_that_postgresql_complains_about_is_not_told() -> None:
    async def work() -> None:
        async with fresh() as made:
            query = "INSERT INTO noetl.version SELECT 'hidden'::text::integer"
            error = await error_of(made.fetch(query))
            assert isinstance(error, Unavailable)
            assert "22P02" in str(error)
            assert "hidden'" not in said(error).replace(query, "")
            assert 'syntax for type integer: "hidden"' not in said(error)

    run(work)


def test_whoever_asks_again_and_again_makes_few_attempts_to_connect() -> None:
    connects = 0

    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connects
        connects += 1
        writer.close()

    async def work() -> None:
        listening = await asyncio.start_server(hang_up, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        clock = SystemClock()
        made = open_postgres(f"postgresql://u:p@127.0.0.1:{port}/d?sslmode=disable", clock)
        store = PostgresStore(made)
        started, rounds = clock.monotonic(), 5
        for _ in range(rounds):
            asked = [
                *(store.read("e") for _ in range(20)),
                *(store.append([append(1, 1)]) for _ in range(20)),
            ]
            errors = await asyncio.gather(*map(error_of, asked))
            assert all(isinstance(error, Unavailable) for error in errors)
        took = clock.monotonic() - started
        await store.close()
        await made.close()
        listening.close()
        await listening.wait_closed()
        assert connects / took < 50
        assert took < READY_S, "callers get the error soon"

    run(work)


def test_a_session_that_is_ended_in_the_middle_is_unknown_and_the_next_one_goes_on() -> None:
    async def work() -> None:
        async with (
            database() as name,
            opened(name) as made,
            store_on(made) as store,
            connected(name) as other,
        ):
            epoch = await epoch_of(store, "s1")
            for seq in (1, 2, 3):
                async with other.transaction():
                    await other.execute("SELECT FROM noetl.partitions FOR UPDATE")
                    out = asyncio.create_task(error_of(store.append([append(seq, epoch)])))
                    await blocked(other)
                    await other.execute(  # and wait until they are gone: a line that is just being cut is no line
                        "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity"
                        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                    )
                    assert isinstance(await out, Unavailable)
                assert await store.append([append(seq, epoch)]) == [None]
                assert len(await store.read("e")) == seq

    run(work)


class Proxy:
    """On the way to PostgreSQL: a line that may go silent without a word."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[int]:
        server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to_there = await asyncio.open_connection("127.0.0.1", postgres().port)
        for source, target in ((reader, to_there), (there, writer)):
            self._tasks.add(asyncio.create_task(self._carry(source, target)))

    async def _carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65_536):
                await self.open.wait()
                target.write(data)
        except OSError:
            pass
        finally:
            target.close()


def test_a_line_that_goes_silent_is_given_up_and_another_one_made() -> None:
    async def work() -> None:
        proxy, clock = Proxy(), SystemClock()
        async with database() as name, proxy.listening() as port:
            made = open_postgres(f"postgresql://postgres:{PASSWORD}@127.0.0.1:{port}/{name}", clock)
            store, hasty = PostgresStore(made, PARTITIONS), PostgresStore(made, PARTITIONS, timeout_s=0.5)
            epoch = await epoch_of(store, "s1")
            while isinstance(await error_of(hasty.append([append(1, epoch)])), Unavailable):
                pass  # its line is made first, which may take longer than its patience
            proxy.open.clear()
            started = clock.monotonic()
            assert isinstance(await error_of(hasty.append([append(2, epoch)])), Unavailable)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await store.read("e")
            assert clock.monotonic() - started < READY_S
            proxy.open.set()
            done: list[Conflict | Fenced | None] = []
            while done != [None]:  # what was given up may have happened or not, or may happen just now
                rows = len(await store.read("e"))
                assert rows in (1, 2)
                done = await store.append([append(rows + 1, epoch)])
            for each in (store, hasty):
                await each.close()
            await made.close()

    run(work)


@pytest.fixture
def killed() -> Iterator[PostgresServer]:
    server = PostgresServer()
    try:
        yield server
    finally:
        server.close()


class Chain:
    """One execution that appends as long as it is let, and looks into the log when it does not know."""

    def __init__(self, store: PostgresStore, execution_id: str, epoch: int) -> None:
        self.store = store
        self.id = execution_id
        self.epoch = epoch
        self.acked: list[int] = []
        self.unknown: list[int] = []
        self.went_on = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        seq = 1
        while not stop.is_set():
            try:
                assert await self.store.append([append(seq, self.epoch, execution_id=self.id)]) == [None]
            except Unavailable:
                self.unknown.append(seq)
                seq = await self.next_seq()
                continue
            self.acked.append(seq)
            self.went_on.set()
            seq += 1

    async def next_seq(self) -> int:
        while True:
            with suppress(Unavailable):
                return len(await self.store.read(self.id)) + 1


def test_nothing_acknowledged_is_lost_when_postgresql_is_killed_under_load(killed: PostgresServer) -> None:
    async def work() -> None:
        made = open_postgres(killed.dsn(), SystemClock())
        stop = asyncio.Event()
        async with store_on(made) as store:
            epochs = (await store.own("s1", range(PARTITIONS), 600.0)).epochs
            chains = [
                Chain(store, f"e{number}", epochs[partition_of(f"e{number}", PARTITIONS)]) for number in range(16)
            ]
            async with asyncio.TaskGroup() as group:
                running = [group.create_task(chain.run(stop)) for chain in chains]
                for _ in range(3):
                    for chain in chains:
                        await chain.went_on.wait()
                    await asyncio.to_thread(killed.stop, signal.SIGKILL)
                    await asyncio.to_thread(killed.start)
                    for chain in chains:
                        chain.went_on.clear()
                    async with asyncio.timeout(READY_S):
                        for chain in chains:
                            await chain.went_on.wait()
                stop.set()
                await asyncio.wait(running)
            for chain in chains:
                seqs = [row.first_seq for row in await store.read(chain.id)]
                assert seqs == list(range(1, len(seqs) + 1)), "no gap, nothing twice"
                assert set(chain.acked) <= set(seqs)
                assert set(seqs) - set(chain.acked) <= set(chain.unknown)
            assert sum(len(chain.unknown) for chain in chains) > 0
        await made.close()

    run(work)


def test_while_postgresql_is_down_everything_says_so_and_comes_back_with_it(killed: PostgresServer) -> None:
    async def work() -> None:
        clock = SystemClock()
        made = open_postgres(killed.dsn(), clock)
        async with store_on(made) as store:
            epoch = await epoch_of(store, "s1")
            await store.append([append(1, epoch)])
            await asyncio.to_thread(killed.stop)
            started = clock.monotonic()
            for asked in (store.append([append(2, epoch)]), store.read("e"), PostgresListing(made).last()):
                assert isinstance(await error_of(asked), Unavailable)
            assert clock.monotonic() - started < READY_S
            await asyncio.to_thread(killed.start)
            started = clock.monotonic()
            while isinstance(await error_of(store.status("e")), Unavailable):
                pass
            assert await store.append([append(2, epoch)]) == [None]
            assert clock.monotonic() - started < READY_S
        await made.close()

    run(work)


def test_an_older_postgresql_will_do() -> None:
    async def work(server: PostgresServer) -> None:
        made = open_postgres(server.dsn(), SystemClock())
        async with store_on(made) as store:
            epoch = await epoch_of(store, "s1")
            done = await store.append([append(1, epoch, facts=3), append(2, epoch), append(4, epoch)])
            assert [type(each) for each in done] == [type(None), Conflict, type(None)]
            assert await store.live([PARTITION]) == [("e", 4)]
            assert await store.servers("s1", TTL_S) == ["s1"]
            await store.let_go("s1", [PARTITION])
            await PostgresCatalog(made).put(PlaybookText("d", "p", "1"))
            assert isinstance(await error_of(PostgresCatalog(made).newest("p", 2)), NotFound)
            assert (await PostgresListing(made).head("e")).owner_alive is False
            assert [ids async for ids in PostgresRetention(made).forget(AT + timedelta(days=1))] == []
        await made.close()

    server = PostgresServer(version=16)
    try:
        asyncio.run(work(server))
    finally:
        server.close()
