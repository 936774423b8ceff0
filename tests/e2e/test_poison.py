"""A call that kills the process that makes it is not repeated without limit: after three deaths it fails with kind `poison`."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from tests.e2e.processes import Workspace
from tests.playbooks import HEAD

# A shell is a child of a guard process, which is a child of the process that runs the playbook. The step before it
# and the other playbook must not be blamed.
POISON = (
    HEAD
    + """\
workflow:
- step: start
  tool: {kind: shell, argv: ["true"]}
  next: {arcs: [{step: deadly}]}
- step: deadly
  tool: {kind: shell, sh: "kill -9 $(cut -d' ' -f4 /proc/$PPID/stat); sleep 60"}
"""
)
HARMLESS = HEAD + 'workflow:\n- {step: start, tool: {kind: shell, argv: ["true"]}}\n'


def only(workspace: Workspace) -> str:
    """The id of the only execution: its process may have died before it printed the id."""
    [execution] = json.loads(workspace.call("list", "--format", "json").stdout)
    return str(execution["execution_id"])


def test_a_call_that_kills_the_embedded_server_three_times_is_not_made_again(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    with workspace.started("run", workspace.write(POISON)) as run:
        assert run.end()[0] == -signal.SIGKILL
    id = only(workspace)
    for _ in range(2):  # a server continues open executions when it starts
        with workspace.started("server", "--db", workspace.db, "--port", "0") as server:
            assert server.end()[0] == -signal.SIGKILL
    with workspace.started("server", "--db", workspace.db, "--port", "0") as server:
        server.error_line()  # it listens
        workspace.call("events", id, "--follow")  # it ends with the execution
        assert server.process.poll() is None
        server.process.terminate()
        assert server.end()[0] == 0
    _, document = workspace.json("show", id)
    assert (document["status"], document["error"]["kind"]) == ("error", "poison")
    message = '3 workers vanished one after the other while they ran task "deadly_task"'
    assert document["error"]["message"].startswith(message)
    assert [(step["step"], step.get("lost", 0)) for step in document["steps"]] == [("start", 0), ("deadly", 3)]
    assert "poison: 3 workers vanished" in workspace.call("show", id).stdout
    assert workspace.call("audit").returncode == 0
    assert [each.name for each in (tmp_path / "noetl.db-locks").iterdir()] == ["making.lock"]


def test_a_call_that_succeeds_after_two_deaths_of_its_process_is_not_blamed(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    marker = tmp_path / "deaths"
    command = (
        f"echo x >> {marker}; [ $(wc -l < {marker}) -gt 2 ] || kill -9 $(cut -d' ' -f4 /proc/$PPID/stat); sleep 0.1"
    )
    text = HEAD + f"workflow:\n- step: start\n  tool: {{kind: shell, sh: {json.dumps(command)}}}\n"
    with workspace.started("run", workspace.write(text)) as run:
        assert run.end()[0] == -signal.SIGKILL
    id = only(workspace)
    assert workspace.call("resume", id).returncode == -signal.SIGKILL
    code, document = workspace.json("resume", id)
    assert (code, document["status"], document["steps"][0]["lost"]) == (0, "ok", 2)
    assert workspace.call("run", workspace.write(HARMLESS)).returncode == 0
