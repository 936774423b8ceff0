"""Seed 002 §13 through `noetl run`, then the seeds' own examples: real processes, a real server, a real disk."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.processes import ROOT, Workspace
from tests.e2e.serving import Api, serving
from tests.playbooks import HEAD

SEEDS = ROOT / "tests" / "fixtures" / "seeds"
PLAYBOOKS = Path(__file__).parent / "playbooks"
RETRY = (
    HEAD
    + """\
workload: {url: ""}
workflow:
- step: start
  tool:
    kind: http
    url: "{{ workload.url }}"
    spec:
      policy:
        rules:
        - when: "{{ output.http.status == 500 }}"
          then: {do: retry, attempts: 4, backoff: exponential, delay: 0.01}
        - else: {then: {do: continue}}
"""
)
ROUTED = (
    HEAD
    + """\
workload: {url: "", code: 200}
workflow:
- step: start
  tool:
  - name: fetch
    kind: http
    url: "{{ workload.url }}/status/{{ workload.code }}"
    spec: {policy: {rules: [{else: {then: {do: continue, set: {step.code: "{{ output.http.status }}"}}}}]}}
  - name: route
    kind: noop
    spec:
      policy:
        rules:
        - {when: "{{ step.code == 404 }}", then: {do: jump, to: store_404}}
        - else: {then: {do: jump, to: store_200}}
  - name: store_200
    kind: http
    input: {method: POST, url: "{{ workload.url }}/store/ok", json: {code: "{{ step.code }}"}}
    spec: {policy: {rules: [{when: "{{ output.status == 'error' }}", then: {do: fail}}, {else: {then: {do: break}}}]}}
  - name: store_404
    kind: http
    input: {method: POST, url: "{{ workload.url }}/store/missing", json: {code: "{{ step.code }}"}}
"""
)
PAGES = (
    HEAD
    + """\
workload: {url: "", hotels: [{id: a, pages: 3}, {id: b, pages: 1}, {id: c, pages: 5}]}
workflow:
- step: start
  loop: {in: "{{ workload.hotels }}", iterator: hotel, spec: {mode: parallel, max_in_flight: 2}}
  tool:
  - {name: init, kind: noop, set: {iter.page: 1, iter.seen: []}}
  - name: fetch
    kind: http
    input:
      url: "{{ workload.url }}/pages/{{ iter.hotel.id }}"
      params: {page: "{{ iter.page }}", pages: "{{ iter.hotel.pages }}"}
    set: {iter.seen: "{{ iter.seen + [output.data.at] }}"}
  - name: paginate
    kind: noop
    input: {seen: "{{ iter.seen }}"}
    spec:
      policy:
        rules:
        - {when: "{{ fetch.data.more }}", then: {do: jump, to: fetch, set: {iter.page: "{{ iter.page + 1 }}"}}}
        - else: {then: {do: break}}
  - {name: never, kind: noop, input: {seen: past the end}}
"""
)
# While guests are held, another branch rings a bell: there was time for more of them to come, had they been sent.
HELD = (
    HEAD
    + """\
workload: {url: "", guests: 11}
workflow:
- step: start
  next: {spec: {mode: inclusive}, arcs: [{step: visit}, {step: ring}]}
- step: visit
  loop: {in: "{{ range(workload.guests) }}", iterator: n, spec: {mode: parallel, max_in_flight: 3}}
  tool:
  - {name: keep, kind: noop, set: {iter.mine: "{{ iter.n * 10 }}", step.last: "{{ iter.n }}"}}
  - {name: get, kind: http, input: {url: "{{ workload.url }}/held/{{ iter.n }}", params: {of: 3}}}
  - {name: give, kind: noop, input: {mine: "{{ iter.mine }}", last: "{{ step.last }}", guest: "{{ get.data.guest }}"}}
  next: {arcs: [{step: gather, set: {ctx.given: "{{ output.data }}"}}]}
- step: ring
  tool:
  - {name: bell, kind: http, input: {url: "{{ workload.url }}/bell", params: {rings: 20}}}
  - name: again
    kind: noop
    spec: {policy: {rules: [{when: "{{ bell.data.turn < 20 }}", then: {do: jump, to: bell}}, {else: {then: {do: break}}}]}}
