"""A file is ours, becomes ours, or is refused with words that tell what to do."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import apsw
import pytest
from msgspec.structs import replace

from noetl.adapters.sqlite.audit import SqliteAudit
from noetl.adapters.sqlite.catalog import SqliteCatalog
from noetl.adapters.sqlite.database import Database, open_sqlite
from noetl.adapters.sqlite.schema import _STEPS, APPLICATION_ID, VERSION
from noetl.adapters.sqlite.secrets import SqliteSecretRows, SqliteTokens
from noetl.adapters.sqlite.store import SqliteListing, SqliteStore
from noetl.clock import SystemClock
from noetl.errors import Damaged, Unavailable
from noetl.ports import PlaybookText
from tests.unit.adapters.sqlite_files import append, begun, child, on_file, opened


def refusal(path: Path) -> str:
    with pytest.raises(Unavailable) as caught:
        open_sqlite(path, SystemClock())
    return str(caught.value)


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to have the header of one, and then some" * 10)
    before = path.read_bytes()
    assert "is not a database" in refusal(path)
    assert path.read_bytes() == before


def test_a_folder_is_not_a_database(tmp_path: Path) -> None:
    assert (
        refusal(tmp_path)
        == f'"{tmp_path}" cannot be opened: it is a folder; name a file in it, such as {tmp_path}/noetl.db'
    )


def test_the_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE t (x)")
    other.close()
    assert "another program" in refusal(path)
    other = apsw.Connection(str(path))
    assert other.pragma("journal_mode") == "delete"
    other.close()


def test_tables_of_a_newer_version_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "noetl.db"
    with opened(path):
        pass
    newer = apsw.Connection(str(path))
    newer.pragma("user_version", VERSION + 1)
    newer.close()
    assert "newer NoETL" in refusal(path)


def test_a_place_where_nothing_can_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot be opened" in refusal(tmp_path / "file" / "data" / "noetl.db")
    assert "cannot be opened" in refusal(tmp_path)


def test_the_file_and_its_folders_are_made_and_private(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "noetl.db"
    with opened(path) as database:
        assert path.stat().st_mode & 0o777 == 0o600
        assert database.fetch("PRAGMA application_id") == [(APPLICATION_ID,)]
        assert database.fetch("PRAGMA user_version") == [(VERSION,)]


def test_the_writer_is_durable_and_readers_change_nothing(tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        def settings(cursor: apsw.Cursor) -> list[object]:
            names = ("journal_mode", "synchronous", "trusted_schema", "foreign_keys", "mmap_size")
            return [cursor.connection.pragma(name) for name in names]

        assert await database.writer.write(settings) == ["wal", 2, 0, 1, 0]
        assert database.fetch("PRAGMA wal_autocheckpoint") == [(0,)]
        with pytest.raises(Unavailable, match="cannot be written"):
            database.fetch("DELETE FROM heads")

    on_file(tmp_path / "noetl.db", work)


def test_processes_that_open_a_fresh_file_at_once_all_get_it(tmp_path: Path) -> None:
    path = tmp_path / "noetl.db"
    processes = [child("holder.py", str(path), f"e{number}") for number in range(4)]
    for process in processes:
        _, complaints = process.communicate(timeout=60)
        assert (process.returncode, complaints) == (0, "")
    with opened(path) as database:
        assert database.fetch("SELECT count(*) FROM heads") == [(4,)]
        assert database.fetch("SELECT count(DISTINCT owner) FROM heads") == [(4,)]


def test_events_are_a_row_each_for_people_who_like_sql(tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        owner = await begun(database, "e")
        both = append("e", 2, owner)
        await SqliteStore(database).append([replace(both, facts=both.facts * 2)])
        assert database.fetch("SELECT execution_id, seq, at, fact FROM events ORDER BY seq") == [
            ("e", 1, "2026-01-02T03:04:05.679Z", "playbook.execution.requested"),
            ("e", 2, "2026-01-02T03:04:05.679Z", "playbook.request.evaluated"),
            ("e", 3, "2026-01-02T03:04:05.679Z", "playbook.request.evaluated"),
        ]
        assert database.fetch("SELECT body ->> 'digest' FROM events WHERE seq = 1") == [("d",)]

    on_file(tmp_path / "noetl.db", work)


def test_facts_that_can_not_be_read_are_damage_and_not_a_crash(tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        await begun(database, "e")
        spoil = 'UPDATE log SET body = \'[{"fact": "no.such"}]\''
        await database.writer.write(lambda cursor: cursor.execute(spoil))
        with pytest.raises(Damaged, match="cannot be read"):
            await SqliteStore(database).read("e")

    on_file(tmp_path / "noetl.db", work)


def test_a_fresh_file_that_many_open_at_the_same_instant_is_made_once(tmp_path: Path) -> None:
    together = Barrier(6)

    def open_and_close(path: Path) -> int:
        together.wait()
        with opened(path) as database:
            return int(database.fetch("PRAGMA user_version")[0][0])

    with ThreadPoolExecutor(6) as threads:
        for number in range(15):
            found = list(threads.map(open_and_close, [tmp_path / f"{number}.db"] * 6))
            assert found == [VERSION] * 6


# Files of earlier versions


def made_by(version: int, path: Path) -> apsw.Connection:
    """A file as the NoETL of that version left it behind."""
    old = apsw.Connection(str(path))
    old.pragma("journal_mode", "wal")
    for step in _STEPS[:version]:
        old.execute(step)
    old.pragma("application_id", APPLICATION_ID)
    old.pragma("user_version", version)
    return old


OLD_TEXTS = [("p2", "p", 5, 50), ("q1", "q", 2, 20), ("p1", "p", 1, 60), ("p3", "p", 9, 10)]


@pytest.mark.parametrize("version", [1, 2])
def test_a_file_of_an_earlier_version_is_carried_over_with_all_that_is_in_it(version: int, tmp_path: Path) -> None:
    path = tmp_path / "noetl.db"
    old = made_by(version, path)
    for digest, name, place, at in OLD_TEXTS:
        values = (digest, name, f"text of {digest}", f"/{digest}.yaml", place, at)
        old.execute("INSERT INTO playbooks VALUES (?, ?, ?, ?, ?, ?)", values)
    for id, parent in (("e", None), ("f", "e/call#1@1"), ("g", "ee/call#1@1")):
        head = (id, 1, 1, "ok", "p", "p1", parent, 7, 8)
        old.execute("INSERT INTO heads VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", head)
    if version >= 2:
        old.execute("INSERT INTO secrets VALUES ('s', 3, x'01', x'02', 'k', 9), ('gone', 1, x'', x'', '', 9)")
    old.close()

    async def work(database: Database) -> None:
        assert database.fetch("PRAGMA user_version") == [(VERSION,)]
        catalog = SqliteCatalog(database)
        assert [(each.version, each.digest, each.current) for each in await catalog.versions("p")] == [
            (3, "p3", True),
            (2, "p2", False),
            (1, "p1", False),
        ]
        assert await catalog.newest("p", 2) == PlaybookText("p2", "p", "text of p2", "/p2.yaml")
        assert [(each.path, each.version) for each in await catalog.list()] == [("p", 3), ("q", 1)]
        await catalog.put(PlaybookText("p4", "p", "new"))
        assert (await catalog.versions("p"))[0].version == 4
        assert [head.execution_id for head in await SqliteListing(database).children("e")] == ["f"]
        assert await SqliteTokens(database).list() == []
        rows = [(row.name, row.version, row.body) for row in await SqliteSecretRows(database).list()]
        assert rows == ([("s", 3, b"\2")] if version >= 2 else [])

    on_file(path, work)
    with opened(path) as database:
        assert database.fetch("PRAGMA integrity_check") == [("ok",)]


def test_many_that_open_an_old_file_at_the_same_instant_carry_it_over_once(tmp_path: Path) -> None:
    together = Barrier(6)

    def open_and_close(path: Path) -> list[tuple[int]]:
        together.wait()
        with opened(path) as database:
            return database.fetch("SELECT version FROM playbooks ORDER BY path, place")

    with ThreadPoolExecutor(6) as threads:
        for number in range(5):
            path = tmp_path / f"{number}.db"
            old = made_by(2, path)
            for digest, name, place, at in OLD_TEXTS:
                old.execute("INSERT INTO playbooks VALUES (?, ?, '', NULL, ?, ?)", (digest, name, place, at))
            old.close()
            assert list(threads.map(open_and_close, [path] * 6)) == [[(1,), (2,), (3,), (1,)]] * 6


def test_a_carrying_over_that_is_killed_is_done_again(tmp_path: Path) -> None:
    path = tmp_path / "noetl.db"
    made_by(2, path).close()
    half = apsw.Connection(str(path))
    half.execute("BEGIN IMMEDIATE")
    half.execute(_STEPS[2])
    half.close()  # as the death of its process would: nothing was committed
    with opened(path) as database:
        assert database.fetch("PRAGMA user_version") == [(VERSION,)]
        assert database.fetch("SELECT count(*) FROM tokens") == [(0,)]


def test_the_audit_trail_of_an_earlier_version_can_no_longer_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / "noetl.db"
    old = made_by(16, path)
    row = "(1, 9, 'start', 'start', 'e', 'ann', 'id', '::1', '', 1)"
    old.execute(f"INSERT INTO audit VALUES {row}")
    old.close()

    async def work(database: Database) -> None:
        replacing = f"REPLACE INTO audit VALUES {row.replace('ann', 'eve')}"
        with pytest.raises(Unavailable, match="append-only"):
            await database.writer.write(lambda cursor: cursor.execute(replacing))
        assert [(each.id, each.entry.who) for each in await SqliteAudit(database).read()] == [(1, "ann")]

    on_file(path, work)


def test_a_token_of_an_earlier_version_has_no_limits(tmp_path: Path) -> None:
    path = tmp_path / "noetl.db"
    old = made_by(4, path)
    old.execute("INSERT INTO tokens VALUES ('a', 'ci', 'read run', x'01', 5, NULL)")
    old.close()

    async def work(database: Database) -> None:
        (token,) = await SqliteTokens(database).list()
        assert (token.name, token.scopes, token.roles) == ("ci", frozenset({"read", "run"}), ())

    on_file(path, work)
