"""`noetl gc` deletes unused results, and no result that a log refers to (D53)."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from noetl.adapters.sqlite.ownership import SqliteOwnership
from noetl.clock import SystemClock
from noetl.engine.facts import Fact, Finished, LoopStarted, Processed, Requested, TaskDone
from noetl.engine.state import Status
from noetl.output import JSON, Output
from noetl.paging import put_pages
from noetl.ports import Append
from noetl.runtime.embedded import LocalStore, open_local_store
from noetl.worker.result_stores import ResultPolicy
from tests.unit.cli.invoke import run_gc

OLD = timedelta(days=3)
BODY = b'"' + b"x" * 70_000 + b'"'


class Cellar:
    """A database with executions in it that ended three days ago, unless said otherwise."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "noetl.db"
        self.files = folder / "noetl.db-results"

    def do(self, work: Callable[[LocalStore], Awaitable[Any]]) -> Any:
        async def main() -> Any:
            disk = open_local_store(self.path)
            try:
                return await work(disk)
            finally:
                disk.close()

        return asyncio.run(main())

    def record(
        self, id: str, *facts: Fact, status: Status = "ok", age: timedelta = OLD, parent: str | None = None
    ) -> None:
        async def work(disk: LocalStore) -> None:
            at = SystemClock().now() - age
            first = Requested(path="p", digest="d", parent=parent)
            number = await SqliteOwnership(disk.database).hold(id)
            assert await disk.store.append([Append(id, 1, at, (first, *facts), number, status)]) == [None]

        self.do(work)

    def put(self, id: str, body: bytes = BODY, kind: str = "files", age: timedelta = OLD) -> dict[str, JSON]:
        async def work(disk: LocalStore) -> dict[str, JSON]:
            return await disk.results.select({"kind": kind}).put(id, body, "application/json")

        ref: dict[str, JSON] = self.do(work)
        self.age(age)
        return ref

    def age(self, age: timedelta) -> None:
        then = (SystemClock().now() - age).timestamp()
        for file in self.files.rglob("*"):
            if file.is_file():
                os.utime(file, (then, then))

        async def work(disk: LocalStore) -> None:
            if disk.database.fetch("SELECT 1 FROM sqlite_schema WHERE name = 'results'"):
                await disk.database.writer.write(
                    lambda cursor: cursor.execute("UPDATE results SET at = ?", (int(then * 1e6),))
                )

        self.do(work)

    def has(self, ref: dict[str, JSON]) -> bool:
        async def work(disk: LocalStore) -> bool:
            keys = [kept.key for each in disk.results.offered async for kept in each.store.kept()]
            return ref["locator"]["key"] in keys

        found: bool = self.do(work)
        return found


@pytest.fixture
def cellar(tmp_path: Path) -> Cellar:
    return Cellar(tmp_path)


def gc(cellar: Cellar, capsys: pytest.CaptureFixture[str], older_than: str = "24h", *, dry_run: bool = False) -> Any:
    capsys.readouterr()
    assert run_gc(older_than, "json", str(cellar.path), dry_run=dry_run) == 0
    done = json.loads(capsys.readouterr().out)
    assert done["dry_run"] is dry_run
    assert done["bytes"] == sum(each["bytes"] for each in done["dropped"])
    assert done["results"] == len(done["dropped"])
    return {each["key"]: each["why"] for each in done["dropped"]}


def task(ref: dict[str, JSON]) -> TaskDone:
    return TaskDone(frame="a#1", call=1, task="t", directive="continue", next=-1, output=Output(ref=ref))


ENDED = (Finished(status="ok"), Processed(status="ok"))


@pytest.mark.parametrize("kind", ["files", "sqlite"])
def test_an_orphan_of_an_ended_execution_goes_and_what_is_meant_stays(
    kind: str, cellar: Cellar, capsys: pytest.CaptureFixture[str]
) -> None:
    meant, orphan = cellar.put("e", kind=kind), cellar.put("e", b'"orphan"', kind)
    cellar.record("e", task(meant), *ENDED)
    assert gc(cellar, capsys, dry_run=True) == {orphan["locator"]["key"]: "orphan"}
    assert cellar.has(orphan)
    assert gc(cellar, capsys) == {orphan["locator"]["key"]: "orphan"}
    assert (cellar.has(orphan), cellar.has(meant)) == (False, True)
    assert gc(cellar, capsys) == {}


def test_nothing_of_a_live_execution_goes(cellar: Cellar, capsys: pytest.CaptureFixture[str]) -> None:
    cellar.put("e")
    cellar.record("e", status="running")
    assert gc(cellar, capsys, "0s") == {}


