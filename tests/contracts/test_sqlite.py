"""The SQLite adapters keep the contracts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import pytest

from noetl.adapters.sqlite.audit import SqliteAudit
from noetl.adapters.sqlite.catalog import SqliteCatalog
from noetl.adapters.sqlite.database import Database, open_sqlite
from noetl.adapters.sqlite.limits import SqliteLimits
from noetl.adapters.sqlite.logs import SqliteLogs
from noetl.adapters.sqlite.ownership import SqliteOwnership
from noetl.adapters.sqlite.results import SqliteResults
from noetl.adapters.sqlite.saved import SqliteSaved
from noetl.adapters.sqlite.secrets import SqliteSecretRows, SqliteTokens
from noetl.adapters.sqlite.sessions import SqliteSessions
from noetl.adapters.sqlite.store import PAGE_FACTS, SqliteListing, SqliteRetention, SqliteStore
from noetl.adapters.sqlite.triggers import SqliteTriggers
from noetl.clock import SystemClock
from noetl.output import JSON
from noetl.ports import ApiTokenStore, Catalog, EventStore, Limits, PlaybookText, SecretRows, WebSessionStore
from noetl.testing.contracts.audit import AuditContract, OpenedAudit
from noetl.testing.contracts.limits import LimitsContract
from noetl.testing.contracts.listing import ListedLog, ListingContract
from noetl.testing.contracts.logs import LIMIT, LogStoreContract, OpenedLogs
from noetl.testing.contracts.notifications import NotifyingLog, PendingNotificationsContract
from noetl.testing.contracts.results import ClearableStore, ResultStoreContract
from noetl.testing.contracts.saved import SavedContract, SavingLog
from noetl.testing.contracts.secret_inputs import RowsOfLog, SecretInputRowsContract
from noetl.testing.contracts.secrets import SecretRowsContract, TokensContract, WebSessionsContract
from noetl.testing.contracts.stores import (
    CatalogContract,
    EventStoreContract,
    OwnershipContract,
    StoreProcess,
    append,
)
from noetl.testing.contracts.triggers import OpenedTriggers, TriggersContract


class OnOneFile:
    """Every database that a test opens is on the same file, as that of another process is."""

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> Iterator[None]:
        self.path = tmp_path / "data" / "noetl.db"
        self.opened: list[Database] = []
        yield
        for database in self.opened:
            database.close()

    def open(self) -> Database:
        self.opened.append(open_sqlite(self.path, SystemClock()))
        return self.opened[-1]


class TestSqliteStore(OnOneFile, EventStoreContract):
    async def owned(self) -> tuple[EventStore, int]:
        database = self.open()
        return SqliteStore(database), await SqliteOwnership(database).hold("e")


class TestSqliteOwnership(OnOneFile, OwnershipContract):
    def process(self) -> StoreProcess:
        database = self.open()
        return StoreProcess(SqliteStore(database), SqliteOwnership(database), database.close)


class TestSqliteCatalog(OnOneFile, CatalogContract):
    @asynccontextmanager
    async def make(self) -> AsyncIterator[Catalog]:
        yield SqliteCatalog(self.open())


class TestSqlitePendingNotifications(OnOneFile, PendingNotificationsContract):
    @asynccontextmanager
    async def make(self) -> AsyncIterator[NotifyingLog]:
        database = self.open()
        yield NotifyingLog(SqliteStore(database), SqliteOwnership(database).hold)


class TestSqliteSaved(OnOneFile, SavedContract):
    @asynccontextmanager
    async def make(self) -> AsyncIterator[SavingLog]:
        database = self.open()
        yield SavingLog(SqliteStore(database), SqliteSaved(database), SqliteOwnership(database).hold)


class TestSqliteLimits(OnOneFile, LimitsContract):
    @asynccontextmanager
    async def make(self) -> AsyncIterator[Limits]:
        yield SqliteLimits(self.open())


class TestSqliteListing(OnOneFile, ListingContract):
    @asynccontextmanager
    async def make(self) -> AsyncIterator[ListedLog]:
        database = self.open()
        retention = SqliteRetention(database)
        yield ListedLog(
            SqliteStore(database), SqliteListing(database), SqliteOwnership(database).hold, retention.delete
        )


class TestSqliteTokens(OnOneFile, TokensContract):
    @asynccontextmanager
    async def make(self) -> AsyncIterator[ApiTokenStore]:
        yield SqliteTokens(self.open())


class TestSqliteSessions(OnOneFile, WebSessionsContract):
    @asynccontextmanager
    async def make(self) -> AsyncIterator[WebSessionStore]:
        yield SqliteSessions(self.open())


class TestSqliteSecretRows(OnOneFile, SecretRowsContract):
    @asynccontextmanager
    async def make(self) -> AsyncIterator[SecretRows]:
        yield SqliteSecretRows(self.open())


class TestSqliteSecretInputRows(OnOneFile, SecretInputRowsContract):
    @asynccontextmanager
    async def make(self) -> AsyncIterator[RowsOfLog]:
        database = self.open()
        owner, delete = SqliteOwnership(database).hold, SqliteRetention(database).delete
        log = ListedLog(SqliteStore(database), SqliteListing(database), owner, delete)
        yield RowsOfLog(SqliteSecretRows(database, "secret_inputs"), log)


_AUDIT_FIELDS = "at, action, what, target, who, caller, address, detail, times"
_SAME_ENTRIES = f"({{name}}, {_AUDIT_FIELDS}) SELECT id, at, action, what, target, 'eve', caller, address, detail, times FROM {{{{audit}}}}"


class TestSqliteAudit(OnOneFile, AuditContract):
    @asynccontextmanager
    async def make(self) -> AsyncIterator[OpenedAudit]:
        database = self.open()

        async def sql(query: str) -> None:
            def write(cursor: apsw.Cursor) -> None:
                cursor.execute(query.format(audit="audit"))

            await database.writer.write(write)

        same, by_rowid = _SAME_ENTRIES.format(name="id"), _SAME_ENTRIES.format(name="rowid")
        replacing = (
            f"REPLACE INTO {{audit}} {same}",
            f"REPLACE INTO {{audit}} {by_rowid}",
            f"INSERT OR REPLACE INTO {{audit}} {same}",
            f"INSERT INTO {{audit}} {same} WHERE true ON CONFLICT DO UPDATE SET who = 'eve'",
            "UPDATE OR REPLACE {audit} SET who = 'eve'",
        )
        yield OpenedAudit(SqliteAudit(database), sql, replacing)


class TestSqliteTriggers(OnOneFile, TriggersContract):
    @asynccontextmanager
    async def make(self) -> AsyncIterator[OpenedTriggers]:
        database = self.open()

        async def register(path: str, digest: str) -> None:
            await SqliteCatalog(database).put(PlaybookText(digest, path, ""))

        yield OpenedTriggers(SqliteTriggers(database), register)


class TestSqliteLogs(OnOneFile, LogStoreContract):
    @asynccontextmanager
    async def make(self) -> AsyncIterator[OpenedLogs]:
        database = self.open()
        for execution_id in ("e", "f"):
            number = await SqliteOwnership(database).hold(execution_id)
            assert await SqliteStore(database).append([append(1, number, execution_id=execution_id)]) == [None]

        async def delete(execution_id: str) -> None:
            def write(cursor: apsw.Cursor) -> None:
                cursor.execute("DELETE FROM heads WHERE execution_id = ?", (execution_id,))

            await database.writer.write(write)

        yield OpenedLogs(SqliteLogs(database, LIMIT), delete)


def test_a_long_log_is_gone_through_a_page_at_a_time(tmp_path: Path) -> None:
    async def work() -> None:
        database = open_sqlite(tmp_path / "n.db", SystemClock())
        try:
            store = SqliteStore(database)
            number = await SqliteOwnership(database).hold("e")
            first = 1
            for facts in (1, PAGE_FACTS - 2, 3, PAGE_FACTS + 7, 1, 2):
                assert await store.append([append(first, number, facts=facts)]) == [None]
                first += facts
            assert list(store.stream("e")) == await store.read("e")
            assert list(store.stream("nobody")) == []
        finally:
            database.close()

    asyncio.run(work())


class TestSqliteResults(OnOneFile, ResultStoreContract):
    @asynccontextmanager
    async def open_store(self) -> AsyncIterator[ClearableStore]:
        yield SqliteResults(self.open())

    async def damage(self, ref: dict[str, JSON]) -> None:
        with apsw.Connection(str(self.path)) as stranger:
            query = "SELECT id FROM results WHERE key = ?"
            ((id,),) = stranger.execute(query, (ref["locator"]["key"],)).fetchall()
            query = "SELECT place, body FROM result_parts WHERE result = ? ORDER BY place DESC LIMIT 1"
            ((place, body),) = stranger.execute(query, (id,)).fetchall()
            assert isinstance(body, bytes)
            spoilt = body[:-1] + bytes([body[-1] ^ 1])
            query = "UPDATE result_parts SET body = ? WHERE result = ? AND place = ?"
            stranger.execute(query, (spoilt, id, place))
        stranger.close()
