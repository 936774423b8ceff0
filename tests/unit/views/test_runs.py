"""What is remembered of runs stays small, and agrees with the state."""

from __future__ import annotations

from msgspec.structs import replace

from noetl.engine.facts import TaskDone
from noetl.output import JSON
from noetl.views.documents import read_runs, show_document
from noetl.views.replay import differences
from noetl.views.runs import Runs
from tests.unit.views.playing import played, scenarios


def test_every_run_of_every_scenario_is_remembered_as_the_state_has_it() -> None:
    for name, player in scenarios().items():
        runs = read_runs("e", player.log)
        assert differences(runs.state, player.state) == []
        live = {record.id for record in runs.records() if record.ended_at is None}
        assert live == {run.id for run in player.state.runs.values() if run.output is None}, name


def test_only_what_runs_can_wait_and_only_what_failed_has_an_error() -> None:
    for player in scenarios().values():
        for record in read_runs("e", player.log).records():
            assert record.waits_for is None or record.ended_at is None
            assert (record.error is not None) == (record.status in ("error", "cancelled"))
            assert record.status == "error" or not record.handled


def test_what_a_loop_has_printed_is_that_of_the_iteration_whose_failure_counts() -> None:
    player = scenarios()["loop_error_of_the_lowest_index"]
    runs = Runs("e")
    for event in player.log:
        fact = event.fact
        if isinstance(fact, TaskDone) and fact.output is not None:
            own: dict[str, JSON] = {"py": {"stdout": f"here is {fact.frame}\n", "stderr": ""}}
            fact = replace(fact, output=replace(fact.output, own=own))
        runs.feed(replace(event, fact=fact))
    assert (runs.failed_iteration, runs.printed) == (1, "here is start#1[1]")
    assert sorted(runs.steps["start#1"].failures) == [1, 2]


def test_what_an_error_says_already_is_not_told_as_printed() -> None:
    player = played("workflow: [{step: start, tool: {kind: http, url: x}}]\n", "report start#1 error http")
    runs = Runs("e")
    for event in player.log:
        fact = event.fact
        if isinstance(fact, TaskDone) and fact.output is not None and fact.output.error is not None:
            said: dict[str, JSON] = {"stdout": fact.output.error.message[1:], "stderr": "\n"}
            fact = replace(fact, output=replace(fact.output, own={"shell": said}))
        runs.feed(replace(event, fact=fact))
    assert (runs.state.failure is not None, runs.printed) == (True, "")


PIPELINE = """
workflow:
- step: start
  tool: [{name: one, kind: http, url: x}, {name: two, kind: http, url: x}]
"""


def test_a_call_that_takes_long_is_remembered_while_it_runs_d94() -> None:
    player = played(PIPELINE, "report start#1 ok", "running start#1 3")
    record = read_runs("e", player.log).steps["start#1"]
    assert (record.status, record.waits_for, [each.task for each in record.running.values()]) == (
        "running", None, ["two"],
    )  # fmt: skip
    player.play("lose start#1 worker-1")
    record = read_runs("e", player.log).steps["start#1"]
    assert (record.running, record.lost) == ({}, 1)
    assert record.waits_for == 'for another worker: worker-1 was lost in task "two"'
    player.play("running start#1")
    assert read_runs("e", player.log).steps["start#1"].waits_for is None
    player.play("report start#1 ok")
    record = read_runs("e", player.log).steps["start#1"]
    assert (record.status, record.running, record.lost) == ("ok", {}, 1)


def test_the_calls_of_a_loop_that_take_long_are_listed_up_to_a_number_d94() -> None:
    loop = """
workflow:
- step: start
  loop: {in: [1, 2, 3, 4, 5, 6, 7], iterator: n, spec: {mode: parallel}}
  tool: {name: one, kind: http, url: x}
"""
    player = played(loop, *(f"running start#1[{index}] 2" for index in (6, 5, 4, 3, 2, 1, 0)))
    [step] = show_document(read_runs("e", player.log)).steps
    assert [(each.id, each.duration_s) for each in step.running] == [(f"start#1[{n}]/1", 2.0) for n in range(5)]
    assert step.running_left_out == 2
