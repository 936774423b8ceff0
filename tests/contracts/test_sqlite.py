"""The SQLite adapters keep the contracts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl.adapters.sqlite.catalog import SqliteCatalog
from noetl.adapters.sqlite.database import Database, open_sqlite
from noetl.adapters.sqlite.holding import SqliteHolding
from noetl.adapters.sqlite.store import SqliteStore
from noetl.clock import SystemClock
from noetl.ports import Catalog, EventStore
from noetl.testing.contracts import CatalogContract, EventStoreContract, HoldingContract, Process


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
        return SqliteStore(database), await SqliteHolding(database).hold("e")


class TestSqliteHolding(OnOneFile, HoldingContract):
    def process(self) -> Process:
        database = self.open()
        return Process(SqliteStore(database), SqliteHolding(database), database.close)


class TestSqliteCatalog(OnOneFile, CatalogContract):
    def make(self) -> Catalog:
        return SqliteCatalog(self.open())
