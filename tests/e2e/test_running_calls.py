"""What a user sees of a call while it runs, after its process was killed, and when its step times out (D93, D94)."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.processes import Workspace
from tests.playbooks import HEAD

# A pure task, then a quick one, then one that waits for a file.
PIPELINE = (
    HEAD
    + """\
workload: {flag: ""}
workflow:
- step: start
  tool:
  - {name: shape, kind: noop, input: {n: 1}}
  - {name: quick, kind: shell, argv: ["true"]}
  - {name: again, kind: noop}
  - name: wait_for_file
    kind: shell
    input: {argv: [sh, -c, 'until [ -e "$0" ]; do sleep 0.05; done', "{{ workload.flag }}"]}
"""
)
TIMED = PIPELINE.replace("- step: start\n", "- step: start\n  spec: {policy: {lifecycle: {timeout_s: 1}}}\n").replace(
    '  - {name: quick, kind: shell, argv: ["true"]}\n', ""
)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def events(workspace: Workspace, id: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in workspace.call("events", id, "--format", "jsonl").stdout.splitlines()]


def test_a_running_task_is_shown_and_logged_whatever_came_before_it(workspace: Workspace, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    with workspace.started("run", workspace.write(PIPELINE), "--set", f"flag={flag}") as run:
        id = run.read_until("▶ start")[0]
        with workspace.started("events", id, "--follow") as log:
            assert log.read_until("wait_for_file")[-1].split()[3:6] == ["task.started", "start#1/4", "wait_for_file"]
        shown = workspace.call("show", id).stdout
        _, document = workspace.json("show", id)
        flag.touch()
        assert run.end()[0] == 0
    assert "wait_for_file  running for " in shown
    assert f"(process {run.process.pid})" in shown
    [step] = document["steps"]
    assert (step["status"], step["calls"]) == ("running", 3)
    [running] = step["running"]
    assert (running["id"], running["task"]) == ("start#1/4", "wait_for_file")
    assert running["duration_s"] >= 0.5
    # The start of each task is shown once, the long one with an event of its own.
    names = [(each["name"], each.get("task_label"), each.get("part", 0)) for each in events(workspace, id)]
    starts = [name for name in names if name[0] == "task.started"]
    assert starts[-1] == ("task.started", "wait_for_file", 0)
    assert len(starts) == 4
    assert "running" not in workspace.json("show", id)[1]["steps"][0]


def test_the_timeout_of_a_step_counts_from_its_begin_although_its_first_tasks_are_pure(workspace: Workspace) -> None:
    code, document = workspace.json("run", workspace.write(TIMED), "--set", "flag=never")
    assert code == 1
    assert document["error"]["message"] == "start#1 timed out after 1 s (lifecycle.timeout_s)"
    assert document["duration_s"] < 30
    started = next(each for each in events(workspace, document["execution_id"]) if each["name"] == "step.started")
    assert started["data"]["timeout_at"]


def test_a_killed_process_leaves_a_trace_of_the_call_it_was_in(workspace: Workspace, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    with workspace.started("run", workspace.write(PIPELINE), "--set", f"flag={flag}") as run:
        id = run.read_until("▶ start")[0]
        with workspace.started("events", id, "--follow") as log:
            log.read_until("wait_for_file")
        run.process.send_signal(signal.SIGKILL)
        run.end()
    killed = f"process {run.process.pid}"
    assert f"wait_for_file  was running ({killed})" in workspace.call("show", id).stdout
    flag.touch()
    code, document = workspace.json("resume", id)
    assert (code, document["status"], document["steps"][0]["lost"]) == (0, "ok", 1)
    [lost] = [each for each in events(workspace, id) if each["name"] == "frame.lost"]
    assert (lost["entity_id"], lost["task_label"], lost["data"]["worker"]) == ("start#1", "wait_for_file", killed)
    assert "1 lost worker" in workspace.call("show", id).stdout
    assert workspace.call("audit").returncode == 0
