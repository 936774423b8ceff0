"""Lists of executions, from their heads."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from noetl.adapters.sqlite.database import Database
from noetl.adapters.sqlite.ownership import SqliteOwnership
from noetl.adapters.sqlite.store import _CHILDREN, _NEWEST_FIRST, _SELECT, SqliteListing, SqliteStore, _where
from noetl.engine.state import Status
from noetl.errors import NotFound
from noetl.ports import ExecutionFilter
from tests.unit.adapters.sqlite_files import AT, append, begun, on_file, opened

MADE: list[tuple[str, str, Status]] = [
    ("0199-aa", "p", "ok"),
    ("0199-ab", "q", "running"),
    ("0200-aa", "p", "error"),
    ("0200", "q", "paused"),
]


async def fill(database: Database) -> None:
    """Four executions, a second apart, so that the last one of MADE is the newest."""
    holding, store = SqliteOwnership(database), SqliteStore(database)
    for place, (execution_id, path, status) in enumerate(MADE):
        first = append(execution_id, 1, await holding.hold(execution_id), path=path)
        second = append(execution_id, 2, first.owner, status=status)
        at = AT + timedelta(seconds=place)
        assert await store.append([replace(first, at=at), replace(second, at=at)]) == [None, None]


def test_executions_are_listed_newest_first_by_page_status_and_path(tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        await fill(database)
        listing = SqliteListing(database)

        async def ids(limit: int = 100, before: str | None = None, **wanted: Any) -> list[str]:
            found = await listing.executions(limit, ExecutionFilter(**wanted), before=before)
            return [head.execution_id for head in found]

        assert await ids() == ["0200", "0200-aa", "0199-ab", "0199-aa"]
        assert await ids(limit=2) == ["0200", "0200-aa"]
        assert await ids(limit=2, before="0200-aa") == ["0199-ab", "0199-aa"]
        assert await ids(open_only=True) == ["0200", "0199-ab"]
        assert await ids(status="error") == ["0200-aa"]
        assert await ids(path="p") == ["0200-aa", "0199-aa"]
        assert await ids(path="p", status="ok", before="0200") == ["0199-aa"]
        assert await ids(before="nobody") == []

    on_file(tmp_path / "noetl.db", work)


def test_open_executions_are_found_by_their_index(tmp_path: Path) -> None:
    with opened(tmp_path / "noetl.db") as database:
        query = "SELECT execution_id FROM heads WHERE heads.status NOT IN ('ok', 'error', 'cancelled') ORDER BY started_at DESC, execution_id DESC"
        plan = " ".join(row[3] for row in database.fetch(f"EXPLAIN QUERY PLAN {query}"))
        assert "heads_open" in plan
        assert "TEMP B-TREE" not in plan


@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        (ExecutionFilter(waiting=True), "heads_waiting"),
        (ExecutionFilter(status="error"), "heads_failed"),
        (ExecutionFilter(path="p"), "heads_by_path (path=?)"),
        (ExecutionFilter(path="p", search="x"), "heads_by_path (path=?)"),
        (ExecutionFilter(since=AT, until=AT), "heads_by_start (started_at>? AND started_at<?)"),
    ],
)
def test_filtered_lists_use_their_index_and_sort_nothing(tmp_path: Path, wanted: ExecutionFilter, index: str) -> None:
    with opened(tmp_path / "noetl.db") as database:
        where, values = _where(wanted)
        query = f"EXPLAIN QUERY PLAN {_SELECT} {where} {_NEWEST_FIRST}"
        plan = " ".join(row[3] for row in database.fetch(query, (*values, 100)))
        assert f"heads USING INDEX {index}" in plan
        assert "TEMP B-TREE" not in plan


def test_children_are_found_by_their_index(tmp_path: Path) -> None:
    with opened(tmp_path / "noetl.db") as database:
        query = f"EXPLAIN QUERY PLAN {_SELECT} {_CHILDREN}"
        plan = " ".join(row[3] for row in database.fetch(query, ("e",)))
        assert "SEARCH heads USING INDEX heads_by_parent" in plan


def test_a_head_says_how_an_execution_stands_and_whether_its_process_lives(tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        with opened(database.path) as other:
            await begun(other, "e")
            head = await SqliteListing(database).head("e")
            assert (head.path, head.digest, head.status, head.seq) == ("p", "d", "running", 1)
            assert (head.started_at, head.updated_at, head.parent) == (AT, AT, None)
            assert head.owner_alive
        assert not (await SqliteListing(database).head("e")).owner_alive
        with pytest.raises(NotFound, match="no execution missing"):
            await SqliteListing(database).head("missing")

    on_file(tmp_path / "noetl.db", work)


def test_an_id_may_be_shortened(tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        await fill(database)
        listing = SqliteListing(database)
        assert await listing.find("0199-aa") == ["0199-aa"]
        assert await listing.find("0200-") == ["0200-aa"]
        assert await listing.find("0199") == ["0199-aa", "0199-ab"]
        assert await listing.find("0200") == ["0200"], "the whole id, and not what begins with it"
        assert await listing.find("02%") == []
        assert len(await listing.find("")) == 4

    on_file(tmp_path / "noetl.db", work)


def test_the_last_is_the_one_that_started_last(tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        with pytest.raises(NotFound, match="no execution has been started"):
            await SqliteListing(database).last()
        await fill(database)
        assert await SqliteListing(database).last() == "0200"

    on_file(tmp_path / "noetl.db", work)
