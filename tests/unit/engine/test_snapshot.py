"""Snapshots: the same state comes back, what is shared is written once, and cost does not grow with history (D50)."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec import Struct, field

from noetl.engine import handle
from noetl.engine.commands import Report, Start
from noetl.engine.facts import TaskDone, Token
from noetl.engine.snapshot import freeze, freeze_slices, schema, shape_of, thaw
from noetl.engine.state import Frame, LoopState, Run, State
from noetl.output import JSON, Failure, Output
from noetl.testing.scenario import Player, played
from tests.playbooks import kinds

AT = datetime(2026, 1, 1, tzinfo=UTC)
SCENARIOS = sorted((Path(__file__).parents[2] / "scenarios").glob("retried_*.txt"))
LARGE = ["x" * 100] * 300


def crowd(count: int, ctx: dict[str, JSON]) -> State:
    """A parallel loop with so many frames under way; each sees the same ctx."""
    state = State(execution_id="e", seq=9, at=AT, status="running", ctx=ctx)
    frames: dict[int | None, Frame] = {
        index: Frame(id=f"s#1[{index}]", index=index, ctx=ctx, pc=1, calls=1) for index in range(count)
    }
    loop = LoopState(count=count, width=count, parallel=True, start=ctx, flying=dict.fromkeys(range(count)))
    state.runs["s#1"] = Run(id="s#1", step="s", ctx=ctx, frames=frames, loop=loop, looped=True)
    return state


def test_a_state_comes_back_as_it_was() -> None:
    output = Output(data={"n": 2**70}, error=Failure(kind="http", message="no"))
    token = Token(id="a#1>0", step="b", input={"n": 1}, deadline_at=AT)
    state = State(execution_id="e", status="error", tokens={"a#1>0": token}, last_output=output)
    state.runs["a#1"] = Run(id="a#1", step="a", frames={None: Frame(id="a#1", prev="x" * 100, last=output)})
    state.runs["b#1"] = Run(
        id="b#1",
        step="b",
        frames={0: Frame(id="b#1[0]", block=Run(id="b#1[0]/c#1", step="c", frames={None: Frame(id="f")}))},
        loop=LoopState(count=2, width=1, parallel=False, results={0: [1]}, lost={1: Frame(id="b#1[1]", prev=[1])}),
    )
    assert thaw(freeze(state)) == state


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_an_execution_comes_back_as_it_was_after_every_command(path: Path) -> None:
    told = path.read_text()
    for end in [match.start() for match in re.finditer(r"^----$", told, re.MULTILINE)]:
        state = played(told[:end], kinds()).state
        assert thaw(freeze(state)) == state


def test_keys_keep_their_order() -> None:
    ctx: dict[str, JSON] = {"z": [1], "a": 1, "m": {"q": [1], "b": 2}}
    back = thaw(freeze(State(execution_id="e", ctx=ctx))).ctx
    assert (list(back), list(back["m"])) == (["z", "a", "m"], ["q", "b"])


def test_what_many_frames_hold_together_is_written_once_and_held_once() -> None:
    ctx: dict[str, JSON] = {"large": LARGE}
    frozen = freeze(crowd(100, ctx))
    assert frozen.count(b"x" * 100) == len(LARGE)
    back = thaw(frozen)
    assert all(frame.ctx is back.ctx for frame in back.runs["s#1"].frames.values())
    assert freeze(back) == frozen


def test_a_large_state_is_written_in_small_steps() -> None:
    """Otherwise other executions would wait for it: a state with 20,000 runs takes 0.1 s."""
    runs = {f"s#{number}": Run(id=f"s#{number}", step="s", input={"n": number}) for number in range(5_000)}
    state = State(execution_id="e", runs=runs)
    steps, written = 0, b""
    work = freeze_slices(state)
    while not written:
        try:
            next(work)
            steps += 1
        except StopIteration as end:
            written = end.value
    assert steps >= 3 * len(runs)  # a run, its text, and its input are three steps
    assert thaw(written) == state


def test_mappings_that_differ_in_one_value_share_the_others() -> None:
    ctx: dict[str, JSON] = {"large": LARGE, "user": {"rows": LARGE}}
    state = crowd(100, ctx)
    for index, frame in state.runs["s#1"].frames.items():
        frame.ctx = {**ctx, "user": {"rows": LARGE, "n": index}}
    frozen = freeze(state)
    assert frozen.count(b"x" * 100) == len(LARGE)
    assert thaw(frozen) == state


def test_data_that_a_frame_holds_in_several_places_is_written_once() -> None:
    data = {"rows": LARGE}
    frame = Frame(id="a#1", prev=data, last=Output(data=data), outputs={"t": Output(data=data).view()})
    state = State(execution_id="e", runs={"a#1": Run(id="a#1", step="a", frames={None: frame})})
    assert freeze(state).count(b"x" * 100) == len(LARGE)
    assert thaw(freeze(state)) == state


LOOP = """
workflow:
- step: start
  loop: {in: "{{ range(5000) }}", iterator: n, spec: {mode: parallel, max_in_flight: 5}}
  tool: {kind: http, url: x}
"""


def test_a_long_loop_takes_no_more_room_late_than_early_d50() -> None:
    player = Player(LOOP, kinds())
    state = player.state
    handle(player.program, state, Start(), AT, player.agenda)
    sizes = []
    for index in range(4_990):
        fact = TaskDone(frame=f"start#1[{index}]", call=1, task="start_task", directive="continue", next=-1)
        report = Report(frame=fact.frame, position=0, facts=(fact,))
        handle(player.program, state, report, AT, player.agenda)
        loop = state.runs["start#1"].loop
        assert loop is not None
        loop.items, loop.ref = None, {"type": "blob", "locator": "x"}  # as one whose items are in a store
        sizes.append(len(freeze(state)) if index in (50, 4_989) else 0)
    assert 0 < max(sizes) < 2_000


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b'[{"execution_id":"e"},[],[],{}]',
        b'[{"execution_id":"e"},[7,0],[],{}]',
        b'[{"execution_id":"e"},[-1,-1],[1],{"0":{}}]',
    ],
)
def test_bytes_that_are_no_snapshot_are_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="not a snapshot of a state"):
        thaw(body)


class Early(Struct, omit_defaults=True):
    n: int = 1


class Late(Struct, omit_defaults=True):
    n: int = 2


class Wide(Struct):
    many: dict[str, list[Early]] = field(default_factory=dict)
    late: Late | None = None


def test_the_shape_of_a_state_is_that_of_all_that_is_in_it() -> None:
    assert shape_of(Wide)["Early"] == ["None", "n: <class 'int'> = 1"]
    assert set(shape_of(Wide)) == {"Wide", "Early", "Late"}
    wanted = {
        "State",
        "Run",
        "Frame",
        "LoopState",
        "LoopPiece",
        "Spoiled",
        "Token",
        "Output",
        "Failure",
        "ForChild",
    }
    assert wanted < set(shape_of(State))


def test_another_default_is_another_shape() -> None:
    assert shape_of(Early)["Early"] != shape_of(Late)["Late"]


def test_the_shape_has_a_name_and_no_addresses_in_it() -> None:
    assert re.fullmatch("[0-9a-f]{16}", schema())
    assert "0x" not in str(shape_of(State))
