"""What is due: in the order of scheduling, and nothing while the execution does not run."""

from __future__ import annotations

from noetl.engine.moves import due, work_of
from noetl.testing.scenario import Player
from tests.playbooks import kinds

BODY = """
workload: {items: [1, 2, 3]}
workflow:
- step: start
  next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}, {step: c}]}
- step: a
  loop: {in: "{{ workload.items }}", iterator: n, spec: {mode: parallel, max_in_flight: 2}}
  tool: [{name: one, kind: http, url: x}, {name: two, kind: http, url: x}]
- step: b
  input: {x: 1}
  tool: {kind: http, url: x}
- step: c
  tool: {kind: playbook, path: child}
"""


def started() -> Player:
    player = Player(BODY, kinds())
    player.play("start")
    return player


def test_frames_are_due_in_the_order_of_scheduling_and_parked_ones_are_not() -> None:
    player = started()
    assert list(due(player.state)) == ["a#1[0]", "a#1[1]", "b#1"]
    player.play("report a#1[0] ok")
    assert list(due(player.state)) == ["a#1[0]", "a#1[1]", "b#1"]


def test_so_many_frames_of_an_execution_may_be_out_at_once_d45() -> None:
    player = started()
    limit = player.program.limits["in_flight"]
    assert limit == 1_000
    assert list(due(player.state, at_most=limit)) == list(due(player.state))
    assert list(due(player.state, at_most=2)) == ["a#1[0]", "a#1[1]"]


def test_nothing_is_due_in_a_pause_and_after_a_cancel_d67_d68() -> None:
    player = started()
    player.play("pause")
    assert list(due(player.state)) == []
    player.play("resume")
    player.play("cancel")
    assert list(due(player.state)) == []


def test_work_is_a_copy_with_the_item_and_not_the_collection_d50() -> None:
    player = started()
    work = work_of(player.program, player.state, "a#1[1]")
    assert work.place.iter == {"index": 1, "n": 2}
    work.frame.pc = 7
    assert work_of(player.program, player.state, "a#1[1]").frame.pc == 0
    assert work_of(player.program, player.state, "b#1").place.input == {"x": 1}
