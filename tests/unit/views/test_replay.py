"""Replay: a state is compared with its log, and every difference is reported."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from noetl.engine.state import State
from noetl.views.log import folded
from noetl.views.replay import DIFFERENCES_MAX, ReplayDifference, canonical, differences, replayed
from tests.unit.views.playing import played, scenarios

LOOP = """
workload: {items: [1, 2, 3]}
workflow:
- step: start
  loop: {in: "{{ workload.items }}", iterator: n, spec: {mode: parallel, max_in_flight: 2}}
  tool: {kind: http, url: x, set: {iter.n: "{{ iter.n }}"}}
"""
_snapshot = msgspec.msgpack.Encoder().encode
_state = msgspec.msgpack.Decoder(State).decode


def copy(state: State) -> State:
    return _state(_snapshot(state))


def test_every_scenario_replays_to_the_state_that_it_left_live() -> None:
    for name, player in scenarios().items():
        assert replayed("e", player.log, player.state) == [], name
        assert canonical(folded("e", player.log)) == canonical(player.state)


def test_a_state_of_earlier_is_compared_with_the_log_up_to_there() -> None:
    player = scenarios()["retried_parallel_loop"]
    earlier = folded("e", player.log, up_to=11)
    assert replayed("e", player.log, copy(earlier)) == []
    earlier.seq = 10
    assert differences(folded("e", player.log, up_to=10), earlier) != []


def test_each_difference_has_its_path_and_both_values() -> None:
    player = played(LOOP, "report start#1[0] ok")
    other = copy(player.state)
    run = other.runs["start#1"]
    assert run.loop is not None
    run.loop.succeeded = 2
    run.input = {"x": [1, {"y": None}]}
    other.ctx = {"total": 3}
    other.broken["start"] = 1
    assert replayed("e", player.log, other) == [
        ReplayDifference(path='ctx["total"]', folded="", other="3"),
        ReplayDifference(path='runs["start#1"].input["x"]', folded="", other='[1,{"y":null}]'),
        ReplayDifference(path='runs["start#1"].loop.succeeded', folded="1", other="2"),
        ReplayDifference(path='broken["start"]', folded="", other="1"),
    ]


def test_the_order_of_what_is_live_is_a_part_of_the_state() -> None:
    player = played(LOOP)
    other = copy(player.state)
    loop = other.runs["start#1"].loop
    assert loop is not None
    loop.flying = dict.fromkeys(reversed(loop.flying))
    assert differences(player.state, other) == [
        ReplayDifference(path='runs["start#1"].loop.flying (order)', folded='["0","1"]', other='["1","0"]')
    ]


def test_types_and_lengths_count() -> None:
    state = State(execution_id="e", ctx={"a": 1, "b": [1, 2], "c": True})
    other = State(execution_id="e", ctx={"a": 1.0, "b": [1], "c": 1})
    assert differences(state, other) == [
        ReplayDifference(path='ctx["a"]', folded="1", other="1.0"),
        ReplayDifference(path='ctx["b"][1]', folded="2", other=""),
        ReplayDifference(path='ctx["c"]', folded="true", other="1"),
    ]


def test_what_differs_everywhere_is_told_up_to_a_number_and_cut_to_a_size() -> None:
    state = State(execution_id="e", ctx={str(number): number for number in range(1_000)})
    assert len(differences(state, State(execution_id="e"))) == DIFFERENCES_MAX
    (found,) = differences(state, replace(state, path="x" * 1_000))
    assert (found.path, found.folded, len(found.other)) == ("path", '""', 200)


def test_the_canonical_form_does_not_depend_on_the_order_of_filling() -> None:
    one = State(execution_id="e", ctx={"a": 1, "b": 2})
    other = State(execution_id="e", ctx={"b": 2, "a": 1})
    assert canonical(one) == canonical(other)
    assert canonical(one) != canonical(State(execution_id="e", ctx={"a": 1, "b": 3}))
