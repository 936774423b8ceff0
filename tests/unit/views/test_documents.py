"""D76: the documents of `show` and `state`."""

from __future__ import annotations

from datetime import timedelta

import msgspec
from msgspec.structs import replace

from noetl.engine.facts import TaskDone
from noetl.output import JSON
from noetl.testing.scenario import START, Player
from noetl.views.documents import (
    describe_waiting,
    read_runs,
    show_document,
    state_document,
    with_pool_reasons,
)
from noetl.views.pools import PoolLoad, ShareWait
from tests.playbooks import kinds
from tests.unit.views.playing import played, scenarios

EMPTY = PoolLoad(0, 0, 0)
CHAIN = """
workflow:
- step: start
  tool: {name: one, kind: http, url: x, set: {ctx.n: "{{ output.data }}"}}
  next: {arcs: [{step: last}]}
- step: last
  tool: {kind: http, url: x, spec: {policy: {rules: [{when: "{{ output.status == 'error' }}", then: {do: retry, attempts: 2}}]}}}
"""


def show(player: Player, *, up_to: int | None = None, after_s: float | None = None) -> JSON:
    now = None if after_s is None else START + timedelta(seconds=after_s)
    document = show_document(read_runs("e", player.log, up_to=up_to), now)
    return msgspec.json.decode(msgspec.json.encode(document))


def state(player: Player, *, up_to: int | None = None) -> JSON:
    document = state_document(read_runs("e", player.log, up_to=up_to))
    return msgspec.json.decode(msgspec.json.encode(document))


def test_an_execution_that_went_well_is_shown_with_its_runs_and_times() -> None:
    player = played(CHAIN, "after 2", "report start#1 ok 7", "after 3", 'report last#1 ok {"x": 1}')
    assert show(player) == {
        "execution_id": "e",
        "status": "ok",
        "output": {"status": "ok", "data": {"x": 1}},
        "error": None,
        "duration_s": 5.0,
        "steps": [
            {
                "id": "start#1",
                "step": "start",
                "status": "ok",
                "started": "2026-01-01T00:00:02Z",
                "ended": "2026-01-01T00:00:02Z",
                "duration_s": 0.0,
                "calls": 1,
            },
            {
                "id": "last#1",
                "step": "last",
                "status": "ok",
                "started": "2026-01-01T00:00:05Z",
                "ended": "2026-01-01T00:00:05Z",
                "duration_s": 0.0,
                "calls": 1,
            },
        ],
    }


def test_a_run_began_when_its_first_task_did_and_not_when_that_was_reported() -> None:
    player = played(CHAIN, "after 9", "report start#1 ok 7")
    began = START + timedelta(seconds=4)
    log = [
        replace(event, fact=replace(event.fact, started_at=began)) if isinstance(event.fact, TaskDone) else event
        for event in player.log
    ]
    run = show_document(read_runs("e", log)).steps[0]
    assert (run.started, run.ended, run.duration_s) == ("2026-01-01T00:00:04Z", "2026-01-01T00:00:09Z", 5.0)


def test_what_still_runs_has_run_until_now() -> None:
    player = played(CHAIN, "report start#1 ok 7", "after 3", "report last#1 error http")
    shown = show(player, after_s=10.0)
    assert (shown["status"], shown["output"], shown["duration_s"]) == ("running", None, 10.0)
    assert shown["steps"][1] == {
        "id": "last#1",
        "step": "last",
        "status": "running",
        "started": "2026-01-01T00:00:03Z",
        "duration_s": 7.0,
        "calls": 1,
        "retries": 1,
    }
    assert show(player)["duration_s"] == 3.0
    assert show(player, up_to=9)["steps"][1] == {"id": "last#1", "step": "last", "status": "scheduled"}


def test_the_first_failure_that_nothing_handled_is_the_error() -> None:
    player = played(CHAIN, "report start#1 error http")
    shown = show(player)
    assert shown["error"] == {"kind": "http", "message": "it did not work", "step": "start", "run": "start#1"}
    assert shown["output"] == {
        "status": "error",
        "data": None,
        "error": {"kind": "http", "message": "it did not work"},
    }
    assert shown["steps"][0]["error"] == {"kind": "http", "message": "it did not work"}
    player.play("retry")
    assert show(player)["error"] is None
    assert show(player)["steps"][1] == {
        "id": "start#2", "step": "start", "status": "scheduled", "retry_of": "start#1",
    }  # fmt: skip


def test_a_failure_that_an_arc_takes_is_an_error_of_the_run_and_not_of_the_execution() -> None:
    body = """
    workflow:
    - step: start
      tool: {kind: http, url: x}
      next: {arcs: [{step: end, when: "{{ event.name == 'step.failed' }}"}]}
    """
    shown = show(played(body, "report start#1 error http"))
    assert (shown["status"], shown["error"]) == ("ok", None)
    assert (shown["steps"][0]["status"], shown["steps"][0]["handled"]) == ("error", True)


