"""What tasks of the built-in tools do for a user: the command line checks and runs real playbooks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.processes import Workspace
from tests.playbooks import HEAD


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


PARTS = (
    HEAD
    + """\
workflow:
- step: start
  tool:
  - name: parse
    kind: python
    code: "raise KeyError('price')"
    spec:
      policy:
        rules:
        - when: "{{ output.py.exception_type == 'KeyError' }}"
          then: {do: continue, set: {ctx.missing: "{{ output.py.exception }}"}}
        - else: {then: {do: fail}}
  - name: fetch
    kind: http
    url: http://127.0.0.1:1/
    spec:
      policy:
        rules:
        - when: "{{ output.status == 'error' }}"
          then: {do: continue, set: {ctx.status: "{{ output.http.status }}"}}
        - else: {then: {do: fail}}
  - {name: result, kind: noop, input: {missing: "{{ ctx.missing }}", status: "{{ ctx.status }}"}}
"""
)


def test_rules_and_set_read_the_own_part_of_failed_calls_d95(workspace: Workspace) -> None:
    code, document = workspace.json("run", workspace.write(PARTS))
    assert (code, document["output"]["data"]) == (0, {"missing": "'price'", "status": None})


def test_a_misspelt_field_of_a_tool_is_refused_before_the_run_d95(workspace: Workspace) -> None:
    file = workspace.write(PARTS.replace("exception_type", "exeption_type"))
    done = workspace.call("run", file)
    assert done.returncode == 2
    assert f'{file.name}:13:21: error: unknown-field: output.py has no part "exeption_type"' in done.stderr
    assert 'did you mean "output.py.exception_type"?' in done.stderr
