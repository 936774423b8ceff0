"""Constructs of the language as a user meets them: `noetl check`, `noetl run` and `noetl explain` in processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.processes import Workspace
from tests.playbooks import HEAD


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def test_a_pipeline_that_only_jumps_back_is_refused_before_anything_runs_d111(workspace: Workspace) -> None:
    text = """\
workflow:
- step: start
  tool:
  - name: work
    kind: shell
    argv: [touch, ran]
    spec: {policy: {rules: [{else: {then: {do: jump, to: work}}}]}}
"""
    file = workspace.write(HEAD + text)
    checked = workspace.call("check", file)
    assert checked.returncode == 2
    assert "t.yaml:7:5: error: endless-jump: no rule leaves the cycle work → work" in checked.stdout
    code, document = workspace.json("run", file)
    assert (code, [each["code"] for each in document["problems"]]) == (2, ["endless-jump"])
    assert not (workspace.folder / "ran").exists()
