"""Commands that are refused or repeated: cases that a transcript cannot show."""

from __future__ import annotations

from datetime import timedelta

import pytest

from noetl.engine import Recorded, accept, facts, handle
from noetl.engine.commands import Expire, Report, Signal, Start, Wake
from noetl.engine.facts import ForChild, ForSignal, ForTime, FrameParked, TaskDone, Until
from noetl.engine.stored import mark
from noetl.errors import Rejected
from noetl.output import Failure, Output
from noetl.testing.scenario import START, Player, played
from tests.playbooks import kinds

TWO_TASKS = """
workflow:
- step: start
  spec: {policy: {lifecycle: {timeout_s: 10}}}
  tool: [{name: one, kind: http, url: x}, {name: two, kind: http, url: x}]
"""


def player(body: str = TWO_TASKS) -> Player:
    made = Player(body, kinds())
    made.play("start")
    return made


def done(call: int, *, following: int = 1) -> TaskDone:
    return TaskDone(frame="start#1", call=call, task="one", directive="continue", next=following, output=Output())


def report(call: int, *, epoch: tuple[int, int] = (1, 1), parked: Until | None = None, following: int = 1) -> Report:
    until = None if parked is None else FrameParked(frame="start#1", call=call, until=parked)
    made = () if parked else (done(call, following=following),)
    return Report(frame="start#1", position=call - 1, facts=made, parked=until, epoch=epoch)


def test_an_execution_is_started_once() -> None:
    with pytest.raises(Rejected, match="already-started"):
        accept(player().program, player().state, Start(), START)


def test_a_child_that_is_nested_too_deep_is_refused_on_record_d70_d65() -> None:
    made = Player(TWO_TASKS, kinds())
    limit = made.program.limits["depth"]
    told = accept(made.program, made.state, Start(depth=limit + 1), START)
    error = Failure(
        kind="limit",
        message="children are nested deeper than limits.depth (16)",
        details={"limit": "depth"},
    )
    assert told[1:] == [facts.Evaluated(error=error), facts.Processed(status="error")]


def test_the_workload_of_a_child_is_no_stored_value_d91() -> None:
    made = Player(TWO_TASKS, kinds())
    workload = mark({"type": "blob", "locator": {"key": "other/1"}})
    told = accept(made.program, made.state, Start(workload=workload, parent="e/start#1@1", depth=1), START)
    error = Failure(kind="input", message='the input of the call contains the key "$stored", which is reserved')
    assert told[1:] == [facts.Evaluated(error=error), facts.Processed(status="error")]


def test_the_first_fact_of_a_grant_carries_its_epoch() -> None:
    made = player()
    told = accept(made.program, made.state, report(1, epoch=(2, 3)), START)
    assert [fact.epoch for fact in told if isinstance(fact, TaskDone)] == [(2, 3)]
    made._handle(report(1, epoch=(2, 3)))
    told = accept(made.program, made.state, report(2, epoch=(2, 3), following=-1), START)
    assert [fact.epoch for fact in told if isinstance(fact, TaskDone)] == [None]


def test_a_report_that_is_on_record_is_answered_and_changes_nothing() -> None:
    made = player()
    made._handle(report(1))
    with pytest.raises(Recorded):
        accept(made.program, made.state, report(1), START)


def test_a_report_from_a_place_that_the_frame_has_not_reached_is_refused() -> None:
    made = player()
    with pytest.raises(Rejected, match="ahead"):
        accept(made.program, made.state, report(2), START)


def test_an_older_hand_is_refused() -> None:
    made = player()
    made._handle(report(1, epoch=(2, 1)))
    with pytest.raises(Rejected, match="fenced"):
        accept(made.program, made.state, report(2, epoch=(1, 9)), START)


def test_a_report_that_parked_its_frame_is_on_record_also_when_the_frame_goes_on() -> None:
    made = player()
    parks = report(1, parked=ForChild(execution_id="c", path="p"))
    made._handle(parks)
    with pytest.raises(Recorded):
        accept(made.program, made.state, parks, START)
    made._handle(Wake(frame="start#1", output=Output()))
    with pytest.raises(Recorded):
        accept(made.program, made.state, parks, START)
    assert accept(made.program, made.state, report(1, epoch=(1, 2)), START)


def test_a_report_on_an_iteration_that_is_not_out_is_on_record() -> None:
    made = player()
    with pytest.raises(Recorded):
        accept(made.program, made.state, Report(frame="start#1[0]", position=0, started_at=START), START)


def test_a_call_that_takes_long_is_reported_as_started_and_its_time_runs_d33() -> None:
    made = player()
    told = accept(made.program, made.state, Report(frame="start#1", position=0, started_at=START), START)
    assert told == [facts.StepStarted(run="start#1", timeout_at=START + timedelta(seconds=10))]


def test_a_step_that_starts_in_a_pause_gets_its_whole_time_when_it_ends_d33_d67() -> None:
    made = player()
    made.play("pause")
    made.at += timedelta(seconds=4)
    made._handle(report(1))
    made.at += timedelta(seconds=4)
    made.play("resume")
    assert made.state.runs["start#1"].timeout_at == START + timedelta(seconds=8 + 10)


