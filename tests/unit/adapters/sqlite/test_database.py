"""An open file: invalid input does not break it, and closing it does not disturb running reads."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from noetl.adapters.sqlite.catalog import SqliteCatalog
from noetl.adapters.sqlite.database import Database
from noetl.adapters.sqlite.ownership import SqliteInbox, SqliteOwnership
from noetl.adapters.sqlite.store import SqliteListing, SqliteStore
from noetl.engine.commands import Cancel
from noetl.errors import NotFound, Rejected, Unavailable
from noetl.ports import PlaybookText
from tests.unit.adapters.sqlite_files import append, begun, on_file

HALF = "e\udcff"  # what Python makes of a byte on a command line that is not UTF-8


def test_half_a_character_is_found_nowhere_and_harms_nobody(tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        owner = await begun(database, "e")
        store, listing = SqliteStore(database), SqliteListing(database)
        asked = (
            listing.head(HALF),
            SqliteInbox(database).post(HALF, Cancel()),
            SqliteCatalog(database).newest(HALF),
            SqliteCatalog(database).put(PlaybookText("d", "p", "text", HALF)),
            SqliteOwnership(database).hold(HALF),
            store.append([append("e", 2, owner)]),
        )
        told = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(each) for each in told[:5]] == [NotFound, NotFound, NotFound, Rejected, Rejected]
        assert told[5] == [None]
        assert await listing.find(HALF) == []
        assert await store.read(HALF) == []

    on_file(tmp_path / "noetl.db", work)


def test_closing_waits_for_a_long_read_and_may_be_done_twice(tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        owner = await begun(database, "e")
        store, some = SqliteStore(database), append("e", 2, owner)
        await store.append([replace(some, facts=some.facts * 20_000)])
        reading = asyncio.ensure_future(store.read("e"))
        turned = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(turned.set_result, None)
        await turned
        database.close()
        database.close()
        try:
            facts = sum(len(row.facts) for row in await reading)
        except Unavailable:
            facts = 20_001  # it had not begun
        assert facts == 20_001
        with pytest.raises(Unavailable, match="is closed"):
            await store.read("e")

    on_file(tmp_path / "noetl.db", work)


def test_a_wrong_id_is_shown_without_what_a_terminal_can_not_print(tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        with pytest.raises(Rejected) as caught:
            await SqliteOwnership(database).hold(HALF)
        str(caught.value).encode()

    on_file(tmp_path / "noetl.db", work)