def test_a_failed_admission_has_a_step_and_no_run() -> None:
    shown = show(scenarios()["join_admission_fails"])
    assert (shown["error"]["kind"], shown["error"]["step"], "run" in shown["error"]) == (
        "template",
        "done",
        False,
    )
    spoiled = [each for each in shown["steps"] if each["id"] in ("a#1>0", "b#1>0")]
    assert [(each["step"], each["status"], each["error"]["kind"]) for each in spoiled] == [
        ("done", "error", "template"),
        ("done", "error", "template"),
    ]


def test_tokens_that_were_never_admitted_are_listed_and_change_no_status() -> None:
    shown = show(scenarios()["routing_inclusive_waiting"])
    assert shown["status"] == "ok"
    assert shown["steps"][-1] == {
        "id": "start#1>2",
        "step": "c",
        "status": "waiting",
        "why": "was never admitted; its rules read ctx.go",
    }
    assert describe_waiting(()) == "is not admitted, and its rules read nothing that can change"
    joined = show(scenarios()["join_failed_run_holds"])["steps"][-1]
    assert (joined["status"], joined["why"]) == ("waiting", "waits for other tokens that can still arrive")


def test_a_loop_has_its_counts_and_blocks_stand_below_the_run_that_called_them() -> None:
    shown = show(scenarios()["retried_nested_loops"])
    first, second = shown["steps"]
    inside = {"count": 3, "succeeded": 2, "failed": 1}
    assert first["iterations"] == {"count": 2, "succeeded": 1, "failed": 1, "inside": inside}
    assert [(each["id"], each["status"]) for each in first["blocks"]] == [
        ("crawl#1[0]/body#1", "error"),
        ("crawl#1[1]/body#1", "ok"),
    ]
    assert {**second["iterations"], "inside": None} == {
        "count": 2,
        "succeeded": 2,
        "failed": 0,
        "inside": None,
    }
    assert second["blocks"][0]["retry_of"] == "crawl#1[0]/body#1"


def test_a_step_counts_the_calls_and_iterations_of_all_loops_in_its_list() -> None:
    """And not as calls that its outer loops hand over to the next one."""
    body = """
    workflow:
    - step: start
      loop:
      - {in: [1, 2], iterator: a}
      - {in: "{{ range(iter.a) | list }}", iterator: b, spec: {mode: parallel}}
      - {in: [1, 2, 3, 4], iterator: c}
      tool: [{name: one, kind: noop}, {name: two, kind: noop}]
    """
    run = show(played(body))["steps"][0]
    all_of_c = {"count": 12, "succeeded": 12, "failed": 0}
    assert run["iterations"] == {"count": 2, "succeeded": 2, "failed": 0, "inside": all_of_c}
    assert run["calls"] == 24
    second = run["blocks"][1]
    assert second["iterations"]["inside"] == {"count": 8, "succeeded": 8, "failed": 0}
    assert [(each["calls"], "inside" in each["iterations"]) for each in second["blocks"]] == [
        (8, False),
        (8, False),
    ]


def test_calls_and_retries_in_a_block_count_for_the_step_that_called_it() -> None:
    again = "[{when: \"{{ output.status == 'error' }}\", then: {do: retry, attempts: 2}}]"
    body = f"""
    workflow:
    - step: start
      tool: [{{name: one, kind: noop}}, {{name: two, kind: workbook, block: b}}]
    workbook:
      b: {{tool: {{kind: http, url: x, spec: {{policy: {{rules: {again}}}}}}}}}
    """
    player = played(body, "report start#1/b#1 error http")
    player.play("report start#1/b#1 ok")
    run = show(player)["steps"][0]
    assert (run["status"], run["calls"], run["retries"]) == ("ok", 3, 1)
    assert (run["blocks"][0]["calls"], run["blocks"][0]["retries"]) == (2, 1)


def test_the_error_of_a_loop_names_the_iteration_that_failed_first() -> None:
    failed = show(scenarios()["loop_error_of_the_lowest_index"])["error"]
    assert (failed["run"], failed["iteration"]) == ("start#1", 1)
    conflict = show(scenarios()["loop_ctx_conflict"])["error"]
    assert (conflict["kind"], "iteration" in conflict) == ("ctx-conflict", False)


def test_of_very_many_blocks_some_are_kept_and_all_are_counted() -> None:
    body = """
    workload: {count: 250}
    workflow:
    - step: start
      loop: {in: "{{ range(workload.count) }}", iterator: n}
      tool: {kind: workbook, block: b}
    workbook:
      b: {tool: {kind: noop}}
    """
    run = show(played(body))["steps"][0]
    assert run["iterations"] == {"count": 250, "succeeded": 250, "failed": 0}
    assert (len(run["blocks"]), run["blocks_left_out"], run["calls"]) == (100, 150, 250)


