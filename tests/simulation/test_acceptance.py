"""The eight acceptance tests of seed 002 §13, as playbooks in a simulated cluster with a fake HTTP tool."""

from __future__ import annotations

import msgspec

from noetl.engine import facts
from noetl.engine.facts import Fact
from noetl.engine.moves import RunTask
from noetl.engine.state import State
from noetl.output import JSON, Failure, Output
from noetl.testing.memory_runtime import MemoryPrograms
from noetl.testing.simulator.cluster import SimCluster
from tests.playbooks import HEAD, checked, kinds, problem_codes

PAGES = """\
workload: {hotels: [{id: a, pages: 3}, {id: b, pages: 1}]}
workflow:
- step: start
  loop: {in: "{{ workload.hotels }}", iterator: hotel, spec: {mode: parallel, max_in_flight: 2}}
  tool:
  - {name: init, kind: noop, set: {iter.page: 1, iter.seen: []}}
  - name: fetch
    kind: http
    input: {url: "{{ iter.hotel.id }}", params: {page: "{{ iter.page }}", pages: "{{ iter.hotel.pages }}"}}
    set: {iter.seen: "{{ iter.seen + [output.data.at] }}"}
  - name: paginate
    kind: noop
    input: {seen: "{{ iter.seen }}"}
    spec:
      policy:
        rules:
        - {when: "{{ fetch.data.more }}", then: {do: jump, to: fetch, set: {iter.page: "{{ iter.page + 1 }}"}}}
        - else: {then: {do: break}}
"""


class FakeHttp:
    """The HTTP tool of a cluster. It records the calls, and counts those that run at the same time."""

    def __init__(self) -> None:
        self.calls: list[JSON] = []
        self.running = self.most_running = 0
        self.cluster: SimCluster | None = None

    async def call(self, task: RunTask) -> Output:
        assert self.cluster is not None
        self.calls.append(task.input)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        done = self.cluster.loop.create_future()
        self.cluster.loop.call_later(0.5, done.set_result, None)
        await done
        self.running -= 1
        return self.answer(task.input)

    def answer(self, input: dict[str, JSON]) -> Output:
        url, params = input["url"], input.get("params") or {}
        if url.startswith("status/"):
            status = int(url.removeprefix("status/"))
            error = Failure(kind="http", message=str(status)) if status >= 400 else None
            return Output(status="error" if error else "ok", error=error, own={"http": {"status": status}})
        if url == "large":
            return Output(data={"rows": ["x" * 100] * 1000, "total": 1000})
        page, pages = params.get("page", 1), params.get("pages", 1)
        return Output(data={"at": f"{url}{page}", "more": page < pages})


def run(body: str, workload: dict[str, object] | None = None) -> tuple[FakeHttp, State, list[Fact]]:
    http = FakeHttp()
    cluster = http.cluster = SimCluster(1, MemoryPrograms({"t": HEAD + body}, kinds()), calm=True)
    cluster.tools["http"] = http.call
    result = cluster.run({"e": ("t", workload or {})})
    return http, result.states["e"], [fact for row in cluster.store.memory.rows["e"] for fact in row.facts]


def data_of(state: State) -> JSON:
    assert state.end_output is not None
    return state.end_output.data


def test_1_policies_are_validated() -> None:
    body = "workflow:\n- step: start\n  tool: {kind: noop, spec: {policy: %s}}\n"
    assert problem_codes(checked(body % "[]").errors) == {"bad-policy"}
    assert problem_codes(checked(body % "{rules: [{else: {then: {to: x}}}]}").errors) == {"missing-do"}


def test_2_a_transient_500_is_retried_and_then_fails() -> None:
    rules = '[{when: "{{ output.http.status == 500 }}", then: {do: retry, attempts: 4, delay: 1}}, {else: {then: {do: continue}}}]'
    http, state, _ = run(
        f"workflow:\n- step: start\n  tool: {{kind: http, url: status/500, spec: {{policy: {{rules: {rules}}}}}}}\n"
    )
    assert (len(http.calls), state.status, state.failure and state.failure.kind) == (4, "error", "http")


def test_3_status_routes_by_jump() -> None:
    body = """\
workload: {code: 200}
workflow:
- step: start
  tool:
  - name: fetch
    kind: http
    url: "status/{{ workload.code }}"
    set: {step.code: "{{ output.http.status }}"}
    spec: {policy: {rules: [{else: {then: {do: continue, set: {step.code: "{{ output.http.status }}"}}}}]}}
  - name: route
    kind: noop
    spec: {policy: {rules: [{when: "{{ step.code == 404 }}", then: {do: jump, to: store_404}}, {else: {then: {do: jump, to: store_200}}}]}}
  - {name: store_200, kind: noop, input: {at: ok}, spec: {policy: {rules: [{else: {then: {do: break}}}]}}}
  - {name: store_404, kind: noop, input: {at: missing}}
"""
    assert data_of(run(body)[1]) == {"at": "ok"}
    assert data_of(run(body, {"code": 404})[1]) == {"at": "missing"}


