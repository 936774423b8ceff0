"""Limits by key of several processes on one file: an outside server never counts more than the limit permits."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.distributed.effects import effects
from tests.e2e.processes import NOETL, PATIENCE_S, Workspace
from tests.playbooks import HEAD

URL = '"{{ workload.url }}/call/{{ execution_id }}/{{ iter.n }}?counted=shop&ms=20"'
LOOP = "loop: {in: [0, 1, 2, 3, 4, 5], iterator: n, spec: {mode: parallel, max_in_flight: 6}}"
LIMITED = HEAD + (
    'workload: {url: ""}\nworkflow:\n'
    f"- step: start\n  {LOOP}\n"
    f"  tool: {{kind: http, url: {URL}, spec: {{policy: {{limit: {{key: shop, in_flight: 2}}}}}}}}\n"
)
QUEUE = HEAD + (
    "executor: {spec: {policy: {concurrency: {limit: 1, when_full: WHEN}}}}\n"
    'workload: {url: "", gate: ""}\nworkflow:\n'
    '- step: start\n  tool: {kind: http, url: "{{ workload.url }}/gate/{{ workload.gate }}/x?counted=shop"}\n'
)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def started(workspace: Workspace, file: Path, *inputs: str) -> subprocess.Popen[str]:
    command: list[str | Path] = [NOETL, "run", file, *(part for each in inputs for part in ("--set", each))]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=workspace.environment
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    output, _ = process.communicate(timeout=PATIENCE_S)
    return process.returncode, output


def test_processes_share_a_limit_of_calls(workspace: Workspace) -> None:
    file = workspace.write(LIMITED)
    with effects() as outside:
        processes = [started(workspace, file, f"url={outside.url}") for _ in range(4)]
        results = [ended(each) for each in processes]
    assert [code for code, _ in results] == [0] * 4, results
    assert (len(outside.calls), dict(outside.most_at_once)) == (24, {"shop": 2})


def test_a_run_waits_for_the_one_of_another_process(workspace: Workspace) -> None:
    file = workspace.write(QUEUE.replace("WHEN", "queue"))
    with effects() as outside:
        first = started(workspace, file, f"url={outside.url}", "gate=a")
        outside.wait(lambda: len(outside.calls) == 1)
        with workspace.started("run", file, "--set", f"url={outside.url}", "--set", "gate=b") as second:
            second.read_until("waits for the limit of 1 execution")
            outside.open("a")
            outside.open("b")
            assert second.end()[0] == 0
        assert ended(first)[0] == 0
    assert (outside.calls, outside.most_at_once["shop"]) == (["a/x", "b/x"], 1)


def test_a_run_that_is_refused_exits_1(workspace: Workspace) -> None:
    file = workspace.write(QUEUE.replace("WHEN", "refuse"))
    with effects() as outside:
        first = started(workspace, file, f"url={outside.url}", "gate=a")
        outside.wait(lambda: len(outside.calls) == 1)
        refused = workspace.call("run", file, "--set", f"url={outside.url}")
        assert (refused.returncode, "at most 1 execution of this playbook may run" in refused.stderr) == (1, True)
        outside.open("a")
        assert ended(first)[0] == 0
    assert "error" in workspace.call("list").stdout


def test_a_run_continues_the_execution_of_a_process_that_died_and_then_runs(workspace: Workspace) -> None:
    file = workspace.write(QUEUE.replace("WHEN", "queue"))
    with effects() as outside:
        first = started(workspace, file, f"url={outside.url}", "gate=a")
        outside.wait(lambda: len(outside.calls) == 1)
        os.kill(first.pid, signal.SIGKILL)
        ended(first)
        outside.open("a")
        outside.open("b")
        code, output = ended(started(workspace, file, f"url={outside.url}", "gate=b"))
    assert code == 0, output
    assert outside.calls == ["a/x", "a/x", "b/x"]