def test_a_parked_run_says_what_it_waits_for_and_names_the_child() -> None:
    body = "workflow: [{step: start, tool: {kind: playbook, path: other}}]"
    run = show(played(body))["steps"][0]
    child = played(body).state.runs["start#1"].frames[None].parked
    assert (run["status"], run["why"]) == ("running", "waits for the playbook other")
    assert run["child"] == msgspec.to_builtins(child)["execution_id"]
    timed = "workflow: [{step: start, tool: {kind: wait, input: {seconds: 60}}}]"
    assert show(played(timed))["steps"][0]["why"] == "waits until 2026-01-01T00:01:00Z"
    ended = show(played(timed, "after 61", "wake start#1"))["steps"][0]
    assert (ended["status"], "why" in ended) == ("ok", False)


def test_a_cancelled_execution_has_cancelled_runs_and_no_failed_step() -> None:
    player = played(CHAIN, "report start#1 ok 7", "cancel enough")
    assert show(player)["status"] == "running"
    player.play("close")
    shown = show(player)
    assert (shown["status"], shown["output"]) == ("cancelled", None)
    assert shown["error"] == {"kind": "cancelled", "message": "the execution was cancelled"}
    assert [each["status"] for each in shown["steps"]] == ["ok", "cancelled"]


def test_what_is_due_says_when_there_is_no_worker_in_its_pool() -> None:
    player = played(CHAIN)
    document = show_document(read_runs("e", player.log))
    told = with_pool_reasons(document, player.program, lambda _: EMPTY)
    assert [step.why for step in told.steps] == ['waits for a worker: the pool "default" has none']
    assert with_pool_reasons(document, player.program, lambda _: PoolLoad(1, 8, 8)) == document


def test_a_run_whose_frames_wait_for_the_share_of_the_execution_says_so() -> None:
    player = played(CHAIN)
    document = show_document(read_runs("e", player.log))
    waits = [ShareWait("default", 28, 28, ("start#1",))]
    told = with_pool_reasons(document, player.program, lambda _: PoolLoad(2, 32, 30), waits)
    words = (
        'waits for a slot: the execution holds 28 of the 32 slots of the pool "default", its share (NOETL_SLOT_RESERVE)'
    )
    assert [step.why for step in told.steps] == [words]
    other = [ShareWait("default", 28, 28, ("other#1",))]
    assert with_pool_reasons(document, player.program, lambda _: PoolLoad(2, 32, 30), other) == document


def test_what_has_ended_waits_for_no_worker() -> None:
    player = played(CHAIN, "report start#1 ok 7", "report last#1 ok 8")
    document = show_document(read_runs("e", player.log))
    assert with_pool_reasons(document, player.program, lambda _: EMPTY) == document


def test_what_runs_when_a_limit_ends_the_execution_is_stopped() -> None:
    body = """
    executor: {spec: {policy: {limits: {firings: 2}}}}
    workflow:
    - step: start
      tool: {kind: noop}
      next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}
    - {step: a, tool: {kind: http, url: x}}
    - {step: b, tool: {kind: http, url: x}}
    """
    shown = show(played(body))
    assert (shown["status"], shown["error"]["kind"], "step" in shown["error"]) == ("error", "limit", False)
    assert [(each["id"], each["status"]) for each in shown["steps"]] == [
        ("start#1", "ok"), ("a#1", "stopped"), ("start#1>1", "waiting"),
    ]  # fmt: skip


def test_a_request_that_can_not_run_has_an_error_and_no_steps() -> None:
    """D65."""
    player = Player(CHAIN, kinds())
    player.play("refuse keychain no entry")
    assert show(player) == {
        "execution_id": "e",
        "status": "error",
        "output": None,
        "error": {"kind": "keychain", "message": "no entry"},
        "duration_s": 0.0,
        "steps": [],
    }


def test_the_state_at_a_fact_has_its_tokens_and_runs_the_finished_last() -> None:
    player = scenarios()["routing_inclusive_waiting"]
    assert state(player, up_to=10) == {
        "seq": 10,
        "status": "running",
        "workload": {"n": 3},
        "ctx": {},
        "tokens": [{"id": "start#1>2", "step": "c", "waiting": True}],
        "runs": [
            {"id": "a#1", "step": "a", "status": "scheduled"},
            {"id": "start#1", "step": "start", "status": "ok"},
        ],
    }
    assert state(player, up_to=8)["tokens"] == [
        {"id": "start#1>0", "step": "a", "waiting": False},
        {"id": "start#1>2", "step": "c", "waiting": False},
    ]
    loop = state(scenarios()["retried_parallel_loop"], up_to=9)
    assert loop["runs"] == [
        {
            "id": "start#1",
            "step": "start",
            "status": "running",
            "iterations": {"count": 4, "succeeded": 1, "failed": 0},
        }
    ]


def test_the_state_of_a_pause_is_paused() -> None:
    player = played(CHAIN, "pause")
    assert (state(player)["status"], show(player)["status"]) == ("paused", "paused")
