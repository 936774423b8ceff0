"""Processes that are interrupted, killed and resumed: what was done is done once, and continues."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.e2e.processes import NOETL, PATIENCE_S, Workspace
from tests.playbooks import HEAD


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def hint(id: str) -> str:
    return f"noetl: interrupted: nothing is lost; continue with: noetl resume {id[:18]}"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_cleanly_and_resume_goes_on(number: signal.Signals, workspace: Workspace) -> None:
    """The call that runs when the signal comes has time to end: the flag comes after it."""
    arguments, flag, log = workspace.slow()
    with workspace.started(*arguments) as run:
        id = run.read_until("▶ slow")[0]
        run.process.send_signal(number)
        assert run.error_line() == ("noetl: stopping: running calls have 5 s; press Ctrl-C again to stop immediately")
        flag.touch()
        code, _, stderr = run.end()
    assert (code, stderr) == (130, hint(id) + "\n")
    assert log.read_text() == "start "
    code, document = workspace.json("resume", id[:18])
    assert (code, document["status"], log.read_text()) == (0, "ok", "start after ")
    # What was done before the signal is not done again: not even the call that ran when it came.
    assert [(step["id"], step["calls"]) for step in document["steps"]] == [
        ("start#1", 1), ("slow#1", 1), ("after#1", 1),
    ]  # fmt: skip


def test_a_second_signal_stops_at_once_and_nothing_is_lost(workspace: Workspace) -> None:
    arguments, flag, log = workspace.slow()
    with workspace.started(*arguments) as run:
        id = run.read_until("▶ slow")[0]
        run.process.send_signal(signal.SIGINT)
        run.error_line()
        run.process.send_signal(signal.SIGINT)
        assert run.end()[0::2] == (130, hint(id) + "\n")
    flag.touch()
    code, document = workspace.json("resume", "last")
    assert (code, document["execution_id"], document["status"]) == (0, id, "ok")
    assert log.read_text() == "start after "


def test_an_interrupted_run_still_gives_its_one_document(workspace: Workspace) -> None:
    arguments, _, _ = workspace.slow()
    with workspace.started(*arguments, "--format", "json") as run:
        assert run.process.stderr is not None
        lines = iter(run.process.stderr)
        id = next(lines).rstrip("\n")
        assert any("▶ slow" in line for line in lines)
        run.process.send_signal(signal.SIGINT)
        assert any("stopping" in line for line in lines)
        run.process.send_signal(signal.SIGINT)
        code, stdout, stderr = run.end()
    document = json.loads(stdout)
    assert (code, document["execution_id"], document["status"], stderr) == (
        130, id, "interrupted", hint(id) + "\n",
    )  # fmt: skip
    assert [step["id"] for step in document["steps"]] == ["start#1", "slow#1"]
    assert document["steps"][0]["status"] == "ok"
    # The start of a call is reported only when the call takes long.
    assert document["steps"][1]["status"] in ("scheduled", "running")


def test_a_process_that_was_killed_is_taken_over_and_its_children_too(workspace: Workspace) -> None:
    arguments, flag, log = workspace.slow()
    text = HEAD.replace("path: t", "path: parent") + (
        "workload: {flag: '', log: ''}\nworkflow:\n- step: start\n"
        "  tool: {kind: playbook, path: t.yaml, input: {flag: '{{ workload.flag }}', log: '{{ workload.log }}'}}\n"
    )
    arguments[1] = workspace.write(text, "parent.yaml")
    with workspace.started(*arguments) as run:
        id = run.read_until("… start")[0]
        while "start" not in (log.read_text() if log.exists() else ""):
            os.sched_yield()  # there is nothing to wait for but the file of the child
        run.process.kill()
        assert run.end()[0] == -9
    flag.touch()
    code, document = workspace.json("resume", id)
    assert (code, document["status"], document["steps"][0]["status"]) == (0, "ok", "ok")
    assert log.read_text().split()[-1] == "after"


def test_what_a_living_process_has_is_left_alone(workspace: Workspace) -> None:
    arguments, flag, _ = workspace.slow()
    with workspace.started(*arguments) as run:
        id = run.read_until("▶ slow")[0]
        code, document = workspace.json("resume", id)
        assert (code, document["status"], document["error"]["kind"]) == (1, "running", "held")
        assert f"process {run.process.pid} holds " in document["error"]["message"]
        flag.touch()
        assert run.end()[0] == 0


def test_what_has_ended_is_shown_by_resume_and_keeps_its_exit_code(workspace: Workspace) -> None:
    file = workspace.write(HEAD + "workflow:\n- {step: start, tool: {kind: noop, input: {n: 1}}}\n")
    _, document = workspace.json("run", file)
    done = workspace.call("resume", "last", "--format", "json")
    assert (done.returncode, json.loads(done.stdout), done.stderr) == (
        0, document, "noetl: the execution has already ended: ok\n",
    )  # fmt: skip


def test_ids_may_be_shortened_while_they_are_clear(workspace: Workspace) -> None:
    file = workspace.write(HEAD + "workflow:\n- {step: start, tool: {kind: noop, input: {n: 1}}}\n")
    ids = [workspace.json("run", file)[1]["execution_id"] for _ in range(2)]
    assert workspace.json("resume", ids[0][:18])[1]["execution_id"] == ids[0]
    assert workspace.json("resume", "last")[1]["execution_id"] == ids[1]
    code, document = workspace.json("resume", "0")
    assert (code, document["error"]["kind"]) == (2, "usage")
    assert all(id in document["error"]["message"] for id in ids)
    for given in ("ffff", "x'; --", ""):
        assert workspace.json("resume", given)[0] == 2


def test_without_a_database_there_is_nothing_to_resume_and_none_is_made(workspace: Workspace) -> None:
    code, document = workspace.json("resume", "last")
    assert (code, document["error"]["kind"], workspace.db.exists()) == (2, "usage", False)


def test_a_full_disk_is_told_after_a_while_and_nothing_is_lost(workspace: Workspace) -> None:
    """The limit on the size of a file stands for the disk: the first commits fit, the last do not."""
    loop = '{in: "{{ range(200) }}", iterator: n}'
    tool = """{kind: noop, input: {text: "{{ 'x' | center(2000) }}"}}"""
    file = workspace.write(HEAD + f"workflow:\n- step: start\n  loop: {loop}\n  tool: {tool}\n")
    limited = ["prlimit", "--fsize=400000", str(NOETL), "run", str(file), "--format", "json"]
    done = subprocess.run(
        limited, capture_output=True, text=True, check=False, env=workspace.environment, timeout=PATIENCE_S
    )
    document = json.loads(done.stdout)
    id = document["execution_id"]
    assert (done.returncode, document["status"], document["error"]["kind"]) == (
        3,
        "interrupted",
        "unavailable",
    )
    assert done.stderr.splitlines()[-1] == f"noetl: nothing is lost; continue with: noetl resume {id[:18]}"
    code, document = workspace.json("resume", id)
    assert (code, document["status"], document["steps"][0]["calls"]) == (0, "ok", 200)
