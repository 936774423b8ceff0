"""The log on SQLite, beyond its contract: long logs, and lists that show what the log says."""

from __future__ import annotations

import asyncio
from pathlib import Path

from msgspec.structs import replace

from noetl.adapters.sqlite.database import Database
from noetl.adapters.sqlite.store import THREAD_FACTS, SqliteStore
from tests.unit.adapters.sqlite_files import append, begun, on_file


def test_a_long_log_is_read_whole_and_in_order_while_others_write(tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        owner = await begun(database, "e", "f")
        store = SqliteStore(database)
        some = append("e", 2, owner)
        appends = [
            replace(some, first_seq=2 + place, facts=some.facts * 50) for place in range(0, THREAD_FACTS * 2, 50)
        ]
        assert set(await store.append(appends)) == {None}
        rows, written = await asyncio.gather(store.read("e"), store.append([append("f", 2, owner)]))
        assert sum(len(row.facts) for row in rows) == 1 + THREAD_FACTS * 2
        assert [row.first_seq for row in rows] == [1, *range(2, 2 + THREAD_FACTS * 2, 50)]
        assert written == [None]
        assert await store.read("e", after=THREAD_FACTS * 2 - 10) == rows[-1:]
        assert await store.read("e", after=10) == rows[1:]

    on_file(tmp_path / "noetl.db", work)


def test_instants_come_back_to_the_microsecond(tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        owner = await begun(database, "e")
        one = append("e", 2, owner)
        await SqliteStore(database).append([one])
        rows = await SqliteStore(database).read("e")
        assert rows[1].at == one.at
        assert rows[1].at.utcoffset() == one.at.utcoffset()

    on_file(tmp_path / "noetl.db", work)
