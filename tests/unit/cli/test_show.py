"""`noetl show`, on a real file."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path

import pytest

from noetl.runtime.embedded import open_embedded
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
from tests.unit.cli.invoke import run_show

NOW = "2024-01-02T03:04:05Z"
RULE = {"kind": "rule", "message": 'rule else of task "flaky_task" says fail'}
RAN = {"status": "ok", "started": NOW, "ended": NOW, "duration_s": 0.0}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> str:
    return mixed_file(tmp_path_factory.mktemp("overview"))


def shown(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_a_tree_has_runs_with_times_errors_in_their_place_and_tokens_that_wait(
    mixed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_show(ENDED, "plain", mixed) == 0
    assert shown(capsys) == [
        f"{ENDED}  demo/mixed",
        "error after 0.00 s, started 2024-01-02 03:04:05Z (2024-01-02)",
        "├─ ✓ start#1    0.00 s",
        "├─ ✓ each#1     0.00 s  2 of 2 iterations",
        "├─ ✓ ask#1      0.00 s",
        "├─ ✗ flaky#1    0.00 s  1 retry",
        '│  └─ rule: rule else of task "flaky_task" says fail',
        "└─ ◌ start#1>1  a token to gate",
        "   └─ was never admitted; its rules read ctx.open",
        "",
        'error in flaky#1  rule: rule else of task "flaky_task" says fail',
    ]


def test_one_that_was_left_says_what_it_waits_for_and_how_to_go_on(
    mixed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_show("last", "plain", mixed) == 0
    assert shown(capsys) == [
        f"{LEFT}  demo/mixed",
        "interrupted after 0.00 s, started 2024-01-02 03:04:05Z (2024-01-02)",
        "├─ ✓ start#1    0.00 s",
        "├─ ✓ each#1     0.00 s  2 of 2 iterations",
        "├─ ▸ ask#1      0.00 s",
        "│  └─ waits for the signal approve",
        f"│     └─ noetl signal 0199b3c2-0004-7000 approve --db {mixed}",
        "└─ ◌ start#1>1  a token to gate",
        "   └─ is not admitted; tried again when ctx.open changes",
        f"no process runs it: continue with noetl resume 0199b3c2-0004-7000 --db {mixed}",
    ]


def test_json_is_the_whole_document(mixed: str, capsys: pytest.CaptureFixture[str]) -> None:
    """D76."""
    assert run_show(ENDED[:13], "json", mixed) == 0
    assert json.loads(capsys.readouterr().out) == {
        "execution_id": ENDED,
        "status": "error",
        "output": {"status": "error", "data": {"by": "hi"}, "error": RULE},
        "error": {**RULE, "step": "flaky", "run": "flaky#1"},
        "duration_s": 0.0,
        "steps": [
            {"id": "start#1", "step": "start", **RAN, "calls": 1},
            {
                "id": "each#1",
                "step": "each",
                **RAN,
                "iterations": {"count": 2, "succeeded": 2, "failed": 0},
                "calls": 2,
            },
            {"id": "ask#1", "step": "ask", **RAN, "calls": 1},
            {
                "id": "flaky#1",
                "step": "flaky",
                **RAN,
                "status": "error",
                "calls": 2,
                "retries": 1,
                "error": RULE,
            },
            {
                "id": "start#1>1",
                "step": "gate",
                "status": "waiting",
                "why": "was never admitted; its rules read ctx.open",
            },
        ],
    }


def test_an_execution_that_was_called_stands_below_the_step_that_called_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_show(CALLING, "plain", calling_file(tmp_path)) == 0
    lines = shown(capsys)
    child = lines[3].split()[3]
    assert lines == [
        f"{CALLING}  demo/caller",
        "ok after 0.00 s, started 2024-01-02 03:04:05Z (2024-01-02)",
        "└─ ✓ start#1  0.00 s",
        f"   └─ calls demo/child {child}  ok  0.00 s",
        "      └─ ✓ start#1  0.00 s",
        "",
        "output",
        "  text: hello, you",
    ]


def test_an_output_that_is_stored_is_not_fetched_but_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    db = large_file(tmp_path)
    assert run_show("last", "plain", db) == 0
    assert shown(capsys)[-2:] == ["output", f"  it is large: noetl output 0199b3c2-0001-7000 --db {db}"]


def test_one_that_runs_says_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    db = str(tmp_path / "own.db")

    async def look() -> None:
        async with open_embedded(tmp_path / "own.db", clock=FakeClock(AT), slots=1) as runtime:
            await parked(runtime, LEFT)
            await asyncio.to_thread(run_show, LEFT, "plain", db)

    asyncio.run(look())
    headline = shown(capsys)[1]
    assert headline.startswith("running for ")
    assert headline.endswith(f", in process {os.getpid()}")


def test_a_log_that_can_not_be_folded_is_damaged_and_no_bug(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    db = mixed_file(tmp_path)
    changed(db, "DELETE FROM log WHERE execution_id = ? AND first_seq = 1", ENDED)
    assert run_show(ENDED, "plain", db) == 3
    assert re.search(f"cannot be read .*: see noetl audit {ENDED}", capsys.readouterr().err)


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_show("last", "plain", str(tmp_path / "none.db")) == 2
    assert re.search("there is no such database", capsys.readouterr().err)
    assert list(tmp_path.iterdir()) == []
