"""`noetl pause`, `cancel`, `signal` and `retry` from another process, and when no process has the execution."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from noetl.engine.commands import Signal
from noetl.engine.facts import FrameResumed
from noetl.runtime.embedded import open_local_store
from noetl.session.local_commands import deliver
from tests.e2e.processes import Workspace
from tests.playbooks import HEAD

APPROVAL = (
    HEAD
    + """\
workflow:
- step: start
  tool: {kind: wait, signal: approved}
  next: {arcs: [{step: done}]}
- step: done
  tool: {kind: noop, input: {n: 1}}
"""
)
FLAKY = (
    HEAD
    + """\
workload: {flag: "", log: ""}
workflow:
- step: start
  loop: {in: "{{ range(4) }}", iterator: n}
  tool:
  - name: note
    kind: python
    input: {log: "{{ workload.log }}", n: "{{ iter.n }}"}
    code: |
      def main(log, n):
          open(log, "a").write(f"{n} ")
  - name: ask
    kind: python
    input: {flag: "{{ workload.flag }}", n: "{{ iter.n }}"}
    code: |
      def main(flag, n):
          import os
          if n == 2 and not os.path.exists(flag):
              raise ValueError("not yet")
          return n
"""
)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def statuses(document: dict[str, object]) -> tuple[object, object]:
    return document["execution_id"], document["status"]


def test_cancel_from_another_process_ends_the_execution(workspace: Workspace) -> None:
    """D68."""
    arguments, flag, log = workspace.slow()
    with workspace.started(*arguments) as run:
        id = run.read_until("▶ slow")[0]
        with workspace.started("cancel", id, "--reason", "wrong account", "--format", "json") as cancel:
            said = run.read_until("cancelling")[-1]
            flag.touch()  # the call that runs may still come to its end
            code, stdout, _ = cancel.end()
        assert (code, json.loads(stdout)) == (0, {"execution_id": id, "status": "cancelled"})
        code, stdout, _ = run.end()
    assert said == "cancelling (wrong account): running calls have 10 s"
    assert (code, "cancelled in " in stdout) == (1, True)
    assert log.read_text() == "start "
    done = workspace.call("cancel", id)
    assert (done.returncode, done.stderr) == (1, "noetl: it has ended: cancelled\n")


def test_cancel_of_what_nobody_runs_ends_it_and_begins_nothing(workspace: Workspace) -> None:
    arguments, flag, log = workspace.slow()
    with workspace.started(*arguments) as run:
        id = run.read_until("▶ slow")[0]
        run.process.kill()
        run.end()
    flag.touch()
    assert workspace.json("cancel", "last") == (0, {"execution_id": id, "status": "cancelled"})
    assert log.read_text() == "start "
    code, document = workspace.json("resume", id)
    assert (code, *statuses(document)) == (1, id, "cancelled")


def test_pause_lets_calls_end_and_resume_goes_on(workspace: Workspace) -> None:
    """D67."""
    arguments, flag, log = workspace.slow()
    with workspace.started(*arguments, "--format", "json") as run:
        assert run.process.stderr is not None
        lines = iter(run.process.stderr)
        id = next(lines).rstrip("\n")
        assert any("▶ slow" in line for line in lines)
        assert workspace.json("pause", id) == (0, {"execution_id": id, "status": "paused"})
        assert workspace.json("pause", id)[0] == 0
        flag.touch()
        code, stdout, _ = run.end()
    document = json.loads(stdout)
    assert (code, *statuses(document), log.read_text()) == (130, id, "paused", "start ")
    code, document = workspace.json("resume", id)
    assert (code, *statuses(document), log.read_text()) == (0, id, "ok", "start after ")
    assert [step["calls"] for step in document["steps"]] == [1, 1, 1]


def test_who_takes_the_execution_meanwhile_gets_the_command(workspace: Workspace) -> None:
    """`noetl resume` may begin just after somebody has seen that no process has it."""

    async def told_to_nobody(id: str) -> bool:
        disk = open_local_store(workspace.db)
        try:
            head = (await disk.listing.head(id))._replace(owner_alive=False)
            came = Signal(name="approved", data=None)
            return await deliver(disk, head, came, lambda fact: isinstance(fact, FrameResumed), "")
        finally:
            disk.close()

    with workspace.started("run", workspace.write(APPROVAL)) as run:
        id = run.read_until("… start")[0]
        assert asyncio.run(told_to_nobody(id)) is True
        assert run.end()[0] == 0


def test_pause_of_what_nobody_runs_is_recorded(workspace: Workspace) -> None:
    with workspace.started("run", workspace.write(APPROVAL)) as run:
        id = run.read_until("… start")[0]
        run.process.send_signal(signal.SIGINT)
        assert run.end()[0] == 130
    assert workspace.json("pause", id) == (0, {"execution_id": id, "status": "paused"})
    # A signal that arrives meanwhile is recorded, and takes effect at resume.
    assert workspace.json("signal", id, "approved") == (0, {"execution_id": id, "status": "paused"})
    code, document = workspace.json("resume", id)
    assert (code, *statuses(document)) == (0, id, "ok")


def test_a_signal_reaches_the_process_that_waits_and_brings_its_data(workspace: Workspace) -> None:
    """D83."""
    with workspace.started("run", workspace.write(APPROVAL), "--format", "json") as run:
        assert run.process.stderr is not None
        lines = iter(run.process.stderr)
        id = next(lines).rstrip("\n")
        waits = next(line for line in lines if "waits" in line)
        assert waits == f'… start  waits for the signal "approved": noetl signal {id[:18]} approved\n'
        code, document = workspace.json("signal", id, "aproved")
        assert (code, document["error"]) == (
            1,
            {
                "kind": "nobody-waits",
                "message": 'nothing waits for the signal "aproved" now; it waits for approved',
            },
        )
        assert workspace.json("signal", id, "approved", "--data", "{by: ann}")[0] == 0
        code, stdout, _ = run.end()
    assert (code, json.loads(stdout)["status"]) == (0, "ok")
    code, document = workspace.json("signal", id, "approved")
    assert (code, document["error"]["kind"]) == (1, "execution-over")


def test_data_of_a_signal_that_can_not_be_read_is_wrong_usage(workspace: Workspace) -> None:
    done = workspace.call("signal", "last", "approved", "--data", "{")
    assert (done.returncode, done.stderr.startswith("noetl: --data: ")) == (2, True)


def test_retry_takes_up_what_failed_and_keeps_what_succeeded(workspace: Workspace) -> None:
    """D69, D79."""
    flag, log = workspace.folder / "flag", workspace.folder / "log"
    sets = ["--set", f"flag={flag}", "--set", f"log={log}"]
    code, document = workspace.json("run", workspace.write(FLAKY), *sets)
    id = document["execution_id"]
    assert (code, document["status"], document["steps"][0]["iterations"]) == (
        1, "error", {"count": 4, "succeeded": 2, "failed": 1},
    )  # fmt: skip
    assert workspace.json("retry", "last")[0] == 1
    flag.touch()
    code, document = workspace.json("retry", id[:18])
    assert (code, *statuses(document), document["error"]) == (0, id, "ok", None)
    # The iterations that succeeded are kept, and in the one that failed the task before.
    assert log.read_text() == "0 1 2 3 "
    assert [(step["id"], step.get("retry_of")) for step in document["steps"]] == [
        ("start#1", None), ("start#2", "start#1"), ("start#3", "start#2"),
    ]  # fmt: skip
    code, document = workspace.json("retry", id)
    assert (code, document["error"]["kind"], document["status"]) == (1, "nothing-failed", "ok")


def test_retry_from_the_start_begins_the_failed_iteration_anew(workspace: Workspace) -> None:
    """D69."""
    flag, log = workspace.folder / "flag", workspace.folder / "log"
    workspace.json("run", workspace.write(FLAKY), "--set", f"flag={flag}", "--set", f"log={log}")
    flag.touch()
    assert workspace.json("retry", "last", "--step", "start", "--from-start")[0] == 0
    assert log.read_text() == "0 1 2 2 3 "
    code, document = workspace.json("retry", "last", "--step", "nope")
    assert (code, document["error"]["kind"]) == (1, "unknown-step")


def test_retry_of_one_iteration_leaves_the_others_failed(workspace: Workspace) -> None:
    names = [str(workspace.folder / name) for name in "abc"]
    text = HEAD + (
        "workflow:\n- step: start\n  spec: {policy: {failure: {mode: best_effort, tolerate: 0}}}\n"
        f"  loop: {{in: {json.dumps(names)}, iterator: name, spec: {{mode: parallel}}}}\n"
        '  tool: {kind: shell, argv: [test, -e, "{{ iter.name }}"]}\n'
    )
    assert workspace.json("run", workspace.write(text))[0] == 1
    Path(names[1]).touch()
    code, document = workspace.json("retry", "last", "--step", "start", "--iteration", "1")
    assert code == 1
    assert document["error"]["message"].startswith("2 of 3 iterations failed: [0], [2]; [0] ")
    for name in names:
        Path(name).touch()
    assert workspace.json("retry", "last", "--step", "start", "--iteration", "0", "--iteration", "2")[0] == 0
    alone = workspace.call("retry", "last", "--iteration", "1")
    assert (alone.returncode, "--iteration needs --step" in alone.stderr) == (2, True)


def test_retry_after_an_error_in_a_template_says_that_it_uses_the_old_text(workspace: Workspace) -> None:
    broken = (
        HEAD + "workflow:\n- step: start\n  tool: {kind: noop, input: {n: '{{ 1 // workload.n }}'}}\nworkload: {n: 0}\n"
    )
    ran = workspace.call("run", workspace.write(broken))
    assert (ran.returncode, "correct the playbook and continue: noetl fork " in ran.stdout) == (1, True)
    workspace.write(broken.replace("n: 0", "n: 1"))
    again = workspace.call("retry", "last")
    text = "noetl: retry uses the playbook as it was at the start; to use a corrected file: noetl fork "
    assert (again.returncode, text in again.stderr) == (1, True)


def test_retry_after_another_error_does_not_speak_of_the_text(workspace: Workspace) -> None:
    failing = HEAD + "workflow:\n- step: start\n  tool: {kind: shell, argv: ['false']}\n"
    assert "noetl retry" in workspace.call("run", workspace.write(failing)).stdout
    again = workspace.call("retry", "last")
    assert (again.returncode, "corrected" in again.stderr) == (1, False)


PARENT = HEAD.replace("path: t", "path: parent") + (
    "workload: {flag: '', log: ''}\nworkflow:\n- step: start\n"
    "  tool: {kind: playbook, path: t.yaml, input: {flag: '{{ workload.flag }}', log: '{{ workload.log }}'}}\n"
)


def test_pause_and_cancel_go_down_to_children(workspace: Workspace) -> None:
    """D67, D68."""
    arguments, flag, log = workspace.slow()
    arguments[1] = workspace.write(PARENT, "parent.yaml")
    with workspace.started(*arguments) as run:
        lines = run.read_until("… start  runs t.yaml (")
        id, child = lines[0], lines[-1].partition("(")[2].rstrip(")")
        while not log.exists():
            os.sched_yield()  # there is nothing to wait for but the file of the child
        assert workspace.json("pause", id)[0] == 0
        flag.touch()
        assert run.end()[0] == 130
    assert log.read_text() == "start "
    assert workspace.json("show", child)[1]["status"] == "paused"
    assert workspace.json("cancel", id) == (0, {"execution_id": id, "status": "cancelled"})
    assert workspace.json("show", child)[1]["status"] == "cancelled"
    assert log.read_text() == "start "