- step: gather
  tool: {kind: noop, input: {given: "{{ ctx.given }}"}}
"""
)
NESTED = (
    HEAD
    + """\
workload: {url: "", cities: [{name: oslo, hotels: [a, b]}, {name: rome, hotels: [c]}, {name: bern, hotels: []}]}
workflow:
- step: start
  loop:
  - {in: "{{ workload.cities }}", iterator: city, spec: {mode: parallel, max_in_flight: 2}}
  - {in: "{{ iter.city.hotels }}", iterator: hotel}
  tool:
  - {name: init, kind: noop, set: {iter.page: 1, iter.seen: []}}
  - name: fetch
    kind: http
    input:
      url: "{{ workload.url }}/pages/{{ iter.parent.city.name }}/{{ iter.hotel }}"
      params: {page: "{{ iter.page }}", pages: 2}
    set: {iter.seen: "{{ iter.seen + [output.data.at] }}"}
  - name: paginate
    kind: noop
    input: {city: "{{ iter.parent.city.name }}", seen: "{{ iter.seen }}", at: "{{ [iter.parent.index, iter.index] }}"}
    spec:
      policy:
        rules:
        - {when: "{{ fetch.data.more }}", then: {do: jump, to: fetch, set: {iter.page: "{{ iter.page + 1 }}"}}}
        - else: {then: {do: break}}
"""
)
ARCS = (
    HEAD
    + """\
workflow:
- step: start
  tool: {kind: noop}
  next: {spec: {mode: %s}, arcs: [{step: a, when: "{{ workload.n > 2 }}"}, {step: b}, {step: c, when: "{{ workload.n > 9 }}"}]}
- {step: a, tool: {kind: noop}}
- {step: b, tool: {kind: noop}}
- {step: c, tool: {kind: noop}}
workload: {n: 5}
"""
)
LARGE = (
    HEAD
    + """\
workload: {url: "", bytes: 300000}
workflow:
- step: start
  tool: {kind: http, input: {url: "{{ workload.url }}/rows", params: {bytes: "{{ workload.bytes }}"}}}
  set: {ctx.rows_ref: "{{ output.ref }}", ctx.total: "{{ output.data.total }}"}
  next: {arcs: [{step: later}]}
- step: later
  tool:
  - {name: load, kind: resolve, input: {ref: "{{ ctx.rows_ref }}"}}
  - {name: count, kind: noop, input: {rows: "{{ load.data.rows | length }}", last: "{{ load.data.rows[-1].id }}", total: "{{ ctx.total }}"}}
