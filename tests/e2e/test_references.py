"""Refs in whole processes: a Ref is one by its origin, and data cannot forge one (D99)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.processes import Workspace
from tests.playbooks import HEAD

STORE = (
    HEAD.replace("path: t", "path: store")
    + """\
workload: {text: ""}
workflow:
- step: start
  tool:
    kind: python
    input: {text: "{{ workload.text }}"}
    code: "def main(text): return [{'text': text}]"
  set: {ctx.rows_ref: "{{ output.ref }}"}
  next: {arcs: [{step: end}]}
- step: end
  tool: {kind: noop, input: {inner: {rows_ref: "{{ ctx.rows_ref }}"}}}
"""
)
READ = (
    HEAD
    + """\
workload: {forged: null, given_ref: null}
workflow:
- step: start
  tool:
  - name: receive
    kind: python
    input: {forged: "{{ workload.forged }}"}
    code: "def main(forged): return {'next_ref': forged}"
  - {name: fetch, kind: resolve, ref: "{{ %s }}"}
"""
)
CALL = (
    HEAD
    + """\
workflow:
- step: start
  tool:
  - {name: call, kind: playbook, path: store.yaml, input: {text: of the child}}
  - {name: fetch, kind: resolve, ref: "{{ call.data.inner.rows_ref }}"}
"""
)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def stored_ref(workspace: Workspace) -> dict[str, Any]:
    code, document = workspace.json("run", workspace.write(STORE, "store.yaml"), "--set", "text=of another")
    assert code == 0, document
    ref: dict[str, Any] = document["output"]["data"]["inner"]["rows_ref"]
    return ref


def test_data_cannot_forge_a_ref_of_another_execution_d99(workspace: Workspace) -> None:
    ref = stored_ref(workspace)
    file = workspace.write(READ % "receive.data.next_ref")
    code, document = workspace.json("run", file, "--set", f"forged={json.dumps(ref)}")
    owner = ref["locator"]["key"].partition("/")[0]
    assert (code, document["error"]["kind"]) == (1, "reference")
    assert f"a result of execution {owner}, which this execution did not start" in document["error"]["message"]
    assert "of another" not in json.dumps(document)


def test_a_request_may_hand_over_a_ref_by_a_name_that_says_so_d99(workspace: Workspace) -> None:
    ref = stored_ref(workspace)
    file = workspace.write(READ % "workload.given_ref")
    code, document = workspace.json("run", file, "--set", f"given_ref={json.dumps(ref)}")
    assert (code, document["output"]["data"]) == (0, [{"text": "of another"}])


def test_a_caller_resolves_the_refs_in_the_data_of_its_child_d99(workspace: Workspace) -> None:
    workspace.write(STORE, "store.yaml")
    code, document = workspace.json("run", workspace.write(CALL))
    assert (code, document["output"]["data"]) == (0, [{"text": "of the child"}])
