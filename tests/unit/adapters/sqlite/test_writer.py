"""Group commit: many at once, each with its own check; every caller gets an answer, also after an error."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import apsw
import pytest

from noetl.adapters.sqlite.database import AT_ONCE_MAX, Database, open_sqlite
from noetl.adapters.sqlite.ownership import SqliteOwnership
from noetl.adapters.sqlite.store import SqliteStore
from noetl.errors import Conflict, Fenced, NotFound, Unavailable
from noetl.testing import FakeClock
from tests.unit.adapters.sqlite_files import append, begun, on_file

CLOCKS = pytest.mark.parametrize("clock", [FakeClock(), FakeClock(tick_s=0.5)], ids=["quick disk", "slow disk"])


async def busy(database: Database) -> None:
    """Two who write in the same turn: from now on nothing is committed before the end of a turn."""
    await asyncio.gather(*(database.writer.write(lambda cursor: cursor.execute("SELECT 1")) for _ in range(2)))


def threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name == "noetl-sqlite"]


@CLOCKS
def test_of_500_appends_at_once_only_those_that_are_wrong_fail(clock: FakeClock, tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        ids = [f"e{number}" for number in range(500)]
        store, owner = SqliteStore(database), await SqliteOwnership(database).hold("e0")
        assert set(await store.append([append(each, 1, owner) for each in ids])) == {None}
        wrong = {Conflict: 7, Fenced: 11}

        def one(number: int) -> tuple[str, int, int]:
            conflicts, stranger = number % wrong[Conflict] == 0, number % wrong[Fenced] == 0
            return ids[number], 3 if conflicts else 2, owner + 1 if stranger else owner

        asked = [one(number) for number in range(500)]
        done = await asyncio.gather(*(store.append([append(*each)]) for each in asked))
        for number, (answer,) in enumerate(done):
            wanted = Fenced if number % wrong[Fenced] == 0 else Conflict if number % wrong[Conflict] == 0 else None
            assert type(answer) is (wanted or type(None))
            assert len(await store.read(ids[number])) == (2 if wanted is None else 1)

    on_file(tmp_path / "noetl.db", work, clock)


def test_what_is_asked_for_in_one_turn_of_the_loop_is_one_commit(tmp_path: Path) -> None:
    clock = FakeClock()

    async def work(database: Database) -> None:
        owner = await begun(database, "a", "b", "c")
        await busy(database)
        store, before = SqliteStore(database), clock.readings
        await asyncio.gather(*(store.append([append(each, 2, owner)]) for each in "abc"))
        assert clock.readings == before + 2, "once before the commit and once after it"

    on_file(tmp_path / "noetl.db", work, clock)


def test_a_lone_write_is_committed_before_anyone_else_has_a_turn(tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        owner = await begun(database, "e")
        turns: list[int] = []
        asyncio.get_running_loop().call_soon(turns.append, 1)
        await SqliteStore(database).append([append("e", 2, owner)])
        assert turns == []

    on_file(tmp_path / "noetl.db", work, FakeClock())


def test_a_chain_of_lone_writes_leaves_the_loop_its_turns(tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        owner = await begun(database, "e")
        turns: list[int] = []
        asyncio.get_running_loop().call_soon(turns.append, 1)
        for seq in range(2, 2 + AT_ONCE_MAX + 1):
            await SqliteStore(database).append([append("e", seq, owner)])
        assert turns == [1]

    on_file(tmp_path / "noetl.db", work, FakeClock())


def test_the_thread_is_there_only_when_something_has_to_be_waited_for(tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        await begun(database, "a", "b")
        found.append(threads())

    found: list[list[str]] = []
    on_file(tmp_path / "quick.db", work, FakeClock())
    on_file(tmp_path / "slow.db", work, FakeClock(tick_s=0.5))
    assert [len(each) for each in found] == [0, 1]
    assert threads() == []


def test_the_thread_does_not_count_its_wait_for_the_lock_of_the_interpreter_as_a_wait_for_the_disk(
    tmp_path: Path,
) -> None:
    clock = FakeClock(tick_s=0.5)

    async def work(database: Database) -> None:
        owner = await begun(database, "e")
        store = SqliteStore(database)
        await busy(database)
        assert len(threads()) == 1
        before = clock.readings
        for seq in range(2, 6):
            assert await store.append([append("e", seq, owner)]) == [None]
        assert clock.readings == before, "SQLite measures commits of the thread"

    on_file(tmp_path / "noetl.db", work, clock)


@CLOCKS
def test_a_full_disk_is_told_as_such_and_when_there_is_space_everything_goes_on(
    clock: FakeClock, tmp_path: Path
) -> None:
    async def work(database: Database) -> None:
        owner = await begun(database, "e", "f")
        store = SqliteStore(database)
        pages = database.fetch("PRAGMA page_count")[0][0]
        await database.writer.write(lambda cursor: cursor.execute(f"PRAGMA max_page_count = {pages + 2}"))
        await busy(database)
        large = append("e", 2, owner, filler="x" * 50_000)
        asked = store.append([large]), store.append([append("f", 2, owner)])
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(each, Unavailable) and "storage full" in str(each) for each in answers)
        assert database.fetch("PRAGMA integrity_check") == [("ok",)]
        assert [len(await store.read(each)) for each in "ef"] == [1, 1]
        await database.writer.write(lambda cursor: cursor.execute("PRAGMA max_page_count = 1000000"))
        assert await store.append([large, append("f", 2, owner)]) == [None, None]
        assert [len(await store.read(each)) for each in "ef"] == [2, 2]

    on_file(tmp_path / "noetl.db", work, clock)


def test_a_lone_write_on_a_full_disk_is_told_the_same(tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        owner = await begun(database, "e")
        pages = database.fetch("PRAGMA page_count")[0][0]
        await database.writer.write(lambda cursor: cursor.execute(f"PRAGMA max_page_count = {pages + 2}"))
        with pytest.raises(Unavailable, match="storage full"):
            await SqliteStore(database).append([append("e", 2, owner, filler="x" * 50_000)])
        assert await SqliteStore(database).append([append("e", 2, owner)]) == [None]

    on_file(tmp_path / "noetl.db", work, FakeClock())


def test_the_loop_goes_on_while_another_process_writes(tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        owner = await begun(database, "e")
        other = apsw.Connection(database.name)
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.ensure_future(SqliteStore(database).append([append("e", 2, owner)]))
        for _ in range(20):  # turns of the loop, none of which may wait for the file
            turned = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(turned.set_result, None)
            await turned
        assert not waiting.done()
        other.execute("COMMIT")
        other.close()
        assert await waiting == [None]

    on_file(tmp_path / "noetl.db", work, FakeClock())


@CLOCKS
def test_a_write_that_refuses_fails_alone(clock: FakeClock, tmp_path: Path) -> None:
    def refuse(_cursor: apsw.Cursor) -> None:
        raise NotFound("nothing there")

    async def work(database: Database) -> None:
        owner = await begun(database, "e")
        store = SqliteStore(database)
        asked = database.writer.write(refuse), store.append([append("e", 2, owner)])
        refused, stood = await asyncio.gather(*asked, return_exceptions=True)
        assert isinstance(refused, NotFound)
        assert stood == [None]

    on_file(tmp_path / "noetl.db", work, clock)


@CLOCKS
def test_after_a_bug_in_one_write_nothing_of_its_group_is_kept_and_all_are_told(
    clock: FakeClock, tmp_path: Path
) -> None:
    def stumble(cursor: apsw.Cursor) -> None:
        cursor.execute("DELETE FROM heads")
        raise ZeroDivisionError

    async def work(database: Database) -> None:
        owner = await begun(database, "e")
        store = SqliteStore(database)
        await busy(database)
        asked = store.append([append("e", 2, owner)]), database.writer.write(stumble)
        told = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(each) for each in told] == [ZeroDivisionError, ZeroDivisionError]
        assert len(await store.read("e")) == 1
        assert await store.append([append("e", 2, owner)]) == [None]

    on_file(tmp_path / "noetl.db", work, clock)


@CLOCKS
def test_who_waits_when_the_file_is_closed_is_told_and_so_is_who_comes_later(clock: FakeClock, tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        owner = await begun(database, "e")
        store = SqliteStore(database)
        await busy(database)
        asyncio.get_running_loop().call_soon(database.close)  # after they have asked, before the turn is over
        asked = store.append([append("e", 2, owner)]), store.append([append("e", 3, owner)])
        told = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(each) for each in told] == [Unavailable, Unavailable]
        with pytest.raises(Unavailable, match="is closed"):
            await store.append([append("e", 2, owner)])

    on_file(tmp_path / "noetl.db", work, clock)


def test_a_cancelled_write_disturbs_nobody(tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        owner = await begun(database, "e", "f")
        store = SqliteStore(database)
        given_up = asyncio.ensure_future(store.append([append("e", 2, owner)]))
        other = asyncio.ensure_future(store.append([append("f", 2, owner)]))
        turned = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(turned.set_result, None)
        given_up.get_loop().call_soon(given_up.cancel)
        await turned
        assert await other == [None]
        with pytest.raises(asyncio.CancelledError):
            await given_up

    on_file(tmp_path / "noetl.db", work, FakeClock(tick_s=0.5))


def test_the_write_ahead_log_is_written_back_and_does_not_grow_for_ever(tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        owner = await begun(database, "e")
        store = SqliteStore(database)
        for seq in range(2, 17):
            assert await store.append([append("e", seq, owner, filler="x" * 6_000_000)]) == [None]
        # 90 MB went through it; a checkpoint comes after 16 MB, and one append more may come before it.
        assert Path(f"{database.name}-wal").stat().st_size < 30_000_000

    on_file(tmp_path / "noetl.db", work)


def test_one_database_serves_one_loop_after_another(tmp_path: Path) -> None:
    database = open_sqlite(tmp_path / "noetl.db", FakeClock(tick_s=0.5))
    owner = asyncio.run(begun(database, "e"))
    store = SqliteStore(database)
    for seq in range(2, 6):
        assert asyncio.run(store.append([append("e", seq, owner)])) == [None]
    database.close()
