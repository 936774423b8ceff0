"""What is kept for a retry: what failed, and nothing of what went well (D69)."""

from __future__ import annotations

import msgspec

from noetl.engine.state import Frame, Run, State
from noetl.output import Failure
from noetl.testing.scenario import Player
from tests.playbooks import kinds

ERROR = Failure(kind="http", message="it did not work")


def played(body: str, *commands: str) -> State:
    player = Player(body, kinds())
    for command in ("start", *commands):
        player.play(command)
    return player.state


def test_of_a_failed_run_its_frame_is_kept_at_the_task_that_failed_d69() -> None:
    state = played(
        """
        workflow:
        - step: start
          tool:
          - {name: one, kind: http, url: x, set: {step.x: 1, ctx.y: 2}}
          - {name: two, kind: http, url: x}
        """,
        "report start#1 ok 7",
        "report start#1 error http",
    )
    kept = state.failed["start#1"]
    frame = kept.frames[None]
    assert (frame.pc, frame.prev, frame.step, frame.entries, frame.ctx) == (1, 7, {"x": 1}, 1, {})
    assert frame.last is not None
    assert frame.last.data == 7
    assert (kept.failure, kept.output, state.runs, state.broken) == (ERROR, None, {}, {"start": 1})


def test_of_a_loop_only_iterations_that_failed_are_kept_d69() -> None:
    items = list(range(50))
    state = played(
        f"""
        workload: {{items: {items}}}
        workflow:
        - step: start
          loop: {{in: "{{{{ workload.items }}}}", iterator: n}}
          tool: {{kind: http, url: x}}
          spec: {{policy: {{failure: {{mode: best_effort}}}}}}
        """,
        *(f"report start#1[{index}] {'error http' if index == 30 else 'ok'}" for index in items),
    )
    loop = state.mended["start"].loop
    assert loop is not None
    assert loop.lost == {30: Frame(id="start#1[30]", index=30)}
    assert (loop.again, loop.flying, loop.succeeded, loop.failed) == ([(30, 31)], {}, 49, 1)
    assert state.failed == {}


def test_a_step_that_keeps_failing_and_is_handled_is_kept_once() -> None:
    state = played(
        """
        workflow:
        - step: start
          tool: {kind: http, url: x}
          next: {arcs: [{step: start, when: "{{ event.status == 'error' }}"}]}
        """,
        *(f"report start#{run} error http" for run in range(1, 30)),
    )
    assert [run.id for run in state.mended.values()] == ["start#29"]


def test_nothing_is_kept_of_an_execution_that_went_well() -> None:
    state = played("workflow:\n- step: start\n  tool: {kind: noop}\n")
    empty: dict[str, Run] = {}
    assert (state.failed, state.mended, state.spoiled, state.runs, state.tokens) == (empty, {}, {}, {}, {})


def test_a_snapshot_of_an_ended_execution_can_be_retried() -> None:
    player = Player("workflow:\n- step: start\n  tool: {kind: http, url: x}\n", kinds())
    player.play("start")
    player.play("report start#1 error http")
    player.state = msgspec.msgpack.decode(msgspec.msgpack.encode(player.state), type=State)
    player.play("retry")
    player.play("report start#2 ok")
    assert player.state.status == "ok"


def test_of_two_failures_the_one_that_is_not_retried_stays_d69() -> None:
    state = played(
        """
        workflow:
        - step: start
          next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}
        - step: a
          tool: {kind: http, url: x}
        - step: b
          tool: {kind: http, url: x}
        """,
        "report a#1 error http",
        "report b#1 error other",
        "retry a",
        "report a#2 ok",
    )
    assert (state.status, state.broken, list(state.failed)) == ("error", {"b": 1}, ["b#1"])
    assert state.failure == Failure(kind="other", message="it did not work")
