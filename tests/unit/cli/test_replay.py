"""`noetl replay`, on a real file."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from noetl.control.run_records import records_schema
from noetl.engine.snapshot import freeze, schema
from noetl.ports import Snapshot
from noetl.runtime.embedded import open_local_store
from noetl.slices import in_slices
from noetl.views.documents import read_runs
from noetl.views.log import events_of, folded
from noetl.views.runs import Runs
from noetl.views.stored_runs import freeze_runs
from tests.unit.cli.executed import ENDED, changed, mixed_file
from tests.unit.cli.invoke import run_replay


def keep(db: str, seq: int, *, schema: str = schema(), word: str = "hi") -> None:
    """A snapshot after a fact, with a workload that may be another than the log's."""

    async def work() -> None:
        disk = open_local_store(Path(db))
        try:
            state = folded(ENDED, events_of(await disk.store.read(ENDED)), up_to=seq)
            state.workload = {**state.workload, "word": word}
            await disk.store.keep(ENDED, Snapshot(seq, schema, freeze(state)))
        finally:
            disk.close()

    asyncio.run(work())


def test_a_log_that_says_what_is_shown_is_identical(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    db = mixed_file(tmp_path)
    assert run_replay(ENDED, "plain", db) == 0
    assert capsys.readouterr().out == f"{ENDED}: 33 facts, identical\n"
    keep(db, 20)
    assert run_replay(ENDED, "plain", db) == 0
    assert capsys.readouterr().out == f"{ENDED}: 33 facts, identical, with the snapshot at 20\n"


def test_a_snapshot_that_is_not_what_the_log_says_is_told_path_by_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = mixed_file(tmp_path)
    keep(db, 20, word="another")
    assert run_replay(ENDED, "json", db) == 1
    different = {"kept": "snapshot", "path": 'workload["word"]', "folded": '"hi"', "other": '"another"'}
    assert json.loads(capsys.readouterr().out) == {
        "execution_id": ENDED,
        "facts": 33,
        "snapshot": 20,
        "records": None,
        "identical": False,
        "differences": [{**different, "at": 20}, {**different, "at": 33}],
    }


def keep_records(db: str, schema: str, body: Callable[[Runs], Runs]) -> None:
    """A copy of the run records after the last fact."""

    async def work() -> None:
        disk = open_local_store(Path(db))
        try:
            runs = body(read_runs(ENDED, events_of(await disk.store.read(ENDED))))
            copy = Snapshot(runs.state.seq, schema, await in_slices(freeze_runs(runs)))
            await disk.store.keep(ENDED, copy, "records")
        finally:
            disk.close()

    asyncio.run(work())


def test_run_records_are_compared_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def changed_records(runs: Runs) -> Runs:
        next(iter(runs.steps.values())).calls += 1
        return runs

    db = mixed_file(tmp_path)
    keep(db, 20)
    keep_records(db, records_schema(), lambda runs: runs)
    assert run_replay(ENDED, "plain", db) == 0
    found = f"{ENDED}: 33 facts, identical, with the snapshot at 20 and the run records at 33\n"
    assert capsys.readouterr().out == found
    keep_records(db, records_schema(), changed_records)
    assert run_replay(ENDED, "plain", db) == 1
    assert "  records at 33: steps[0].calls\n    by the log 1\n    stored     2\n" in capsys.readouterr().out
    keep_records(db, "older", changed_records)
    assert run_replay(ENDED, "plain", db) == 0
    changed(db, "UPDATE run_records SET schema = ?, body = ?", records_schema(), b"{")
    assert run_replay(ENDED, "plain", db) == 1
    assert "records at 33:\n    by the log (nothing)\n    stored     cannot be read" in capsys.readouterr().out


def test_a_snapshot_of_another_shape_is_not_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    db = mixed_file(tmp_path)
    keep(db, 20, schema="older", word="another")
    assert run_replay(ENDED, "plain", db) == 0
    assert capsys.readouterr().out == f"{ENDED}: 33 facts, identical\n"


def test_a_snapshot_that_can_not_be_read_is_a_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    db = mixed_file(tmp_path)
    changed(db, "INSERT INTO snapshots VALUES (?, ?, ?, ?)", ENDED, 20, schema(), b"{")
    assert run_replay(ENDED, "plain", db) == 1
    assert capsys.readouterr().out.splitlines()[0] == f"{ENDED}: 33 facts, 1 difference, with the snapshot at 20"


def test_a_head_that_says_something_else_than_the_log_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = mixed_file(tmp_path)
    changed(db, "UPDATE heads SET status = 'ok' WHERE execution_id = ?", ENDED)
    assert run_replay(ENDED, "plain", db) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{ENDED}: 33 facts, 1 difference",
        "  head at 33: status",
        "    by the log error",
        "    stored     ok",
    ]
