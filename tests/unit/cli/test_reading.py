"""What the commands that only look have in common."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from noetl.engine.state import Status
from noetl.runtime.embedded import open_embedded
from noetl.session.protocol import ExecutionInfo, Standing
from tests.unit.cli.executed import AT, LEFT, started
from tests.unit.cli.invoke import (
    run_audit,
    run_events,
    run_explain_execution,
    run_list,
    run_output,
    run_replay,
    run_show,
    run_state,
)

HOSTILE = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: t, path: "evil/\\e[2J"}
workload: {text: "\\e]0;forged\\a \\u202e \\x9b31m"}
workflow:
- step: start
  tool: {kind: noop, input: {"key\\e[31m": "{{ workload.text }}"}}
  set: {ctx.a: "{{ workload.text }}"}
"""
OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")


@pytest.mark.parametrize(
    ("status", "alive", "standing"),
    [
        ("new", True, "running"),
        ("running", True, "running"),
        ("running", False, "interrupted"),
        ("cancelling", False, "interrupted"),
        ("paused", False, "paused"),
        ("ok", False, "ok"),
        ("cancelled", True, "cancelled"),
    ],
)
def test_what_nobody_runs_and_has_not_ended_is_interrupted(status: Status, alive: bool, standing: Standing) -> None:
    info = ExecutionInfo("e", "p", "d", status, 3, AT, AT, None, 7, alive)
    assert info.standing == standing


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("looking") / "hostile.db"

    async def fill() -> None:
        async with open_embedded(path) as runtime:
            await started(runtime, HOSTILE, LEFT)
            await runtime.wait_until_idle(LEFT)

    asyncio.run(fill())
    return str(path)


@pytest.mark.parametrize(
    "command",
    [
        lambda db: run_list("plain", db),
        lambda db: run_list("json", db),
        lambda db: run_show(LEFT, "plain", db),
        lambda db: run_show(LEFT, "json", db),
        lambda db: run_events(LEFT, "plain", 1, db),
        lambda db: run_events(LEFT, "jsonl", 1, db),
        lambda db: run_state(LEFT, None, "plain", db),
        lambda db: run_output(LEFT, None, db, raw=False),
        lambda db: run_replay(LEFT, "plain", db),
        lambda db: run_audit(LEFT, "plain", db),
        lambda db: run_explain_execution(LEFT, "start", db, "plain"),
    ],
)
def test_no_command_lets_data_speak_to_a_terminal(
    hostile: str, command: Callable[[str], int], capfd: pytest.CaptureFixture[str]
) -> None:
    assert command(hostile) == 0
    out = capfd.readouterr().out
    assert (bool(out), OBEYED.findall(out)) == (True, [])
