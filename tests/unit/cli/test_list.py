"""`noetl list`, on a real file."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from noetl.runtime.embedded import open_embedded, open_local_store
from noetl.testing import FakeClock
from tests.unit.cli.executed import (
    AT,
    CALLING,
    ENDED,
    LEFT,
    calling_file,
    changed,
    large_file,
    mixed_file,
    parked,
)
from tests.unit.cli.invoke import run_list

LINE: dict[str, object] = {"path": "demo/mixed", "started": "2024-01-02T03:04:05Z", "called_by": None, "labels": {}}
RULE = {"kind": "rule", "message": 'rule else of task "flaky_task" says fail'}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> str:
    return mixed_file(tmp_path_factory.mktemp("listing"))


def test_executions_are_listed_newest_first_and_those_that_nobody_runs_are_interrupted(
    mixed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_list("plain", mixed) == 0
    assert capsys.readouterr().out.splitlines() == [
        "ID             PATH        STATUS       STARTED     DURATION",
        "0199b3c2-0004  demo/mixed  interrupted  2024-01-02  0.00 s",
        "0199b3c2-0000  demo/mixed  error        2024-01-02  0.00 s",
    ]


def test_json_is_an_array_of_what_show_gives_without_the_steps_and_of_what_the_lines_say(
    mixed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """D79."""
    assert run_list("json", mixed) == 0
    assert json.loads(capsys.readouterr().out) == [
        {
            "execution_id": LEFT,
            **LINE,
            "status": "interrupted",
            "output": None,
            "error": None,
            "duration_s": 0.0,
        },
        {
            "execution_id": ENDED,
            **LINE,
            "status": "error",
            "output": {"status": "error", "data": {"by": "hi"}, "error": RULE},
            "error": {**RULE, "step": "flaky", "run": "flaky#1"},
            "duration_s": 0.0,
        },
    ]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (["--status", "interrupted"], [LEFT]),
        (["--status", "error"], [ENDED]),
        (["--status", "running"], []),
        (["--status", "error, interrupted"], [LEFT, ENDED]),
        (["--path", "demo/*"], [LEFT, ENDED]),
        (["--path", "demo/other"], []),
        (["--since", "4w"], []),  # both started years ago
        (["--since", "5000w"], [LEFT, ENDED]),
        (["--open"], [LEFT]),
        (["--limit", "1"], [LEFT]),
    ],
)
def test_only_what_was_asked_for_is_listed(
    mixed: str, wanted: list[str], found: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_list("json", mixed, *wanted) == 0
    assert [each["execution_id"] for each in json.loads(capsys.readouterr().out)] == found


def test_an_execution_that_went_well_is_listed_with_its_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = large_file(tmp_path)
    assert run_list("json", db) == 0
    (document,) = json.loads(capsys.readouterr().out)
    assert (document["status"], document["error"], document["duration_s"]) == ("ok", None, 0.0)
    assert document["output"]["ref"]["type"] == "blob"


def test_a_log_that_is_damaged_does_not_hide_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    db = mixed_file(tmp_path)
    changed(db, "DELETE FROM log WHERE execution_id = ? AND first_seq = 1", ENDED)
    assert run_list("json", db) == 0
    documents = json.loads(capsys.readouterr().out)
    assert [(each["status"], (each["error"] or {}).get("kind")) for each in documents] == [
        ("interrupted", None),
        ("error", "damaged"),
    ]


def test_executions_that_another_has_called_say_which_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    db = calling_file(tmp_path)
    assert run_list("plain", db) == 0
    titles, *rows = capsys.readouterr().out.splitlines()
    assert titles.split() == ["ID", "PATH", "STATUS", "STARTED", "DURATION", "CALLED", "BY"]
    assert sorted(row.split()[1:3] + row.split()[6:] for row in rows) == [
        ["demo/caller", "ok"],
        ["demo/child", "ok", CALLING[:13]],
    ]
    assert run_list("json", db) == 0
    assert {each["path"]: each["called_by"] for each in json.loads(capsys.readouterr().out)} == {
        "demo/caller": None,
        "demo/child": CALLING,
    }


def test_roots_leave_out_executions_that_another_has_called(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_list("json", calling_file(tmp_path), "--roots") == 0
    assert [each["path"] for each in json.loads(capsys.readouterr().out)] == ["demo/caller"]


@pytest.mark.parametrize(
    ("wanted", "words"),
    [(["--status", "error,done"], '--status "done" is unknown'), (["--since", "soon"], '--since "soon" is not')],
)
def test_unknown_words_are_refused(
    mixed: str, wanted: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_list("plain", mixed, *wanted) == 2
    assert words in capsys.readouterr().err


def test_an_execution_that_a_process_has_is_running(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def look() -> None:
        async with open_embedded(tmp_path / "own.db", clock=FakeClock(AT), slots=1) as runtime:
            await parked(runtime, LEFT)
            await asyncio.to_thread(run_list, "json", str(tmp_path / "own.db"), "--status", "running")

    asyncio.run(look())
    (document,) = json.loads(capsys.readouterr().out)
    assert (document["execution_id"], document["status"]) == (LEFT, "running")


def test_a_file_that_is_not_there_lists_nothing_and_is_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = tmp_path / "none.db"
    assert run_list("json", str(db)) == 0
    assert capsys.readouterr() == ("[]\n", "")
    assert run_list("plain", str(db)) == 0
    said = f"nothing has run here yet; start with: noetl run FILE --db {db}\n"
    assert (capsys.readouterr(), db.exists()) == (("", said), False)


def test_an_empty_file_says_how_to_begin_and_one_without_what_was_asked_for_says_that(
    mixed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = tmp_path / "empty.db"
    open_local_store(db).close()
    assert run_list("plain", str(db)) == 0
    assert capsys.readouterr() == ("", f"nothing has run here yet; start with: noetl run FILE --db {db}\n")
    assert run_list("plain", mixed, "--status", "ok") == 0
    assert capsys.readouterr() == ("", "nothing to list: no execution matches\n")
