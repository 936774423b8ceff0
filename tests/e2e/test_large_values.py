"""A playbook has the same result with small and with large values in every scope, and names one that is lost (D91)."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from tests.e2e.processes import Workspace

PLAYBOOK = Path(__file__).parent / "playbooks" / "large_values.yaml"
PAUSES = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: pauses, path: tests/pauses}
workflow:
  - step: start
    tool:
      kind: python
      code: |
        def main():
            return ["x" * 1_000] * 200
      set: {ctx.rows: "{{ output.data }}"}
    next: {arcs: [{step: fails}]}
  - step: fails
    tool: {kind: shell, sh: "test -e flag"}
    next: {arcs: [{step: last}]}
  - step: last
    tool: {kind: noop, input: {count: "{{ ctx.rows | length }}"}}
"""


def run(workspace: Workspace, size: int) -> tuple[dict[str, Any], list[str]]:
    code, document = workspace.json("run", PLAYBOOK, "--set", f"bytes={size}")
    assert (code, document["error"]) == (0, None)
    lines = workspace.call("events", document["execution_id"], "--format", "jsonl").stdout.splitlines()
    return document, lines


def test_the_size_of_values_changes_neither_the_result_nor_the_events(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    small, few = run(workspace, 10)
    large, many = run(workspace, 500_000)
    assert large["output"] == small["output"]
    assert small["output"]["data"] == {
        "ids": list(range(8)), "report": 8, "reported": 8, "collected": [0, 1, 2, 1, 2, 3, 2, 3, 4],
        "all": 64, "each": [8] * 8, "half": 32,
    }  # fmt: skip
    # Not in the same order: iterations run side by side, and a slow start is reported before its first result.
    assert Counter(json.loads(line)["name"] for line in many) == Counter(json.loads(line)["name"] for line in few)
    assert max(map(len, many)) < 65_536
    assert workspace.call("audit", large["execution_id"]).returncode == 0
    assert "(4,000,153 bytes, in the result store)" in workspace.call("state", large["execution_id"]).stdout
    replayed = workspace.call("replay", large["execution_id"])
    assert replayed.returncode == 0, replayed.stdout


def test_a_lost_value_is_named_by_the_audit_and_by_the_step_that_reads_it(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    code, document = workspace.json("run", workspace.write(PAUSES))
    assert code == 1
    stored = [
        file
        for file in tmp_path.rglob("*")
        if file.is_file() and file.stat().st_size > 200_000 and len(file.name) == 64
    ]
    assert len(stored) == 1
    stored[0].unlink()
    audit = workspace.call("audit", document["execution_id"])
    assert audit.returncode == 1
    assert "ctx.rows: no result" in audit.stdout
    (tmp_path / "flag").touch()
    code, retried = workspace.json("retry", document["execution_id"])
    assert code == 1
    assert retried["error"]["kind"] == "reference"
    assert 'the value of "ctx.rows" is not in the result store' in retried["error"]["message"]


def test_a_workload_cannot_imitate_a_stored_value(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.write('{"bytes": {"$stored": {"type": "blob", "locator": {"key": "x"}}}}', "w.json")
    refused = workspace.call("run", PLAYBOOK, "--workload", "w.json")
    assert refused.returncode == 1
    assert "reserved" in refused.stderr + refused.stdout
