"""Running loops: ranges instead of records (D50), for any order in which iterations end."""

from __future__ import annotations

import itertools
import math

import msgspec
import pytest

from noetl.engine import facts
from noetl.engine.apply import apply
from noetl.engine.facts import TaskDone
from noetl.engine.loop_state import LOST_FRAMES_MAX, RESULTS_BYTES_MAX, folded
from noetl.engine.state import LoopState, Run, State
from noetl.engine.stored import NeedsValues, filled, key_of, mark
from noetl.output import JSON, Failure, Output
from noetl.testing.scenario import START

ERROR = Failure(kind="http", message="no")


def looping(count: int, width: int, reduce: dict[str, str], ctx: dict[str, JSON] | None = None) -> State:
    state = State(execution_id="e", status="running", ctx=ctx or {})
    apply(state, facts.StepScheduled(run="a#1", step="a"), START)
    started = facts.LoopStarted(run="a#1", count=count, items=None, width=width, parallel=True, reduce=reduce)
    apply(state, started, START)
    return state


def loop_of(state: State) -> LoopState:
    loop = state.runs["a#1"].loop
    assert loop is not None
    return loop


def land(state: State, index: int, written: dict[str, JSON], data: JSON = None) -> None:
    fact = TaskDone(
        frame=f"a#1[{index}]", call=1, task="t", directive="continue", next=-1, output=Output(data=data),
        set=written,
    )  # fmt: skip
    apply(state, fact, START)
    apply(state, facts.IterationDone(run="a#1", index=index), START)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_the_order_of_landing_changes_nothing_d47(order: tuple[int, ...]) -> None:
    reduce = {"sum": "sum", "all": "append", "last": "last", "map": "merge"}
    state = looping(4, 4, reduce, {"all": ["start"]})
    for index in order:
        writes = {"ctx.sum": 0.1 * index, "ctx.all": index, "ctx.last": index, "ctx.same": True}
        land(state, index, {**writes, "ctx.map": {"k": {"x": index} if index % 2 else index}})
    values: dict[str, JSON] = {
        "sum": math.fsum(0.1 * index for index in range(4)),
        "all": ["start", 0, 1, 2, 3],
        "last": 3,
        "same": True,
        "map": {"k": {"x": 3}},
    }
    made, failure = folded(loop_of(state))
    assert failure is None
    assert {key: made[key] for key in sorted(made)} == {key: values[key] for key in sorted(values)}


def test_pieces_are_as_many_as_holes_while_the_first_iteration_is_stuck_d50() -> None:
    state = looping(5_000, 10, {"n": "count"})
    loop = loop_of(state)
    sizes = set()
    while loop.frontier < loop.count:
        land(state, next(reversed(loop.flying)), {"ctx.n": 1})
        sizes.add((len(loop.pieces), len(loop.ends), len(state.runs["a#1"].frames)))
    assert max(sizes) == (1, 1, 0)
    for index in list(loop.flying):
        land(state, index, {"ctx.n": 1})
    assert folded(loop) == ({"n": 5_000}, None)
    assert len(loop.pieces) == 1


def test_state_after_many_iterations_is_as_large_as_what_is_in_flight_d50() -> None:
    sizes = []
    for count in (2_000, 20_000):
        state = looping(count, 10, {"n": "sum"})
        for index in range(count - 10):
            land(state, index, {"ctx.n": 1}, data="x" * 40)
        sizes.append(len(msgspec.msgpack.encode(state)))
    assert sizes[1] - sizes[0] < 50
    assert sizes[1] < 2_000


def test_iterations_that_all_fail_are_a_range_and_a_bounded_number_of_frames_d50_d69() -> None:
    state = looping(3_000, 1, {})
    loop = loop_of(state)
    for index in range(3_000):
        apply(state, facts.IterationFailed(run="a#1", index=index, error=ERROR), START)
    assert (len(loop.lost), loop.pieces, loop.failed) == (LOST_FRAMES_MAX, {}, 3_000)


def test_results_are_kept_while_they_are_small_nulls_and_failures_counted_d30() -> None:
    state = looping(RESULTS_BYTES_MAX // 5 + 2, 1, {})
    loop = loop_of(state)
    for index in range(RESULTS_BYTES_MAX // 5):
        land(state, index, {})
    assert loop.results == {}
    land(state, RESULTS_BYTES_MAX // 5, {})
    assert loop.results is None


def test_a_result_that_lies_in_a_store_sends_all_results_to_the_log_d30() -> None:
    state = looping(2, 1, {})
    output = Output(ref={"type": "blob", "locator": "x"})
    fact = TaskDone(frame="a#1[0]", call=1, task="t", directive="continue", next=-1, output=output)
    apply(state, fact, START)
    apply(state, facts.IterationDone(run="a#1", index=0), START)
    assert loop_of(state).results is None


def test_a_folded_value_that_grows_too_large_ends_the_loop_d55() -> None:
    state = looping(100, 1, {"all": "append"})
    loop = loop_of(state)
    for index in range(7):
        land(state, index, {"ctx.all": "x" * 10_000_000})
    message = '"ctx.all" is over 67,108,864 bytes: keep references instead'
    assert loop.conflict == Failure(kind="payload-too-large", message=message)
    assert (loop.flying, loop.stopped) == ({}, True)


def test_stored_values_are_folded_by_a_worker_in_the_order_of_the_iterations_d91() -> None:
    state = looping(4, 4, {"all": "extend"})
    stored = {key: mark({"type": "blob", "locator": {"key": key}}) for key in ("e/1", "e/3")}
    land(state, 3, {"ctx.all": stored["e/3"]})
    land(state, 0, {"ctx.all": [0]})
    land(state, 2, {"ctx.all": [2]})
    land(state, 1, {"ctx.all": stored["e/1"]})
    loop = loop_of(state)
    with pytest.raises(NeedsValues):
        folded(loop)
    values = {key_of(each["$stored"]): [index] for each, index in zip(stored.values(), (1, 3), strict=True)}
    filled_loop = msgspec.convert(filled(msgspec.to_builtins(loop), values), LoopState)
    assert folded(filled_loop) == ({"all": [0, 1, 2, 3]}, None)


def test_no_iteration_is_handed_out_in_a_pause_d67() -> None:
    state = looping(3, 1, {})
    apply(state, facts.Paused(), START)
    land(state, 0, {})
    assert loop_of(state).flying == {}
    apply(state, facts.Resumed(), START)
    assert loop_of(state).flying == {1: None}


def test_a_run_without_a_loop_hands_out_nothing() -> None:
    state = State(execution_id="e", status="running")
    apply(state, facts.StepScheduled(run="a#1", step="a"), START)
    assert state.runs == {"a#1": Run(id="a#1", step="a", scheduled_at=START)}
