"""Routing on parts of data that were picked by the worker, and on what is too large (D52, D55)."""

from __future__ import annotations

from noetl.engine import facts, handle
from noetl.engine.commands import Report
from noetl.engine.facts import TaskDone
from noetl.output import JSON, Output
from noetl.template.compile import compile_value
from noetl.testing.scenario import START, Player
from tests.playbooks import kinds

BODY = """
workflow:
- step: start
  tool: {kind: http, url: x}
  set: {ctx.n: "{{ output.data.rows[0].n }}"}
  next: {arcs: [{step: end, when: "{{ ctx.n == 5 }}"}]}
"""


def routed(body: str, output: Output, picked: dict[str, JSON] | None = None) -> facts.NextEvaluated:
    player = Player(body, kinds())
    player.play("start")
    fact = TaskDone(
        frame="start#1",
        call=1,
        task="start_task",
        directive="continue",
        next=-1,
        output=output,
        picked=picked,
    )
    events = handle(player.program, player.state, Report(frame="start#1", position=0, facts=(fact,)), START)
    [made] = [each.fact for each in events if isinstance(each.fact, facts.NextEvaluated)]
    return made


def test_what_was_picked_stands_for_data_that_is_elsewhere_d52() -> None:
    output = Output(ref={"type": "blob", "locator": "x"})
    [key] = [part.key for part in compile_value("{{ output.data.rows[0].n }}").projected().parts]
    made = routed(BODY, output, {key: {"is": 5}})
    assert made == facts.NextEvaluated(run="start#1", set={"ctx.n": 5}, asked=((0, True),), ended=1)


def test_what_nobody_has_picked_fails_the_routing_and_is_not_taken_for_missing_d52() -> None:
    body = BODY.replace("output.data.rows[0].n", "output.data.rows[0].n | default(5)")
    made = routed(body, Output(ref={"type": "blob", "locator": "x"}), {})
    assert made.error is not None
    assert (made.error.kind, made.set) == ("template", {})
    assert made.error.message.endswith("the part of output.data that it reads is not recorded")


def test_a_step_set_of_a_large_value_belongs_in_the_result_store_d91() -> None:
    body = BODY.replace("output.data.rows[0].n", "output.data")
    made = routed(body, Output(data="x" * 70_000))
    assert made.error is None
    assert made.stored
    assert set(made.stored) <= set(made.set)


def test_a_ref_goes_to_names_that_say_so_d54() -> None:
    body = BODY.replace("output.data.rows[0].n", "output.data")
    made = routed(body, Output(data={"type": "blob", "locator": {"key": "e/1"}}))
    assert made.error is not None
    assert made.error.kind == "reference"


def test_data_that_looks_like_a_ref_of_another_execution_is_data_d99() -> None:
    body = BODY.replace("output.data.rows[0].n", "output.data")
    data = {"type": "blob", "locator": {"key": "other/1"}}
    assert routed(body, Output(data=data)).set == {"ctx.n": data}
