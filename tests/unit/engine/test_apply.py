"""The fold: what the state counts beside its entities is what they say, after every command of every scenario."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import pytest

from noetl.engine import facts
from noetl.engine.apply import advance, apply, fresh_frame, watched_names
from noetl.engine.facts import TaskDone
from noetl.engine.state import Frame, State
from noetl.output import Failure, Output
from noetl.testing.scenario import START, Player, _parts
from tests.playbooks import kinds

SCENARIOS = sorted((Path(__file__).parents[2] / "scenarios").glob("*.txt"))
ERROR = Failure(kind="http", message="no")


def counts_are_right(state: State) -> None:
    own = [run for run in state.runs.values() if run.parent is None]
    assert state.running_at == Counter(run.step for run in own if run.compensates is None)
    assert state.waiting_at == Counter(state.tokens[token].step for token in state.waiting)
    watched: dict[str, dict[str, None]] = {}
    for token, reads in state.waiting.items():
        for name in watched_names(reads):
            watched.setdefault(name, {})[token] = None
    assert state.watched == watched
    spoiled = [each.token.step for each in state.spoiled.values()]
    assert state.broken == Counter([*(run.step for run in state.failed.values()), *spoiled])
    come = [token for tokens in state.joins.values() for token in tokens]
    assert sorted(state.tokens) == sorted([*state.fresh, *state.waiting, *come])
    assert set(state.ended) == {run.id for run in state.runs.values() if run.output is not None}


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_what_is_counted_is_what_is_there(path: Path) -> None:
    _, body, commands = _parts(path.read_text())
    player = Player(body, kinds())
    for _, command in commands:
        player.play(command)
        counts_are_right(player.state)
        snapshot = msgspec.msgpack.decode(msgspec.msgpack.encode(player.state), type=State)
        assert snapshot == player.state


def done(directive: str, following: int, output: Output, call: int = 1) -> TaskDone:
    return msgspec.convert(
        {
            "fact": "task.done", "frame": "a#1", "call": call, "task": "t", "directive": directive,
            "next": following, "output": msgspec.to_builtins(output), "keep": True,
        },
        TaskDone,
    )  # fmt: skip


def test_a_call_moves_its_frame_on() -> None:
    frame = Frame(id="a#1")
    advance(frame, done("continue", 1, Output(data=7)))
    assert (frame.pc, frame.calls, frame.entries, frame.prev, frame.attempt) == (1, 1, 1, 7, 1)
    assert frame.outputs == {"t": {"status": "ok", "data": 7, "meta": {}}}


def test_another_attempt_leaves_what_the_task_has_seen() -> None:
    frame = Frame(id="a#1", prev=1, last=Output(data=1))
    advance(frame, done("retry", 0, Output(status="error", data=2, error=ERROR)))
    assert (frame.pc, frame.calls, frame.entries, frame.attempt) == (0, 1, 0, 2)
    assert (frame.prev, frame.last, frame.outputs) == (1, Output(data=1), {})


def test_a_failure_ends_the_frame_and_remembers_where_d69() -> None:
    frame = Frame(id="a#1", pc=2, prev=1, last=Output(data=1))
    failed = Output(status="error", data=2, error=ERROR)
    advance(frame, done("fail", -1, failed))
    assert (frame.pc, frame.failed_at, frame.last_error) == (-1, 2, ERROR)
    assert (frame.prev, frame.before, frame.last) == (1, Output(data=1), failed)


def test_a_frame_of_which_nothing_is_on_record_takes_no_place() -> None:
    state = State(execution_id="e", status="running", ctx={"x": 1})
    apply(state, facts.StepScheduled(run="a#1", step="a"), START)
    run = state.runs["a#1"]
    assert fresh_frame(run, None) == Frame(id="a#1", ctx={"x": 1})
    assert run.frames == {}


def test_blocks_are_no_firings_of_steps_d70() -> None:
    state = State(execution_id="e", status="running")
    apply(state, facts.StepScheduled(run="a#1", step="a"), START)
    called = facts.FrameParked(frame="a#1", call=1, until=facts.ForBlock(block="b"))
    apply(state, called, START)
    apply(state, facts.StepScheduled(run="a#1/b#1", step="b", parent="a#1"), START)
    assert (state.fired, state.firings, state.running_at) == (1, {"a": 1}, {"a": 1})