"""
)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


@pytest.fixture
def api() -> Iterator[Api]:
    with serving() as api:
        yield api


def events_of(workspace: Workspace, id: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in workspace.call("events", id, "--format", "jsonl").stdout.splitlines()]


def data_of(workspace: Workspace, text: str, api: Api, *more: str) -> Any:
    """What a run that goes well gives back."""
    code, document = workspace.json("run", workspace.write(text), "--set", f"url={api.url}", *more)
    assert (code, document["status"], document["error"]) == (0, "ok", None)
    return document["output"]["data"]


@pytest.mark.parametrize(
    ("policy", "found"), [("[]", "bad-policy"), ("{rules: [{else: {then: {to: x}}}]}", "missing-do")]
)
def test_1_policies_are_validated_before_anything_runs(policy: str, found: str, workspace: Workspace) -> None:
    text = HEAD + f"workflow:\n- {{step: start, tool: {{kind: noop, spec: {{policy: {policy}}}}}}}\n"
    code, document = workspace.json("run", workspace.write(text))
    errors = {each["code"] for each in document["problems"] if each["severity"] == "error"}
    assert (code, document["error"]["kind"], errors) == (2, "problems", {found})
    names = [event["name"] for event in events_of(workspace, document["execution_id"])]
    assert names == ["playbook.execution.requested", "playbook.request.evaluated", "playbook.processed"]


def test_2_a_transient_500_is_retried_until_it_is_well(workspace: Workspace, api: Api) -> None:
    url = f"url={api.url}/flaky/a?fails=2"
    code, document = workspace.json("run", workspace.write(RETRY), "--set", url)
    assert (code, document["output"]["data"], document["steps"][0]["calls"]) == (0, {"turn": 3}, 3)
    done = [each for each in events_of(workspace, document["execution_id"]) if each["name"] == "task.done"]
    assert [(each["attempt"], each["data"]["directive"]) for each in done] == [
        (1, "retry"), (2, "retry"), (3, "continue"),
    ]  # fmt: skip
    assert len({each["Idempotency-Key"] for each in api.headers["/flaky/a"] if "Idempotency-Key" in each}) == 0


def test_2_a_500_that_stays_fails_when_the_attempts_are_used_up(workspace: Workspace, api: Api) -> None:
    """D24."""
    url = f"url={api.url}/flaky/a?fails=9"
    code, document = workspace.json("run", workspace.write(RETRY), "--set", url)
    error = document["error"]
    assert (code, document["status"], api.count("/flaky/a")) == (1, "error", 4)
    assert (error["kind"], error["step"], error["message"]) == (
        "http", "start", f'HTTP 500 Internal Server Error from GET {api.url}/flaky/a?fails=9: {{"turn": 4}}',
    )  # fmt: skip


@pytest.mark.parametrize(("code", "place", "other"), [(200, "ok", "missing"), (404, "missing", "ok")])
def test_3_status_routes_by_jump(code: int, place: str, other: str, workspace: Workspace, api: Api) -> None:
    assert data_of(workspace, ROUTED, api, "--set", f"code={code}") == {"stored": 1}
    assert api.bodies == {f"/store/{place}": [{"code": code}]}
    assert api.count(f"/store/{other}") == 0


def test_4_pages_stream_within_an_iteration_and_end_with_break(workspace: Workspace, api: Api) -> None:
    assert data_of(workspace, PAGES, api) == [
        {"seen": ["a1", "a2", "a3"]}, {"seen": ["b1"]}, {"seen": ["c1", "c2", "c3", "c4", "c5"]},
    ]  # fmt: skip
    for hotel, pages in (("a", 3), ("b", 1), ("c", 5)):
        asked = [call for call in api.calls if f"/pages/{hotel}?" in call]
        assert asked == [f"GET /pages/{hotel}?page={page}&pages={pages}" for page in range(1, pages + 1)]


def test_5_max_in_flight_is_reached_and_never_passed_and_iter_is_isolated(workspace: Workspace, api: Api) -> None:
    """D46, D49."""
    code, document = workspace.json("run", workspace.write(HELD), "--set", f"url={api.url}")
    assert (code, document["status"]) == (0, "ok")
    assert (api.most, api.count("/held/"), api.count("/bell")) == (3, 11, 20)
    given = [{"mine": n * 10, "last": n, "guest": str(n)} for n in range(11)]
    state = workspace.json("state", document["execution_id"])[1]
    assert state["ctx"] == {"given": given}
    # The log says the same as the server.
    out, most = 0, 0
    for event in events_of(workspace, document["execution_id"]):
        out += {"loop.iteration.started": 1, "loop.iteration.done": -1}.get(event["name"], 0)
        most = max(most, out)
    assert (out, most) == (0, 3)


def test_6_loops_nest_and_iter_parent_reaches_the_outer_one(workspace: Workspace, api: Api) -> None:
    """D45, D85."""
    assert data_of(workspace, NESTED, api) == [
        [
            {"city": "oslo", "seen": ["oslo-a1", "oslo-a2"], "at": [0, 0]},
            {"city": "oslo", "seen": ["oslo-b1", "oslo-b2"], "at": [0, 1]},
        ],
        [{"city": "rome", "seen": ["rome-c1", "rome-c2"], "at": [1, 0]}],
        [],
    ]
    # The hotels of one city come one after the other.
    oslo = [call.split("/")[3].split("&")[0] for call in api.calls if "/oslo/" in call]
    assert oslo == ["a?page=1", "a?page=2", "b?page=1", "b?page=2"]


@pytest.mark.parametrize(("mode", "steps"), [("exclusive", ["a"]), ("inclusive", ["a", "b"])])
def test_7_exclusive_takes_the_first_arc_that_holds_and_inclusive_all(
    mode: str, steps: list[str], workspace: Workspace
) -> None:
    code, document = workspace.json("run", workspace.write(ARCS % mode))
    assert (code, [each["step"] for each in document["steps"]]) == (0, ["start", *steps])


def test_8_a_large_result_goes_by_reference_and_comes_back_whole(workspace: Workspace, api: Api) -> None:
    """D51, D52."""
    data = data_of(workspace, LARGE, api)
    assert data == {"rows": data["total"], "last": data["total"] - 1, "total": data["total"]}
    assert data["total"] > 1000
    lines = workspace.call("events", "last", "--format", "jsonl").stdout.splitlines()
    assert max(len(line) for line in lines) < 65_536
    stored = [file for file in workspace.folder.rglob("*-results/**/*") if file.is_file()]
    assert [file.stat().st_size > 250_000 for file in stored] == [True]
    assert Counter(api.calls) == Counter({"GET /rows?bytes=300000": 1})


def test_8_a_small_result_has_a_reference_too_when_one_is_asked_for(workspace: Workspace, api: Api) -> None:
    """D51."""
    data = data_of(workspace, LARGE, api, "--set", "bytes=1000")
    assert data == {"rows": data["total"], "last": data["total"] - 1, "total": data["total"]}


# The examples of the seeds


def test_streaming_pagination_of_003_runs_as_it_is_but_for_its_stores(workspace: Workspace, api: Api) -> None:
    endpoints = json.dumps(
        [{"path": f"/endpoints/{name}", "page_size": 2} for name in ("good", "shaky", "gone", "closed")]
    )
    done = workspace.call(
        "run", PLAYBOOKS / "seed_003_12_streaming_pagination.yaml", "--dialect", "auto", "--format", "json",
        "--set", f"api_url={api.url}", "--set", f"endpoints={endpoints}",
    )  # fmt: skip
    document = json.loads(done.stdout)
    assert (done.returncode, document["status"]) == (0, "ok")
    ran = [(each["step"], each.get("iterations")) for each in document["steps"]]
    assert ran == [
        ("start", None),
        ("fetch_all_endpoints", {"count": 4, "succeeded": 3, "failed": 1}),
        ("validate_results", None),
    ]
    stored = sorted(api.bodies["/store/results_ok"], key=lambda body: (body["path"], body["page"]))
    assert [(body["path"], body["page"], [item["row"] for item in body["items"]]) for body in stored] == [
        ("/endpoints/good", 1, [0, 1]), ("/endpoints/good", 2, [2, 3]), ("/endpoints/good", 3, [4, 5]),
        ("/endpoints/shaky", 1, [0, 1]),
    ]  # fmt: skip
    assert api.bodies["/store/results_not_found"] == [{"path": "/endpoints/gone", "page": 1}]
    assert [api.count(f"/endpoints/{name}") for name in ("good", "shaky", "gone", "closed")] == [3, 2, 1, 1]
    keys = [each["Idempotency-Key"] for each in api.headers["/store/results_ok"]]
    assert len(set(keys)) == len(keys) == 4


def test_tool_item_chaining_of_004_runs_as_it_is(workspace: Workspace, api: Api) -> None:
    code, document = workspace.json("run", SEEDS / "004_4.2_tool_item_chaining.yaml", "--set", f"api_url={api.url}")
    [start] = document["steps"]
    assert (code, start["iterations"]) == (0, {"count": 2, "succeeded": 2, "failed": 0})
    # Two pages each, and one that came too early and was asked for again.
    asked = sorted(call.partition("?")[2] for call in api.calls)
    assert asked == [
        "patientId=p-1&page=1", "patientId=p-1&page=1", "patientId=p-1&page=2",
        "patientId=p-2&page=1", "patientId=p-2&page=2",
    ]  # fmt: skip


@pytest.mark.parametrize("file", sorted(SEEDS.glob("004_[367]*.yaml")), ids=lambda file: file.stem)
def test_every_other_example_of_004_runs_as_it_is(file: Path, workspace: Workspace, api: Api) -> None:
    code, document = workspace.json("run", file, "--set", f"api_url={api.url}")
    assert (code, document["status"], document["error"]) == (0, "ok", None)