def test_nothing_goes_before_the_grace_is_over(cellar: Cellar, capsys: pytest.CaptureFixture[str]) -> None:
    young = cellar.put("e", age=timedelta(hours=1))
    cellar.record("e", *ENDED)
    cellar.record("f", *ENDED, age=timedelta(hours=1))
    assert gc(cellar, capsys) == {}
    assert gc(cellar, capsys, "30m") == {young["locator"]["key"]: "orphan"}


def test_results_of_executions_that_are_not_on_record_go(cellar: Cellar, capsys: pytest.CaptureFixture[str]) -> None:
    gone, called = cellar.put("gone"), cellar.put("called")
    cellar.record("e", task(called), *ENDED)
    assert gc(cellar, capsys) == {gone["locator"]["key"]: "gone"}
    assert cellar.has(called)


def test_the_pages_of_a_list_stay_with_their_index(cellar: Cellar, capsys: pytest.CaptureFixture[str]) -> None:
    async def work(disk: LocalStore) -> dict[str, JSON]:
        return await put_pages(disk.results, "e", [{"text": "x" * 900, "id": id} for id in range(3_000)])

    index = cellar.do(work)
    orphan = cellar.put("e")
    cellar.age(OLD)
    cellar.record("e", LoopStarted(run="a#1", count=3_000, ref=index), *ENDED)
    assert gc(cellar, capsys) == {orphan["locator"]["key"]: "orphan"}
    assert len(list((cellar.files / "e").iterdir())) > 5


def test_when_a_result_can_not_be_read_all_that_it_may_speak_of_stays(
    cellar: Cellar, capsys: pytest.CaptureFixture[str]
) -> None:
    meant = cellar.put("e")
    cellar.put("e", b'"page"')
    cellar.record("e", task(meant), *ENDED)
    (cellar.files / meant["locator"]["key"]).write_bytes(b"spoilt")
    cellar.age(OLD)
    assert gc(cellar, capsys) == {}


def test_what_has_lived_its_time_goes_though_it_is_meant(cellar: Cellar, capsys: pytest.CaptureFixture[str]) -> None:
    async def work(disk: LocalStore) -> list[dict[str, JSON]]:
        return [
            await ResultPolicy(ttl=ttl, compression=how).put(disk.results, "e", b'"%d"' % number + BODY)
            for number, (ttl, how) in enumerate([("1h", "none"), ("30d", "gzip"), ("1d", "gzip"), (None, "none")])
        ]

    short, long, packed, for_ever = cellar.do(work)
    cellar.age(OLD)
    cellar.record("e", *(task(ref) for ref in (short, long, packed, for_ever)), *ENDED, age=timedelta(minutes=5))
    assert gc(cellar, capsys, "90d") == {
        short["locator"]["key"]: "expired",
        packed["locator"]["key"]: "expired",
    }


def test_one_who_says_nothing_of_its_time_keeps_it_for_ever(cellar: Cellar, capsys: pytest.CaptureFixture[str]) -> None:
    ref = cellar.put("e")
    mortal = {**ref, "meta": {**ref["meta"], "ttl": "1h"}}
    cellar.record("e", task(mortal), task(ref), task(mortal), *ENDED)
    assert gc(cellar, capsys) == {}


def test_what_was_never_finished_goes(cellar: Cellar, capsys: pytest.CaptureFixture[str]) -> None:
    cellar.record("e", status="running")
    (cellar.files / "e").mkdir(parents=True)
    (cellar.files / "e" / ".stream.123.4").write_bytes(b"half")
    (cellar.files / "e" / "notes.txt").write_bytes(b"somebody's")
    assert gc(cellar, capsys) == {}
    cellar.age(OLD)
    assert gc(cellar, capsys) == {"e/.stream.123.4": "torn"}
    assert [file.name for file in (cellar.files / "e").iterdir()] == ["notes.txt"]


def test_people_read_what_and_how_much(cellar: Cellar, capsys: pytest.CaptureFixture[str]) -> None:
    cellar.put("e", b"x" * 1_000)
    cellar.put("gone", b"y" * 500)
    cellar.record("e", *ENDED)
    capsys.readouterr()
    run_gc("24h", "plain", str(cellar.path), dry_run=True)
    assert capsys.readouterr().out.splitlines() == [
        "files: 2 results, 1,500 bytes (1 orphan, 1 of a deleted execution)",
        "would delete 2 results, 1,500 bytes",
    ]
    run_gc("24h", "plain", str(cellar.path), dry_run=False)
    assert "deleted 2 results, 1,500 bytes" in capsys.readouterr().out
    run_gc("24h", "plain", str(cellar.path), dry_run=False)
    assert capsys.readouterr().out == "nothing to delete: every result is still needed, or too new\n"


def test_a_time_that_is_none_is_refused(cellar: Cellar, capsys: pytest.CaptureFixture[str]) -> None:
    cellar.record("e", *ENDED)
    assert run_gc("soon", "plain", str(cellar.path), dry_run=True) == 2
    assert re.search("not a duration", capsys.readouterr().err)
