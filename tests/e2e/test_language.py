"""Constructs of the language as a user meets them: `noetl check`, `noetl run` and `noetl explain` in processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.processes import Workspace
from tests.e2e.serving import serving
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


FAILS = (
    HEAD
    + """\
workload: {id: 7}
workflow:
- step: start
  tool:
    name: look
    kind: python
    code: "def main(): raise LookupError('no row')"
    spec:
      policy:
        rules:
        - when: "{{ output.status == 'error' }}"
          then: {do: fail, message: "order {{ workload.id }} does not exist", details: {id: "{{ workload.id }}"}}
        - else: {then: {do: continue}}
"""
)


def test_a_rule_states_the_error_and_keeps_its_cause_d105(workspace: Workspace) -> None:
    file = workspace.write(FAILS)
    code, document = workspace.json("run", file)
    error = document["error"]
    assert (code, error["kind"], error["message"], error["details"]) == (1, "rule", "order 7 does not exist", {"id": 7})
    assert (error["cause"]["kind"], error["cause"]["message"]) == ("python", "LookupError: no row")
    assert document["output"]["error"]["cause"]["kind"] == "python"
    plain = workspace.call("run", file).stdout
    assert "rule in start#1: order 7 does not exist\n  cause: python: LookupError: no row\n" in plain
    shown = workspace.call("show", "last").stdout
    assert "error in start#1  rule: order 7 does not exist\n  cause: python: LookupError: no row\n" in shown
    explained = workspace.call("explain", file).stdout
    assert "fail with order {{ workload.id }} does not exist when output.status == 'error'" in explained


ASKS = (
    HEAD
    + """\
workload: {url: "", names: [ann, bob], loud: true}
workflow:
- step: start
  tool:
    kind: http
    method: POST
    url: "{{ workload.url }}/store/names"
    headers: {x-names: "{% for name in workload.names %}{{ name }};{% endfor %}"}
    params: {mode: "{% if workload.loud %}loud{% else %}quiet{% endif %}"}
    json: {lines: ["{% for name in workload.names %}{{ loop.index }} {{ name }} {% endfor %}", "{{ workload.names }}"]}
"""
)


def test_statements_write_the_texts_of_a_request_d106(workspace: Workspace) -> None:
    with serving() as api:
        code, _ = workspace.json("run", workspace.write(ASKS), "--set", f"url={api.url}")
    assert (code, api.calls) == (0, ["POST /store/names?mode=loud"])
    assert api.headers["/store/names"][0]["x-names"] == "ann;bob;"
    assert api.bodies["/store/names"] == [{"lines": ["1 ann 2 bob ", ["ann", "bob"]]}]


DATES = (
    HEAD
    + """\
workload: {from: "2026-01-30", names: [ann, bob]}
workflow:
- step: start
  loop: {in: "{{ workload.from | range_of_dates('2026-02-01') }}", iterator: day}
  tool: {kind: noop, input: {text: "{{ iter.day | date('%d %b') }}", next: "{{ iter.day | add(days=1) }}", old: "{{ iter.day < today() }}"}}
  next: {arcs: [{step: pair}]}
- step: pair
  tool: {kind: noop, input: {pairs: "{{ workload.names | zip([1, 2]) }}", last: "{{ workload.from | start_of('month') }}"}}
"""
)


def test_dates_and_pairs_in_a_run_and_a_wrong_format_in_a_check_d107(workspace: Workspace) -> None:
    code, document = workspace.json("run", workspace.write(DATES))
    assert (code, document["output"]["data"]) == (0, {"pairs": [["ann", 1], ["bob", 2]], "last": "2026-01-01"})
    file = workspace.write(DATES.replace("%d %b", "%d %Q"))
    checked = workspace.call("check", file)
    assert checked.returncode == 2
    assert 't.yaml:8:51: error: bad-arguments: "date": the format has no "%Q"' in checked.stdout


SETS = (
    HEAD
    + """\
workflow:
- step: start
  tool: {kind: python, code: "def main(): raise LookupError('no row')"}
  set: {ctx.rows: "{{ output.data }}", ctx.how: "{{ output.status }}: {{ output.error.message | default('') }}"}
  next: {arcs: [{step: end}, {step: report, when: "{{ event.name == 'step.failed' }}"}]}
- step: report
  tool: {kind: noop, input: {how: "{{ ctx.how }}", rows: "{{ ctx.rows | default(none) }}"}}
"""
)


def test_a_step_publishes_how_it_failed_d102(workspace: Workspace) -> None:
    code, document = workspace.json("run", workspace.write(SETS))
    assert (code, document["output"]["data"]) == (0, {"how": "error: LookupError: no row", "rows": None})
    explained = workspace.call("explain", workspace.folder / "t.yaml").stdout
    assert "ctx.rows, ctx.how; after a failure only ctx.how" in explained


INTENTIONS = (
    HEAD
    + """\
executor: {profile: distributed, version: noetl-runtime/9, spec: {pool: gpu, tracing: {level: all}}}
workflow:
- step: start
  loop: {in: [1], iterator: n, spec: {mode: parallel, policy: {exec: local, backpressure: {}}}}
  tool: {kind: noop}
