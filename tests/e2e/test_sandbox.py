"""`spec.sandbox` in a playbook, with the command line."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.processes import Workspace
from tests.playbooks import HEAD
from tests.unit.tools.test_sandbox import needs_landlock

PLAYBOOK = (
    HEAD
    + """\
workflow:
- step: start
  spec: {sandbox: {writable: [out]}}
  tool:
  - name: code
    kind: python
    code: |
      import socket
      def main():
          with open("out/file", "w") as file:
              file.write("1")
          try:
              open("beside", "w")
          except PermissionError:
              socket.socket()
  - name: program
    kind: shell
    sh: echo 2 > beside
"""
)


@needs_landlock
def test_a_step_runs_its_tasks_in_a_sandbox(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    file = workspace.write(PLAYBOOK)
    (tmp_path / "out").mkdir()
    assert workspace.call("check", file).returncode == 0
    code, document = workspace.json("run", file)
    assert (code, document["error"]["kind"]) == (1, "python")
    assert "PermissionError" in document["error"]["message"]
    file = workspace.write(PLAYBOOK.replace("socket.socket()", "pass"))
    code, document = workspace.json("run", file)
    assert (code, document["error"]["kind"]) == (1, "shell")
    assert "beside: Permission denied" in document["error"]["message"]
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == ["file"]
    assert not (tmp_path / "beside").exists()


def test_the_keys_of_a_sandbox_are_checked(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    done = workspace.call("check", workspace.write(PLAYBOOK.replace("writable: [out]", "writeable: [out], network: 1")))
    assert done.returncode == 2
    assert 'sandbox has no key "writeable"; did you mean "writable"?' in done.stdout + done.stderr
    assert '"network" is a number; expected true, false or a template' in done.stdout + done.stderr
