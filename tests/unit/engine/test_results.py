"""Large outputs: what is recorded of them, what routing reads, what a frame fetches when it is taken up (D51, D52)."""

from __future__ import annotations

from datetime import UTC, datetime
from textwrap import dedent, indent

import pytest

from noetl.engine import facts, handle
from noetl.engine.apply import advance
from noetl.engine.commands import Report, Start
from noetl.engine.facts import Fact, TaskDone
from noetl.engine.pipeline import Decided, Place, RunTask, Work, next_move, take
from noetl.engine.results import absent, pick, recorded, restore, trim
from noetl.engine.state import Frame, State
from noetl.engine.work import work_of
from noetl.net.program import Program, compile_program
from noetl.net.template import compile_template
from noetl.output import JSON, Output
from tests.playbooks import checked, kinds

AT = datetime(2026, 1, 1, tzinfo=UTC)
REF: dict[str, JSON] = {"type": "blob", "locator": {"key": "e/1"}}
ROWS: list[JSON] = [{"id": n, "name": f"row {n}"} for n in range(5_000)]
DATA: dict[str, JSON] = {"rows": ROWS, "total": 5_000, "a.b": {"c": 1}, "text": "x" * 100_000, "short": "abc"}


def program_of(body: str) -> Program:
    found = checked(body)
    assert found.playbook is not None
    assert found.errors == ()
    return compile_program(found.playbook, kinds(), "digest")


def work(rest: str, tasks: str = "{kind: http, url: x}") -> Work:
    program = program_of(f"workflow:\n- step: start\n  tool: {tasks}\n" + indent(dedent(rest), "  "))
    return Work(program.steps["start"].pipeline, Frame(id="start#1"), Place("e", {}, {}, None))


def reading(*expressions: str) -> Work:
    """A step whose `set` reads these."""
    return work("set:\n" + "".join(f'  ctx.v{n}: "{{{{ {each} }}}}"\n' for n, each in enumerate(expressions)))


def taken(ready: Work, output: Output) -> TaskDone:
    move = next_move(ready, AT)
    assert isinstance(move, RunTask)
    return take(ready, move, output, AT)


@pytest.mark.parametrize(
    ("expression", "part"),
    [
        ("output.data.total", {"total": 5_000}),
        ("output.data['a.b'].c", {"a.b": {"c": 1}}),
        ("output.data.nothing.there | default(1)", {}),
        ("output.data.rows[1].id", {"rows": [None, {"id": 1}]}),
        ("output.data.rows[-1].id", {"rows": [{"id": 4_999}]}),
        ("output.data.rows[-2]", {"rows": [{"id": 4_998, "name": "row 4998"}, None]}),
        ("output.data.rows[0].id + output.data.rows[-1].id", {"rows": [{"id": 0}, {"id": 4_999}]}),
        ("output.data.text[0]", {"text": "x"}),
        ("output.data.total.of.what | default(1)", {"total": 5_000}),
        ("output.data.rows.first | default(1)", {"rows": []}),
    ],
)
def test_only_what_is_read_is_picked_d52(expression: str, part: JSON) -> None:
    assert pick(reading(expression), Output(data=DATA)) == {"": part}


@pytest.mark.parametrize(
    "expression",
    [
        "output.data.rows[1].id",
        "output.data.rows[4999].id",
        "output.data.rows[5000].id | default('none')",
        "output.data.rows[-5001].id | default('none')",
        "[output.data.rows[0].id, output.data.rows[-1].name, output.data.rows[-3].id, output.data.rows[2].name]",
        "output.data.text[5000] ~ output.data.text[-1]",
        "output.data.short[9] | default('none')",
        "output.data.text.length | default('none')",
        "output.data['a.b'].c + output.data.total",
        "output.data[0] | default('none')",
    ],
)
def test_a_template_gives_the_same_of_the_part_as_of_the_whole_d52(expression: str) -> None:
    ready = reading(expression)
    picked = pick(ready, Output(data=DATA))
    assert picked is not None
    template = compile_template(f"{{{{ {expression} }}}}")
    assert template({"output": {"data": picked[""]}}) == template({"output": {"data": DATA}})


def test_an_item_that_is_read_from_both_ends_has_all_that_is_read_of_it_d52() -> None:
    ready = reading("output.data[0].a.x", "output.data[-1].b", "output.data[-1].a.y")
    data = [{"a": {"x": 1, "y": 2, "z": 3}, "b": 4, "c": 5}]
    assert pick(ready, Output(data=data)) == {"": [{"a": {"x": 1, "y": 2}, "b": 4}]}


def test_what_is_read_whole_covers_what_is_read_below_it_d52() -> None:
    ready = reading("output.data.deep.a", "output.data.deep")
    assert pick(ready, Output(data={"deep": {"a": 1, "b": 2}, "c": 3})) == {"": {"deep": {"a": 1, "b": 2}}}


@pytest.mark.parametrize("expression", ["output.data", "output", "output.data[ctx.key]"])
def test_what_is_not_known_beforehand_is_the_whole_d52(expression: str) -> None:
    assert pick(reading(expression), Output(data={"small": 1})) == {"": {"small": 1}}


def test_a_part_that_is_itself_too_large_is_a_failure_in_words_d52() -> None:
    assert pick(reading("output.data.rows | length"), Output(data=DATA)) == {
        "too-large": '`set` and arcs of "start" read output.data.rows: 147,790 bytes, and the limit is 65,536; '
        "read a part of it, `set` what you need in the task, or `resolve` output.ref"
    }