def test_4_and_6_pages_stream_within_an_iteration_and_end_with_break() -> None:
    http, state, _ = run(PAGES)
    assert data_of(state) == [{"seen": ["a1", "a2", "a3"]}, {"seen": ["b1"]}]
    assert len(http.calls) == 4


def test_5_a_parallel_loop_keeps_max_in_flight_and_isolates_iter() -> None:
    body = """\
workload: {items: [1, 2, 3, 4, 5, 6, 7, 8]}
workflow:
- step: start
  loop: {in: "{{ workload.items }}", iterator: n, spec: {mode: parallel, max_in_flight: 3}}
  tool:
  - {name: keep, kind: noop, set: {iter.mine: "{{ iter.n * 10 }}"}}
  - {name: get, kind: http, url: "{{ iter.n | string }}"}
  - {name: give, kind: noop, input: {mine: "{{ iter.mine }}"}}
"""
    http, state, _ = run(body)
    assert http.most_running == 3
    assert data_of(state) == [{"mine": number * 10} for number in range(1, 9)]


def test_6_loops_nest_and_iter_parent_reaches_the_outer_one() -> None:
    body = """\
workload: {cities: [{name: oslo, hotels: [a, b]}, {name: rome, hotels: [c]}]}
workflow:
- step: start
  loop:
  - {in: "{{ workload.cities }}", iterator: city, spec: {mode: parallel, max_in_flight: 2}}
  - {in: "{{ iter.city.hotels }}", iterator: hotel}
  tool: {kind: http, url: "{{ iter.parent.city.name }}-{{ iter.hotel }}-"}
"""
    found = data_of(run(body)[1])
    assert [[each["at"] for each in city] for city in found] == [["oslo-a-1", "oslo-b-1"], ["rome-c-1"]]


def test_7_exclusive_takes_the_first_arc_and_inclusive_all() -> None:
    body = """\
workflow:
- step: start
  tool: {kind: noop}
  next: {spec: {mode: %s}, arcs: [{step: a}, {step: b, when: "{{ execution_id }}"}]}
- step: a
  tool: {kind: noop}
- step: b
  tool: {kind: noop}
"""
    for mode, steps in (("exclusive", ["start", "a"]), ("inclusive", ["start", "a", "b"])):
        _, _, log = run(body % mode)
        assert [fact.step for fact in log if isinstance(fact, facts.StepScheduled)] == steps


def test_8_large_results_are_stored_and_events_stay_small_d51_d52() -> None:
    body = """\
workflow:
- step: start
  tool:
  - {name: get, kind: http, url: large}
  - {name: count, kind: noop, input: {rows: "{{ get.data.rows | length }}"}, set: {step.rows: "{{ get.data.rows | length }}"}}
  - {name: again, kind: http, url: large}
  set: {ctx.total: "{{ output.data.total }}", ctx.rows: "{{ step.rows }}"}
"""
    _, state, log = run(body)
    assert (state.status, state.ctx) == ("ok", {"total": 1000, "rows": 1000})
    assert max(len(msgspec.json.encode(fact)) for fact in log) < 65_536
    stored = [fact.output for fact in log if isinstance(fact, facts.TaskDone) and fact.output and fact.output.ref]
    assert len(stored) == 2


def test_items_of_a_loop_that_are_too_many_for_the_log_are_stored_d44() -> None:
    body = """\
workload: {items: [10, 20, 30]}
workflow:
- step: start
  loop: {in: "{{ workload.items }}", iterator: n, spec: {mode: parallel, max_in_flight: 2}}
  tool: {kind: noop, input: {n: "{{ iter.n }}"}}
"""
    _, state, log = run(body)
    assert data_of(state) == [{"n": 10}, {"n": 20}, {"n": 30}]
    started = [fact for fact in log if isinstance(fact, facts.LoopStarted)]
    assert [(fact.items, fact.count, fact.ref and fact.ref["meta"]["count"]) for fact in started] == [(None, 3, 3)]


def test_where_a_loop_is_meant_to_run_changes_nothing_of_its_result_d43() -> None:
    body = """\
workflow:
- step: start
  loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel, policy: {exec: %s}}}
  tool: {kind: noop, input: {n: "{{ iter.n }}"}}
"""
    local, distributed = (data_of(run(body % where)[1]) for where in ("local", "distributed"))
    assert local == distributed == [{"n": 1}, {"n": 2}, {"n": 3}]


def test_the_first_fact_says_by_which_level_of_the_language_d71() -> None:
    _, _, log = run("workflow:\n- step: start\n  tool: {kind: noop}\n")
    requested = log[0]
    assert isinstance(requested, facts.Requested)
    assert (requested.level, requested.digest) == (2, "t")


def test_there_is_no_sink_kind_d56() -> None:
    assert problem_codes(checked("workflow:\n- step: start\n  tool: {kind: sink}\n").errors) == {"unknown-kind"}
