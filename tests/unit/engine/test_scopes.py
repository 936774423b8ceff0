"""Writes to ctx: values are never changed in place, and they go as far as they may."""

from __future__ import annotations

from noetl.engine.scopes import in_parallel, of_ctx, patched, put, split, view, write
from noetl.engine.state import Frame, LoopState, Run, State
from noetl.output import JSON


def test_put_leaves_what_others_hold() -> None:
    held: dict[str, JSON] = {"a": {"b": 1}, "c": 2}
    assert put(held, ("a", "d"), 3) == {"a": {"b": 1, "d": 3}, "c": 2}
    assert put(held, ("c", "x"), 3) == {"a": {"b": 1}, "c": {"x": 3}}
    assert held == {"a": {"b": 1}, "c": 2}


def test_targets_are_split_and_sorted_by_scope() -> None:
    assert split("ctx.user.name") == ("ctx", ("user", "name"))
    assert of_ctx({"ctx.a.b": 1, "step.c": 2, "iter.d": 3}) == {"a.b": 1}
    assert patched({"a": 1}, {"b.c": 2}) == {"a": 1, "b": {"c": 2}}


def nested(*, parallel: bool) -> State:
    """A block's run, called from an iteration of a step."""
    outer = Run(id="a#1", step="a", loop=LoopState(count=1, width=1, parallel=parallel))
    outer.frames[0] = Frame(id="a#1[0]", index=0)
    inner = Run(id="a#1[0]/b#1", step="b", block=True, parent="a#1[0]")
    return State(execution_id="e", runs={outer.id: outer, inner.id: inner})


def test_a_block_writes_for_its_caller_and_for_the_execution_d28a() -> None:
    state = nested(parallel=False)
    inner = state.runs["a#1[0]/b#1"]
    write(state, inner, {"x": 1})
    frame = state.runs["a#1"].frames[0]
    assert (state.ctx, frame.ctx, frame.written) == ({"x": 1}, {"x": 1}, {})
    assert (view(state, inner), in_parallel(state, inner)) == ({"x": 1}, False)


def test_a_parallel_iteration_keeps_what_its_blocks_write_d47() -> None:
    state = nested(parallel=True)
    inner = state.runs["a#1[0]/b#1"]
    write(state, inner, {"x": 1})
    frame = state.runs["a#1"].frames[0]
    assert (state.ctx, frame.ctx, frame.written) == ({}, {"x": 1}, {"x": 1})
    assert (view(state, inner), in_parallel(state, inner)) == ({"x": 1}, True)
