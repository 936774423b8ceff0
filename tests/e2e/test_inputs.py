"""Typed inputs for a user (D104): the command line, a child playbook, and the Python API."""

from __future__ import annotations

from pathlib import Path

import pytest

import noetl
from noetl.errors import InputError, InputProblem
from tests.e2e.processes import Workspace
from tests.playbooks import HEAD

ORDERS = HEAD.replace("path: t", "path: orders") + (
    "input:\n"
    "  n: {type: integer, desc: how many, default: 3, min: 1, max: 10}\n"
    "  zip: {type: string}\n"
    "  day: {type: date, required: false}\n"
    "  table: {type: file, required: false}\n"
    "workflow:\n- step: start\n"
    "  tool: {kind: python, input: {values: '{{ workload }}'}, code: \"def main(values): return values\"}\n"
)
CALLER = HEAD.replace("path: t", "path: caller") + (
    "workload: {zip: 8001}\nworkflow:\n- step: start\n"
    '  tool: {kind: playbook, path: orders.yaml, input: {n: "5", zip: "{{ workload.zip }}"}}\n'
)
READS = HEAD + (
    "workload: {options: {depth: 1}, free: {}}\nworkflow:\n- step: start\n"
    '  tool: {kind: noop, input: {a: "{{ workload.needed }}", b: "{{ workload.options.depth }}"}}\n'
)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def test_values_that_do_not_fit_are_refused_before_anything_runs(workspace: Workspace) -> None:
    file = workspace.write(ORDERS, "orders.yaml")
    done = workspace.call("run", file, "--set", "nn=4", "--set", "n=99", "--set", "table=none.csv")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-5:] == [
        "noetl: the values do not fit the inputs of the playbook:",
        "  table: there is no such file",
        '  nn: there is no such input; did you mean "n"? (the inputs are n, zip, day, table)',
        "  n: expected at most 10",
        "  zip: missing: it is required (string)",
    ]
    code, document = workspace.json("run", file, "--set", "zip=8001", "--set", "n=x")
    assert (code, document["status"], document["execution_id"]) == (2, "error", None)
    assert document["error"] == {
        "kind": "bad-input",
        "message": "n: expected an integer, got text",
        "fields": [{"name": "n", "message": "expected an integer, got text"}],
    }
    assert workspace.call("list", "--format", "json").stdout.strip() == "[]"


def test_values_get_their_types(workspace: Workspace) -> None:
    file = workspace.write(ORDERS, "orders.yaml")
    workspace.write("a", "table.csv")
    code, document = workspace.json(
        "run", file, "--set", "zip=01234", "--set", "n='4'", "--set", "day=2026-01-31", "--set", "table=table.csv"
    )
    assert (code, document["output"]["data"]) == (
        0, {"n": 4, "zip": "01234", "day": "2026-01-31", "table": str(workspace.folder / "table.csv")},
    )  # fmt: skip
    code, document = workspace.json("run", file, "--set", "zip=1.10")
    assert (code, document["output"]["data"]) == (0, {"n": 3, "zip": "1.10", "day": None, "table": None})


def test_explain_lists_the_inputs(workspace: Workspace) -> None:
    done = workspace.call("explain", workspace.write(ORDERS))
    assert [line.split(maxsplit=2) for line in done.stdout.splitlines()[3:7]] == [
        ["n", "integer", "3         at least 1; at most 10; how many"],
        ["zip", "string", "required"],
        ["day", "date", "null"],
        ["table", "file", "null"],
    ]


def test_a_child_gets_inputs_of_its_types_or_fails(workspace: Workspace) -> None:
    workspace.write(ORDERS, "orders.yaml")
    file = workspace.write(CALLER, "caller.yaml")
    code, document = workspace.json("run", file, "--set", 'zip="8001"')
    assert (code, document["output"]["data"]) == (0, {"n": 5, "zip": "8001", "day": None, "table": None})
    code, document = workspace.json("run", file)
    assert (code, document["error"]["kind"]) == (1, "playbook")
    assert document["error"]["message"] == "the inputs do not fit: zip: expected text, got number"
    assert document["error"]["details"] == {"kind": "input"}


def test_without_input_a_set_of_an_unknown_key_is_an_error(workspace: Workspace) -> None:
    file = workspace.write(READS)
    done = workspace.call("run", file, "--set", "needd=1", "--set", "options.dpth=2", "--set", "free.any=3")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.strip() == (
        'noetl: --set: the playbook\'s workload has no "needd"; the playbook\'s workload has no "options.dpth"; did you'
        ' mean "options.depth"? (correct the key, declare it under `workload`, or add --allow-extra)'
    )
    assert not workspace.db.exists()
    done = workspace.call("run", file, "--set", "needed=1")
    assert done.returncode == 0
    done = workspace.call("run", file, "--set", "needed=1", "--set", "more=2", "--allow-extra")
    assert done.returncode == 0
    assert 'has no "more"' in done.stderr
    values = workspace.write("{needed: 1, more: 2}", "values.yaml")
    done = workspace.call("run", file, "--workload", values)
    assert done.returncode == 0
    assert 'has no "more"' in done.stderr


def test_the_python_api_raises_an_error_with_the_fields(workspace: Workspace) -> None:
    file = workspace.write(ORDERS)
    with pytest.raises(InputError) as error:
        noetl.run(file, workload={"zip": 8001}, database=workspace.db)
    assert error.value.problems == (InputProblem("zip", "expected text, got number"),)
    result = noetl.run(file, workload={"zip": "8001", "n": "7"}, database=workspace.db, key="k")
    assert result.raise_for_status().output == {"n": 7, "zip": "8001", "day": None, "table": None}
    assert noetl.run(file, workload={"zip": "8001", "n": "7"}, database=workspace.db, key="k").id == result.id