def test_time_wakes_a_frame_and_not_before_its_time() -> None:
    made = player()
    made._handle(report(1, parked=ForTime(at=START + timedelta(seconds=5))))
    with pytest.raises(Rejected, match="not-yet"):
        accept(made.program, made.state, Wake(frame="start#1"), START + timedelta(seconds=4))
    told = accept(made.program, made.state, Wake(frame="start#1"), START + timedelta(seconds=5))
    # A task that waits has nothing to give back but that it is over; a retry continues with its next call.
    assert told == [facts.FrameResumed(frame="start#1", output=Output())]


def test_a_wake_for_an_earlier_call_is_on_record() -> None:
    made = player()
    made._handle(report(1, parked=ForChild(execution_id="c", path="p")))
    made._handle(Wake(frame="start#1", output=Output(), call=1))
    made._handle(report(1, epoch=(1, 2)))
    made._handle(report(2, epoch=(1, 3), parked=ForChild(execution_id="d", path="p")))
    with pytest.raises(Recorded):
        accept(made.program, made.state, Wake(frame="start#1", output=Output(), call=1), START)
    assert accept(made.program, made.state, Wake(frame="start#1", output=Output(), call=2), START)


def test_nobody_but_its_block_wakes_a_frame_that_has_called_one() -> None:
    made = player(
        "workflow:\n- step: start\n  tool: {kind: workbook, block: b}\nworkbook:\n  b: {tool: {kind: http, url: x}}\n"
    )
    with pytest.raises(Recorded):
        accept(made.program, made.state, Wake(frame="start#1", output=Output()), START)


def test_a_signal_that_nobody_waits_for_is_refused() -> None:
    made = player()
    with pytest.raises(Rejected, match="nobody-waits"):
        accept(made.program, made.state, Signal(name="go"), START)


def test_a_worker_that_does_not_know_of_a_signal_does_not_wait_for_it_again() -> None:
    """It has the frame from before a late commit: the wait has begun and ended in the log meanwhile."""
    made = player("\nworkflow:\n- {step: start, tool: {kind: wait, signal: approval}}\n")  # the player parks it
    made._handle(Signal(name="approval", data=1))
    with pytest.raises(Rejected, match="fenced"):
        accept(made.program, made.state, report(1, epoch=(1, 2), parked=ForSignal(name="approval")), START)


def test_a_run_that_has_ended_does_not_expire() -> None:
    made = player()
    with pytest.raises(Recorded):
        accept(made.program, made.state, Expire(run="start#2"), START)


CALLED = """\
playbook
  workflow:
  - step: call
    tool:
    - name: child
      kind: playbook
      path: some/child
      spec: {policy: {rules: [{when: "{{ output.status == 'error' }}", then: {do: DIRECTIVE}},
        {else: {then: {do: continue}}}]}}
    - {name: after, kind: http, url: x}
  executor: {spec: {entry_step: call}}

start

wake call#1 error playbook
"""
WENT_ON = CALLED.replace("DIRECTIVE", "continue")
ENDED = CALLED.replace("DIRECTIVE", "fail")
AGAIN = CALLED.replace("DIRECTIVE", "retry")
RETRIED = ENDED + "\nretry\n"
LATE = Wake(frame="call#1", output=Output(data=1), call=1)


def children(parent: Player) -> list[tuple[str, int, str]]:
    """Who called a child: the frame, its call, the child."""
    return [
        (event.fact.frame, event.fact.call, event.fact.until.execution_id)
        for event in parent.log
        if isinstance(event.fact, facts.FrameParked) and isinstance(event.fact.until, ForChild)
    ]


@pytest.mark.parametrize("scenario", [WENT_ON, AGAIN, RETRIED], ids=["went on", "called again", "was retried"])
def test_a_child_that_ends_once_more_changes_nothing_for_a_parent_that_lives_d58(scenario: str) -> None:
    parent = played(scenario, kinds())
    before = parent.state.seq
    with pytest.raises(Recorded):
        handle(parent.program, parent.state, LATE, START, parent.agenda)
    assert parent.state.seq == before


def test_a_parent_that_has_ended_refuses_it_d58() -> None:
    parent = played(ENDED, kinds())
    before = parent.state.seq
    with pytest.raises(Rejected, match="has ended"):
        handle(parent.program, parent.state, LATE, START, parent.agenda)
    assert parent.state.seq == before


def test_a_parent_that_is_retried_calls_another_child_d58() -> None:
    [(first, _, one), (second, _, other)] = children(played(RETRIED, kinds()))
    assert (first, second) == ("call#1", "call#2")
    assert one != other


def test_another_attempt_calls_another_child_d58() -> None:
    [(_, first, one), (_, second, other)] = children(played(AGAIN, kinds()))
    assert (first, second) == (1, 2)
    assert one != other