"""
)


def test_keys_that_select_nothing_are_said_and_the_playbook_runs_d100_d101(workspace: Workspace) -> None:
    file = workspace.write(INTENTIONS)
    checked = workspace.call("check", file)
    assert checked.returncode == 0
    said = [line.partition("t.yaml:")[2] for line in checked.stdout.splitlines() if line.startswith(str(file))]
    assert [line.split(": ")[:3] for line in said[:-1]] == [
        ["4:12", "info", "no-effect"],
        ["4:43", "warning", "no-effect"],
        ["4:78", "warning", "reserved"],
        ["7:64", "warning", "no-effect"],
        ["7:77", "warning", "reserved"],
    ]
    done = workspace.call("run", file)
    assert done.returncode == 0
    assert "executor.profile is distributed, but this execution is embedded; --server runs it on workers" in done.stderr
    assert "spec.pool has no effect here: an embedded execution has a single pool" in done.stderr


def test_a_guard_that_is_text_around_a_template_is_refused_with_the_fix_d118(workspace: Workspace) -> None:
    text = """\
workload: {action: create}
workflow:
- step: start
  tool: {kind: noop}
  next: {arcs: [{step: end, when: "{{ workload.action }} == destroy"}]}
"""
    code, document = workspace.json("run", workspace.write(HEAD + text))
    (problem,) = document["problems"]
    assert (code, problem["code"], problem["line"], problem["column"]) == (2, "not-a-guard", 8, 35)
    assert problem["fix"] == "\"{{ workload.action == 'destroy' }}\""


TOLERANT = (
    HEAD
    + """\
workflow:
- step: start
  spec: {policy: {failure: {mode: best_effort, tolerate: 1}}}
  loop: {in: "{{ range(30) }}", iterator: n, spec: {mode: parallel, max_in_flight: 30}}
  tool: {kind: noop, input: {n: "{{ 1 // (iter.n - 3) + 1 // (iter.n - 7) }}"}}
  next:
    arcs:
    - step: tell
      when: "{{ event.name == 'step.failed' }}"
      set: {ctx.failed: "{{ output.failed }}", ctx.message: "{{ output.error.message }}"}
- step: tell
  tool: {kind: noop, input: {failed: "{{ ctx.failed }}", message: "{{ ctx.message }}"}}
"""
)


def test_a_loop_says_which_iterations_failed_and_a_playbook_reads_them(workspace: Workspace) -> None:
    file = workspace.write(TOLERANT)
    assert workspace.json("check", file)[0] == 0
    code, document = workspace.json("run", file)
    told = document["output"]["data"]
    assert (code, [(each["index"], each["item"], each["error"]["kind"]) for each in told["failed"]]) == (
        0, [(3, 3, "template"), (7, 7, "template")],
    )  # fmt: skip
    assert told["message"].startswith("2 of 30 iterations failed, 1 tolerated: [3], [7]; [3] ")
    assert "division by zero" in told["message"]


def test_the_output_of_a_step_without_a_loop_has_no_failed(workspace: Workspace) -> None:
    text = "workflow:\n- step: start\n  tool: {kind: noop}\n  set: {ctx.a: '{{ output.failed }}'}\n"
    code, document = workspace.json("run", workspace.write(HEAD + text))
    assert (code, [each["code"] for each in document["problems"]]) == (2, ["unknown-field"])


V10 = (
    HEAD
    + """\
workflow:
- step: start
  next: {spec: {mode: exclusive}, arcs: [{step: fetch, args: {city: Oslo, page: 7}}]}
- step: fetch
  tool: {kind: noop, args: {page: "{{ args.page }}"}}
  next: {spec: {mode: exclusive}, arcs: [{step: store, args: {page: 8}}]}
- step: store
  tool:
  - name: seen
    kind: noop
    args: {city: "{{ args.city | default('none') }}", page: "{{ args.page }}", mode: "{{ args.mode | default('all') }}"}
    spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {seen: "{{ (ctx.seen | default([])) + [outcome.result] }}"}}}}]}}
  next:
    spec: {mode: exclusive}
    arcs:
    - {step: store, when: "{{ ctx.seen | length == 1 }}", args: {mode: new}}
    - {step: store, when: "{{ ctx.seen | length == 2 }}"}
    - {step: last}
- step: last
  tool: {kind: noop, args: {seen: "{{ ctx.seen }}"}}
"""
)
V2 = (
    HEAD
    + """\
workflow:
- step: start
  next: [{step: store, args: {mode: new}}]
- step: store
  tool:
  - seen:
      kind: noop
      args: {mode: "{{ args.mode | default('all') }}", sent: "{{ args.mode is defined }}"}
      eval: [{else: {do: continue, set_ctx: {seen: "{{ (ctx.seen | default([])) + [outcome.result] }}"}}}]
  next:
  - {step: store, when: "{{ ctx.seen | length == 1 }}"}
  - {step: last}
- step: last
  tool:
  - all: {kind: noop, args: {seen: "{{ ctx.seen }}"}}
"""
)


@pytest.mark.parametrize("how", ["auto", "migrate"])
def test_a_payload_that_was_not_sent_is_undefined_and_v10_passes_it_on_d96(how: str, workspace: Workspace) -> None:
    """v10 merges the payload of an arc over that of the token before it; v2 does not."""
    expected = {
        V10: [
            {"city": "Oslo", "page": 8, "mode": "all"},
            {"city": "Oslo", "page": 8, "mode": "new"},
            {"city": "Oslo", "page": 8, "mode": "new"},
        ],
        V2: [{"mode": "new", "sent": True}, {"mode": "all", "sent": False}],
    }
    for text, seen in expected.items():
        file = workspace.write(text)
        if how == "migrate":
            assert workspace.call("migrate", file, "--write").returncode == 0
        code, document = workspace.json("run", file, *(["--dialect", "auto"] if how == "auto" else []))
        assert (code, document["output"]["data"]) == (0, {"seen": seen})
