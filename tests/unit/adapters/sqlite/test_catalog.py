"""The catalog on SQLite, beyond its contract: what the same text costs, and where it came from."""

from __future__ import annotations

from pathlib import Path

from noetl.adapters.sqlite.catalog import _LIST, _NEWEST, _VERSIONS, SqliteCatalog
from noetl.adapters.sqlite.database import Database
from noetl.ports import PlaybookText
from tests.unit.adapters.sqlite_files import on_file, opened


def test_putting_the_newest_again_writes_nothing(tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        catalog, text = SqliteCatalog(database), PlaybookText("d1", "p", "1", "/a.yaml")
        await catalog.put(text)
        before = database.fetch("PRAGMA data_version")
        await catalog.put(text)
        assert database.fetch("PRAGMA data_version") == before
        await catalog.put(text._replace(digest="d2"))
        assert database.fetch("PRAGMA data_version") != before

    on_file(tmp_path / "noetl.db", work)


def test_pages_and_versions_are_found_by_their_indexes(tmp_path: Path) -> None:
    with opened(tmp_path / "noetl.db") as database:
        for query, values in ((_LIST, ("", 100, False)), (_VERSIONS, ("p",)), (_NEWEST, ("p",))):
            plan = [str(row[3]) for row in database.fetch(f"EXPLAIN QUERY PLAN {query}", values)]
            assert not [step for step in plan if step.startswith("SCAN") and "playbooks" in step], plan


def test_an_archived_path_is_opened_by_the_text_that_is_current_already(tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        catalog, text = SqliteCatalog(database), PlaybookText("d1", "p", "1", "/a.yaml")
        await catalog.put(text)
        await catalog.archive("p")
        await catalog.put(text)
        assert await catalog.newest("p") == text
        before = database.fetch("PRAGMA data_version")
        await catalog.put(text)
        assert database.fetch("PRAGMA data_version") == before

    on_file(tmp_path / "noetl.db", work)


def test_a_text_that_comes_from_another_file_is_now_from_there(tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        catalog, text = SqliteCatalog(database), PlaybookText("d1", "p", "1", "/a.yaml")
        await catalog.put(text)
        await catalog.put(text._replace(origin="/b.yaml"))
        assert (await catalog.get("d1")).origin == "/b.yaml"
        await catalog.put(text._replace(origin=None))
        assert (await catalog.get("d1")).origin == "/b.yaml", "a text without an origin keeps the stored one"

    on_file(tmp_path / "noetl.db", work)
