"""Playbooks of different authors on one worker cannot reach each other's code or credentials."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.processes import Workspace
from tests.playbooks import HEAD

# A process could keep the changes of this code, and the next playbook would run with them.
FIRST = """\
workflow:
- step: start
  tool:
  - {name: patch, kind: python, code: "import builtins\\ndef main(): builtins.patched = 1"}
  - {name: other, kind: playbook, path: other.yaml}
  - name: again
    kind: python
    input: {other: "{{ _prev }}"}
    code: |
      import builtins, os
      def main(other):
          return {"other": other, "own": [hasattr(builtins, "patched"), os.getpid()]}
"""
OTHER = """\
workflow:
- step: start
  tool:
    kind: python
    code: |
      import builtins, os
      def main():
          return [hasattr(builtins, "patched"), os.getpid()]
"""


def test_code_of_one_playbook_does_not_run_in_the_process_of_another(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.write(HEAD.replace("path: t", "path: other") + OTHER, "other.yaml")
    code, document = workspace.json("run", workspace.write(HEAD + FIRST))
    assert (code, document["status"]) == (0, "ok"), document
    (is_patched, pid), own = document["output"]["data"]["other"], document["output"]["data"]["own"]
    assert (is_patched, own[0]) == (False, True)
    assert pid != own[1]
