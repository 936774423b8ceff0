"""Of two processes one holds; when it is killed the other takes over, under a higher number."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from noetl.adapters.sqlite.database import Database
from noetl.adapters.sqlite.ownership import SqliteOwnership
from noetl.adapters.sqlite.store import SqliteStore
from noetl.errors import Fenced, Rejected
from tests.unit.adapters.sqlite_files import append, begun, child, on_file


def test_a_killed_process_loses_its_execution_and_a_living_one_does_not(tmp_path: Path) -> None:
    path = tmp_path / "noetl.db"

    async def work(database: Database) -> None:
        holding, store = SqliteOwnership(database), SqliteStore(database)
        with child("holder.py", str(path), "e") as process:
            assert process.stdout is not None
            first = int(process.stdout.readline())
            with pytest.raises(Rejected, match=f"held: process {process.pid} holds e"):
                await holding.hold("e")
            process.send_signal(signal.SIGSTOP)  # it stands still, and lives
            with pytest.raises(Rejected, match="held"):
                await holding.hold("e")
            process.kill()
            process.wait()
        number = await holding.hold("e")
        assert number > first
        assert isinstance((await store.append([append("e", 2, first)]))[0], Fenced)
        assert await store.append([append("e", 2, number)]) == [None]

    on_file(path, work)


def test_the_lock_files_of_the_dead_are_cleared_away_and_ours_goes_with_us(tmp_path: Path) -> None:
    path = tmp_path / "noetl.db"
    locks = tmp_path / "noetl.db-locks"
    for number in range(3):
        with child("holder.py", str(path), f"e{number}") as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.kill()

    async def work(database: Database) -> None:
        await begun(database, "mine")
        assert len([each for each in locks.iterdir() if each.name != "making.lock"]) == 1
        assert database.fetch("SELECT count(*) FROM owners") == [(1,)]

    on_file(path, work)
    assert [each.name for each in locks.iterdir()] == ["making.lock"]


def test_holding_many_at_once_enters_once(tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        holding = SqliteOwnership(database)
        numbers = await asyncio.gather(*(holding.hold(f"e{number}") for number in range(50)))
        assert set(numbers) == {1}
        assert database.fetch("SELECT count(*) FROM owners") == [(1,)]

    on_file(tmp_path / "noetl.db", work)
