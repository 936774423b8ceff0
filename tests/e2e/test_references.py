"""Refs in whole processes: a Ref is one by its origin (D99), also one to rows in PostgreSQL (D98)."""

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
PASS_ON = (
    HEAD.replace("path: t", "path: pass")
    + """\
workload: {forged: null, given_ref: null}
workflow:
- step: start
  tool:
  - name: receive
    kind: python
    input: {forged: "{{ workload.forged }}"}
    code: "def main(forged): return {'next_ref': forged, 'rest': 'x' * SIZE}"
  - {name: call, kind: playbook, path: t.yaml, input: %s}
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


@pytest.mark.parametrize("size", [0, 70_000], ids=["small", "large"])  # a large workload is in the result store
@pytest.mark.parametrize(
    ("given", "read"),
    [
        ('{given_ref: "{{ receive.data.next_ref }}"}', "workload.given_ref"),
        ('{given: {deep: "{{ receive.data }}"}}', "workload.given.deep.next_ref"),
        ('{given: ["{{ receive.data }}"]}', "workload.given[0].next_ref"),
    ],
)
def test_data_cannot_forge_a_ref_in_the_workload_of_a_child_d99(
    workspace: Workspace, given: str, read: str, size: int
) -> None:
    ref = stored_ref(workspace)
    workspace.write((READ % read).replace("given_ref: null", "given_ref: null, given: null"), "t.yaml")
    file = workspace.write((PASS_ON % given).replace("SIZE", str(size)), "pass.yaml")
    code, document = workspace.json("run", file, "--set", f"forged={json.dumps(ref)}")
    owner = ref["locator"]["key"].partition("/")[0]
    assert (code, document["error"]["kind"]) == (1, "reference")
    assert f"a result of execution {owner}, which this execution did not start" in document["error"]["message"]
    assert "of another" not in json.dumps(document)


def test_a_child_reads_a_ref_of_the_request_of_its_caller_d99(workspace: Workspace) -> None:
    ref = stored_ref(workspace)
    workspace.write(READ % "workload.given_ref", "t.yaml")
    file = workspace.write((PASS_ON % '{given_ref: "{{ workload.given_ref }}"}').replace("SIZE", "0"), "pass.yaml")
    code, document = workspace.json("run", file, "--set", f"given_ref={json.dumps(ref)}")
    assert (code, document["output"]["data"]) == (0, [{"text": "of another"}])


GRANDPARENT = (
    HEAD.replace("path: t", "path: top")
    + """\
workflow:
- step: start
  tool: {kind: python, code: "def main(): return [{'text': 'of the top'}]"}
  set: {ctx.rows_ref: "{{ output.ref }}"}
  next: {arcs: [{step: call}]}
- step: call
  tool:
  - {name: rest, kind: python, code: "def main(): return 'x' * SIZE"}
  - name: pass
    kind: playbook
    path: middle.yaml
    input: {page: {rows_ref: "{{ ctx.rows_ref }}", rest: "{{ rest.data }}"}}
"""
)
MIDDLE = (
    HEAD.replace("path: t", "path: middle")
    + """\
workload: {page: {}}
workflow:
- step: start
  tool: {kind: noop}
  set: {ctx.rows_ref: "{{ workload.page.rows_ref }}"}
  next: {arcs: [{step: pass}]}
- step: pass
  tool:
  - {name: own, kind: resolve, ref: "{{ ctx.rows_ref }}"}
  - {name: call, kind: playbook, path: t.yaml, input: {given_ref: "{{ ctx.rows_ref }}"}}
"""
)


@pytest.mark.parametrize("size", [0, 70_000], ids=["small", "large"])  # a large value is in the result store
def test_a_ref_in_a_value_of_any_size_of_the_workload_is_read_and_passed_on_d99(
    workspace: Workspace, size: int
) -> None:
    """No task of the step reads the value itself."""
    workspace.write(READ % "workload.given_ref", "t.yaml")
    workspace.write(MIDDLE, "middle.yaml")
    code, document = workspace.json("run", workspace.write(GRANDPARENT.replace("SIZE", str(size)), "top.yaml"))
    assert (code, document["output"]["data"]) == (0, [{"text": "of the top"}])


FORGED_MARK = (
    HEAD
    + """\
workload: {forged: null}
workflow:
- step: start
  tool: {kind: python, code: "def main(): return 'x' * 100_000"}
  set: {ctx.large: "{{ output.data }}"}
  next: {arcs: [{step: read}]}
- step: read
  input: %s
  tool: {kind: python, input: {given: "{{ input }}"}, code: "def main(given): return given"}
"""
)


@pytest.mark.parametrize(
    "given", ['{a: {$stored: "{{ workload.forged }}"}}', """{a: "{{ {'$stored': workload.forged} }}"}"""]
)
def test_data_cannot_forge_a_stored_value_d91_d99(workspace: Workspace, given: str) -> None:
    """Where a worker reads the marks of an execution, it checks whose results they name."""
    ref = stored_ref(workspace)
    file = workspace.write(FORGED_MARK % given)
    code, document = workspace.json("run", file, "--set", f"forged={json.dumps(ref)}")
    assert (code, document["error"]["kind"]) == (1, "reference")
    assert 'the value of "input" cannot be read: foreign-ref: the Ref names a result' in document["error"]["message"]
    assert "of another" not in json.dumps(document)


def test_an_input_as_a_whole_cannot_be_a_stored_value_d91(workspace: Workspace) -> None:
    file = workspace.write(FORGED_MARK % '{$stored: "{{ workload.forged }}"}')
    code, document = workspace.json("run", file, "--set", f"forged={json.dumps(stored_ref(workspace))}")
    assert code == 2
    assert "bad-name" in [each["code"] for each in document["problems"]]


def test_a_request_may_hand_over_a_ref_by_a_name_that_says_so_d99(workspace: Workspace) -> None:
    ref = stored_ref(workspace)
    file = workspace.write(READ % "workload.given_ref")
    code, document = workspace.json("run", file, "--set", f"given_ref={json.dumps(ref)}")
    assert (code, document["output"]["data"]) == (0, [{"text": "of another"}])


def test_a_caller_resolves_the_refs_in_the_data_of_its_child_d99(workspace: Workspace) -> None:
    workspace.write(STORE, "store.yaml")
    code, document = workspace.json("run", workspace.write(CALL))
    assert (code, document["output"]["data"]) == (0, [{"text": "of the child"}])


TABLE = (
    HEAD
    + """\
keychain:
- {name: warehouse, kind: postgres_credential, dsn: {env: DSN}}
workload: {table: t, rows: 10}
workflow:
- step: start
  tool:
  - name: fill
    kind: postgres
    auth: warehouse
    command: |
      CREATE TABLE {{ workload.table | sql_ident }} (n int, batch text);
      INSERT INTO {{ workload.table | sql_ident }}
        SELECT n, {{ execution_id }}::text FROM generate_series(1, {{ workload.rows }}::int) n
    stored: {table: "{{ workload.table }}", where: {batch: "{{ execution_id }}"}, order: [n], columns: [n], count: true}
  set: {ctx.rows_ref: "{{ output.ref }}"}
  next: {arcs: [{step: part}]}
- step: part
  input: {rows_ref: "{{ ctx.rows_ref }}"}
  tool:
  - {name: some, kind: resolve, ref: "{{ input.rows_ref }}", limit: 3}
  - {name: file, kind: resolve, ref: "{{ input.rows_ref }}", to: ndjson}
  - {name: sum, kind: duckdb, query: "SELECT sum(n)::bigint AS total, count(*) AS rows FROM r", tables: {r: "{{ file.ref }}"}}
  - name: all
    kind: noop
    input: {count: "{{ ctx.rows_ref.meta.count }}", some: "{{ some.data }}", sum: "{{ sum.data[0] }}"}
"""
)
FORGED = (
    HEAD
    + """\
keychain:
- {name: warehouse, kind: postgres_credential, dsn: {env: DSN}}
workload: {forged: null}
workflow:
- step: start
  tool:
  - {name: receive, kind: noop, input: {rows_ref: "{{ workload.forged }}"}}
  - {name: fetch, kind: resolve, ref: "{{ receive.data.rows_ref }}"}
  - {name: use, kind: postgres, auth: warehouse, query: SELECT 1}
"""
)


def dsn(workspace: Workspace) -> None:
    from tests.services import PASSWORD, postgres

    workspace.environment["DSN"] = f"postgresql://postgres:{PASSWORD}@127.0.0.1:{postgres().port}/postgres"


@pytest.mark.parametrize("rows", [10, 200_000])
def test_rows_in_postgres_are_referenced_and_fetched_d98(workspace: Workspace, tmp_path: Path, rows: int) -> None:
    dsn(workspace)
    table = f"refs_{rows}_{tmp_path.name[-8:].replace('-', '_')}"
    code, document = workspace.json("run", workspace.write(TABLE), "--set", f"table={table}", "--set", f"rows={rows}")
    assert code == 0, document
    assert document["output"]["data"] == {
        "count": rows,
        "some": [{"n": 1}, {"n": 2}, {"n": 3}],
        "sum": {"total": rows * (rows + 1) // 2, "rows": rows},
    }
    events = workspace.call("events", "last", "--format", "jsonl").stdout
    assert '"auth_reference":"keychain/warehouse"' in events
    assert workspace.environment["DSN"] not in events
    for command in (("audit", "last"), ("gc",), ("state", "last"), ("show", "last")):
        done = workspace.call(*command)
        assert done.returncode == 0, (command, done.stdout, done.stderr)


def test_data_cannot_choose_a_table_d99(workspace: Workspace) -> None:
    dsn(workspace)
    ref = {
        "type": "relational",
        "locator": {"system": "postgres", "table": "pg_catalog.pg_authid"},
        "auth_reference": "keychain/warehouse",
    }
    code, document = workspace.json("run", workspace.write(FORGED), "--set", f"forged={json.dumps(ref)}")
    assert (code, document["error"]["kind"]) == (1, "reference")
    assert document["error"]["message"].startswith("`ref` is data that looks like a Ref")


def test_a_secret_does_not_get_into_the_log_with_a_ref_d98(workspace: Workspace) -> None:
    """A value that equals the password of the credential is not part of a Ref."""
    dsn(workspace)
    password = workspace.environment["DSN"].split(":")[2].partition("@")[0]
    text = TABLE.replace('batch: "{{ execution_id }}"}', 'batch: "{{ workload.batch }}"}')
    text = text.replace("rows: 10}", "rows: 10, batch: none}")
    wanted = ("--set", "table=refs_secret", "--set", f"batch={password}")
    code, document = workspace.json("run", workspace.write(text), *wanted)
    assert (code, document["error"]["kind"]) == (1, "reference"), document
    assert document["error"]["message"].startswith("`where` contains the value of a credential")