def test_nothing_is_picked_when_nothing_is_read_or_a_loop_is_around_it_d52() -> None:
    assert pick(reading("output.status"), Output(data=DATA)) is None
    looped = work("loop: {in: [1], iterator: n}\nset: {ctx.n: '{{ output.data[0].total }}'}\n")
    assert pick(looped, Output(data=DATA)) is None


def test_a_failed_step_picks_what_its_failure_arcs_read_d52() -> None:
    ready = work("""\
        set: {ctx.all: "{{ output.data }}"}
        next:
          arcs:
          - {step: end, when: "{{ output.data.total > 3 }}"}
          - {step: end, when: "{{ event.status == 'error' }}", set: {ctx.row: "{{ output.data.rows[0].id }}"}}
        """)
    assert pick(ready, Output(data=DATA), failed=True) == {"": {"rows": [{"id": 0}]}}


def test_a_large_output_is_recorded_by_its_ref_and_the_frame_keeps_it_whole_d52() -> None:
    ready = reading("output.data.total")
    fact = taken(ready, Output(data=DATA, ref=REF, own={"http": {"status": 200}}))
    kept = recorded(ready, fact)
    assert kept.output == Output(ref=REF, own={"http": {"status": 200}})
    assert kept.picked == {"": {"total": 5_000}}
    advance(ready.frame, fact)
    assert ready.frame.prev == DATA


def test_small_data_stands_in_the_fact_beside_its_ref_d51() -> None:
    ready = reading("output.ref.type")
    assert ready.pipeline.reads_ref
    fact = taken(ready, Output(data=1, ref=REF))
    assert recorded(ready, fact) == fact


def test_the_limit_may_be_set_d51() -> None:
    ready = reading("output.data.n")
    fact = taken(ready, Output(data={"n": 1}, ref=REF))
    assert recorded(ready, fact, inline_max=3).output == Output(ref=REF)


TWO = """
  - {name: fetch, kind: http, url: x}
  - {name: store, kind: noop, input: {rows: "{{ fetch.data.total }}", prev: "{{ _prev.total }}"}, spec: {policy: {rules: [
      {when: "{{ _prev.total == 0 }}", then: {do: skip}}]}}}
"""


def test_only_the_last_output_is_picked_from_also_when_the_task_behind_it_is_skipped_d52() -> None:
    data = {**DATA, "total": 0}
    ready = work("set: {ctx.n: '{{ output.data.total }}'}\n", TWO)
    first = taken(ready, Output(data=data, ref=REF))
    assert recorded(ready, first).picked is None
    advance(ready.frame, first)
    skipped = next_move(ready, AT)
    assert isinstance(skipped, Decided)
    assert recorded(ready, skipped.fact).picked == {"": {"total": 0}}


def test_a_frame_that_is_taken_up_elsewhere_fetches_what_its_tasks_see_whole_d52() -> None:
    ready = work("", TWO)
    elsewhere = Frame(id="start#1")
    fact = taken(ready, Output(data=DATA, ref=REF))
    advance(elsewhere, recorded(ready, fact))
    advance(ready.frame, fact)
    assert absent(elsewhere) == {"last": REF, "task fetch": REF}
    restore(elsewhere, dict.fromkeys(absent(elsewhere), DATA))
    assert elsewhere == ready.frame
    assert absent(elsewhere) == {}
    assert next_move(ready._replace(frame=elsewhere), AT) == next_move(ready, AT)


def test_an_answer_by_reference_is_fetched_before_it_is_taken_d52() -> None:
    frame = Frame(id="start#1", answer=trim(Output(data=DATA), REF))
    assert absent(frame) == {"answer": REF}
    restore(frame, {"answer": DATA})
    assert frame.answer == Output(data=DATA, ref=REF)


ROUTED = """\
    workflow:
    - step: start
      tool: {kind: http, url: x}
      set: {ctx.last: "{{ output.data.rows[-1].id }}", ctx.more: "{{ output.data.next is defined }}"}
      next:
        arcs:
        - {step: big, when: "{{ output.data.total > 3 }}", set: {ctx.first: "{{ output.data.rows[0].id }}"}}
        - {step: end}
    - step: big
      input: {last: "{{ ctx.last }}", first: "{{ ctx.first }}"}
      tool: {kind: http, url: y}
    """


def routed(program: Program, output: Output) -> Fact:
    """What routing decides when the first step has come back with this, as a worker reports it."""
    state = State(execution_id="e")
    handle(program, state, Start(), AT)
    ready = work_of(program, state, "start#1")
    fact = recorded(ready, taken(ready, output))
    made = handle(program, state, Report(frame="start#1", position=0, facts=(fact,), epoch=(1, 1)), AT)
    return next(event.fact for event in made if isinstance(event.fact, facts.NextEvaluated))


def test_routing_is_the_same_with_data_inline_and_by_reference_d52() -> None:
    program = program_of(ROUTED)
    small = {"rows": [{"id": 0}, {"id": 4_999}], "total": 5_000}
    assert routed(program, Output(data=DATA, ref=REF)) == routed(program, Output(data=small))


def test_routing_says_what_it_can_not_read_d52() -> None:
    program = program_of(ROUTED.replace("output.data.total > 3", "output.data.rows | length > 3"))
    decided = routed(program, Output(data=DATA, ref=REF))
    assert isinstance(decided, facts.NextEvaluated)
    assert decided.error is not None
    assert (decided.error.kind, decided.tokens, decided.set) == ("payload-too-large", (), {})
    assert "output.data.rows" in decided.error.message
