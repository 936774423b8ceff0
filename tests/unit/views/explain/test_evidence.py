"""What guards read is value_text as it stood when they were asked, short and safe to print."""

from __future__ import annotations

from msgspec.structs import replace

from noetl.engine.facts import TaskDone
from noetl.output import Output
from noetl.template.compile import compile_template
from noetl.views.why import VALUE_CHARS_MAX, ArcCheck, SeenValue, seen_by, value_text, why
from tests.unit.views.playing import played


def test_a_value_is_one_short_line() -> None:
    assert value_text({"a": [1, None, "x\x1b[31m"]}) == '{"a":[1,null,"x\\u001b[31m"]}'
    assert len(value_text("x" * 10_000)) == VALUE_CHARS_MAX
    assert value_text("\u202etxt") == '"\\u202etxt"'


def test_each_path_is_seen_once_and_what_is_missing_is_undefined() -> None:
    guard = compile_template("{{ ctx.a > 1 and ctx.a < 5 or ctx.rows[0].id == workload.id }}")
    assert seen_by(guard, {"ctx": {"a": 3, "rows": [{"id": 7}]}, "workload": {}}) == (
        SeenValue(path="ctx.a", value="3"),
        SeenValue(path="ctx.rows[0].id", value="7"),
        SeenValue(path="workload.id", value="undefined"),
    )
    assert seen_by(True, {}) == ()


def test_a_guard_is_shown_what_the_step_had_set_and_not_what_its_arc_set_later() -> None:
    body = """
    workflow:
    - step: start
      tool: {kind: noop}
      set: {ctx.n: 5}
      next: {arcs: [{step: a, when: "{{ ctx.n == 4 }}"}, {step: a, when: "{{ ctx.n == 5 }}", set: {ctx.n: 0}}]}
    - {step: a, tool: {kind: noop}}
    """
    player = played(body)
    (run,) = why(player.program, "e", player.log, "start").runs
    seen = (SeenValue(path="ctx.n", value="5"),)
    assert run.arcs == (
        ArcCheck(place=0, to="a", when="ctx.n == 4", held=False, seen=seen),
        ArcCheck(place=1, to="a", when="ctx.n == 5", held=True, seen=seen),
    )
    assert player.state.ctx == {"n": 0}


def test_data_that_lies_in_a_store_is_not_called_undefined() -> None:
    """D52: the worker has evaluated what reads it."""
    body = """
    workflow:
    - step: start
      tool: {kind: http, url: x}
      set: {ctx.n: "{{ output.data.n }}"}
      next: {arcs: [{step: end, when: "{{ output.data.n > 1 and ctx.n == 5 }}"}]}
    """
    player = played(body, 'report start#1 ok {"n": 5}')
    log = [
        replace(event, fact=replace(event.fact, output=Output(ref={"locator": "x"}), picked={"": {"n": 5}}))
        if isinstance(event.fact, TaskDone)
        else event
        for event in player.log
    ]
    (run,) = why(player.program, "e", log, "start").runs
    assert [(arc.held, arc.seen) for arc in run.arcs] == [
        (
            True,
            (
                SeenValue(path="output.data.n", value="(in the result store)"),
                SeenValue(path="ctx.n", value="5"),
            ),
        )
    ]


def test_an_inclusive_step_shows_each_guard_what_the_arcs_before_it_set() -> None:
    body = """
    workflow:
    - step: start
      tool: {kind: noop}
      next:
        spec: {mode: inclusive}
        arcs:
        - {step: a, set: {ctx.n: 1}}
        - {step: a, when: "{{ ctx.n == 1 }}", set: {ctx.n: 2}}
        - {step: a, when: "{{ ctx.n == 9 }}"}
    - {step: a, tool: {kind: noop}}
    """
    player = played(body)
    (run,) = why(player.program, "e", player.log, "start").runs
    assert [(arc.held, arc.seen) for arc in run.arcs] == [
        (True, ()),
        (True, (SeenValue(path="ctx.n", value="1"),)),
        (False, (SeenValue(path="ctx.n", value="2"),)),
    ]
