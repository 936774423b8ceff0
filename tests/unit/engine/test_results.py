"""Large outputs: what is recorded, what routing reads, what a continued frame fetches (D51, D52)."""

from __future__ import annotations

from datetime import UTC, datetime
from textwrap import dedent, indent

import pytest
from msgspec.structs import replace

from noetl.engine import facts, handle
from noetl.engine.apply import advance
from noetl.engine.commands import Report, Start
from noetl.engine.facts import Fact, TaskDone
from noetl.engine.moves import Decided, FramePlace, RunTask, Work, work_of
from noetl.engine.pipeline import next_move, take
from noetl.engine.results import absent, pick, recorded, restore, trim
from noetl.engine.state import Frame, State
from noetl.net.program import Program
from noetl.output import JSON, Output
from tests.playbooks import checked

AT = datetime(2026, 1, 1, tzinfo=UTC)
REF: dict[str, JSON] = {"type": "blob", "locator": {"key": "e/1"}}
ROWS: list[JSON] = [{"id": n, "name": f"row {n}"} for n in range(5_000)]
DATA: dict[str, JSON] = {
    "rows": ROWS,
    "total": 5_000,
    "a.b": {"c": 1},
    "text": "x" * 100_000,
    "short": "abc",
    "few": ROWS[:3],
}


def program_of(body: str) -> Program:
    found = checked(body)
    assert found.program is not None
    assert found.errors == ()
    return found.program._replace(digest="digest")


def work(rest: str, tasks: str = "{kind: http, url: x}") -> Work:
    program = program_of(f"workflow:\n- step: start\n  tool: {tasks}\n" + indent(dedent(rest), "  "))
    return Work(program.steps["start"].pipeline, Frame(id="start#1"), FramePlace("e", {}, {}, None))


def reading(*expressions: str) -> Work:
    """A step whose `set` reads these."""
    return work("set:\n" + "".join(f'  ctx.v{n}: "{{{{ {each} }}}}"\n' for n, each in enumerate(expressions)))


def taken(ready: Work, output: Output) -> TaskDone:
    move = next_move(ready, AT)
    assert isinstance(move, RunTask)
    return take(ready, move, output, AT)


def values(picked: dict[str, JSON] | None) -> list[JSON]:
    """What was picked, part by part, without the names of the parts."""
    return list((picked or {}).values())


@pytest.mark.parametrize(
    ("expression", "parts"),
    [
        ("output.data.total", [{"is": 5_000}]),
        ("output.data.rows | length", [{"is": 5_000}]),
        ("output.data.rows | length > 10 and ctx.x", [{"is": True}]),
        ("ctx.x + output.data.rows[-1].id", [{"is": 4_999}]),
        ("output.data.rows | map(attribute='id') | sum + output.data.total", [{"is": 12_502_500}]),
        ("output.data.rows[workload.n].id ~ ctx.x", [{"is": 1}]),
        ("output.data.rows and output.data.total and ctx.x", [{"is": True}]),
        ("ctx.x if output.data.rows else output.data.total", [{"is": True}, {"is": 5_000}]),
        ("not output.data.rows or ctx.x", [{"is": False}]),
        (
            "output.data.none.there",
            [{"undefined": "output.data.none.there", "path": ["output", "data", "none", "there"]}],
        ),
        (
            "output.data.text + 1",
            [{"error": '"+" does not work with text and a number (~ joins values as text)'}],
        ),
        ("output.status == 'ok' and output.data.total > 3", [{"is": True}]),
        ("uuid() ~ output.data.total", [{"is": 5_000}]),
        ("output.data.total + output.data.total + ctx.x", [{"is": 10_000}]),
        ("[output.data.total, ctx.x, output.data.total]", [{"is": 5_000}]),
    ],
)
def test_the_worker_evaluates_the_largest_parts_that_read_the_data_d52(expression: str, parts: list[JSON]) -> None:
    ready = reading(expression)
    ready = replace(ready, place=replace(ready.place, workload={"n": 1}))
    assert values(pick(ready, Output(data=DATA))) == parts


EXPRESSIONS = [
    "output.data.rows[1].id",
    "output.data.rows[5000].id | default('none')",
    "[output.data.rows[0].id, output.data.rows[-1].name, output.data.rows[-3].id]",
    "output.data.few[ctx.one].id",
    "output.data.rows[:3][ctx.one].id",
    "(output.data.rows | first).name ~ ctx.one",
    "output.data.text[5000] ~ output.data.text[-1]",
    "output.data.text.length | default('none')",
    "output.data['a.b'].c + output['data'].total",
    "output.data.rows | length > 10 and ctx.one",
    "output.data.rows | length > 10000 or output.data.few",
    "output.data.rows and ctx.one",
    "ctx.one and output.data.rows and 1",
    "ctx.none and output.data.text + 1",
    "ctx.one if output.data.rows else output.data.text + 1",
    "(output.data.rows | length) * ctx.one",
    "output.data.rows | length in [5000, ctx.one]",
    "output.data.rows | selectattr('id', 'lt', 3) | map(attribute='name') | join(workload.glue)",
    "output.data.short.upper() ~ input.tail",
    "output.status ~ output.data.total ~ output.http.status",
    "output.data.none",
    "output.data.none.there + 1",
    "output.data.none == ctx.none",
    "output.data.text + 1",
    "ctx.one + output.data.short",
    "output.data.few[ctx.none].id",
    "output.data.few[ctx.far].id",
    "output.data.rows[output.data.none]",
    "output.data.total / 0",
    "uuid() ~ output.data.total ~ now()",
    "{'n': output.data.total, 'one': ctx.one}",
    "output.data is defined and output.data.none is not defined and ctx.one",
    "output.data.a.b.c is defined or ctx.none is defined",
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
@pytest.mark.parametrize("place", ["set", "when", "arc set"])
def test_routing_is_the_same_whether_data_is_inline_or_stored_d52(place: str, expression: str) -> None:
    text = f"{{{{ {expression} }}}}"
    arc = "{step: end}"
    if place != "set":
        arc = f'{{step: end, when: "{text}"}}' if place == "when" else f'{{step: end, set: {{ctx.v: "{text}"}}}}'
    program = program_of(f"""\
        workload: {{glue: "/", far: 9999}}
        workflow:
        - step: start
          input: {{tail: "!"}}
          tool: {{kind: http, url: x}}
          set: {{ctx.one: 1, ctx.far: 9999}}
          next: {{arcs: [{{step: second}}]}}
        - step: second
          input: {{tail: "!"}}
          tool: {{kind: http, url: x}}
          {f'set: {{ctx.v: "{text}"}}' if place == "set" else ""}
          next: {{arcs: [{arc}]}}
        """)
    stored = second(program, Output(data=DATA, ref=REF, own={"http": {"status": 200}}), inline_max=1)
    assert stored.error is None or stored.error.kind == "template"
    inline = second(program, Output(data=DATA, ref=REF, own={"http": {"status": 200}}), inline_max=10_000_000)
    assert stored == inline


def second(program: Program, output: Output, inline_max: int) -> facts.NextEvaluated:
    """How the second step of a program is routed when its call comes back with this."""
    state = State(execution_id="e")
    handle(program, state, Start(), AT)
    for frame, given in (("start#1", Output()), ("second#1", output)):
        ready = work_of(program, state, frame)
        fact = recorded(ready, taken(ready, given), inline_max)
        made = handle(program, state, Report(frame=frame, position=0, facts=(fact,), epoch=(1, 1)), AT)
    return next(event.fact for event in made if isinstance(event.fact, facts.NextEvaluated))


def test_a_part_is_picked_once_however_often_it_stands_there_d52() -> None:
    ready = reading("output.data.total", "output.data['total']  ", "(output.data.total)", "output.data.total + 1")
    assert len(values(pick(ready, Output(data=DATA)))) == 3


def test_parts_that_are_many_operands_long_are_picked_too_d52() -> None:
    ready = reading(" and ".join(["output.data.total"] * 400) + " and ctx.x")
    assert values(pick(ready, Output(data=DATA))) == [{"is": True}]


@pytest.mark.parametrize("expression", ["output.data", "output", "output[ctx.key]", "output.data[ctx.key]"])
def test_what_is_not_known_beforehand_is_the_whole_d52(expression: str) -> None:
    assert values(pick(reading(expression), Output(data={"small": 1}))) == [{"is": {"small": 1}}]


def test_a_part_may_be_large_and_the_worker_stores_it_d91() -> None:
    [entry] = values(pick(reading("output.data.rows | reverse | list"), Output(data=DATA)))
    assert len(entry["is"]) == len(DATA["rows"])


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
    assert values(pick(ready, Output(data=DATA), failed=True)) == [{"is": 0}]


def test_a_large_output_is_recorded_by_its_ref_and_the_frame_keeps_it_whole_d52() -> None:
    ready = reading("output.data.total")
    fact = taken(ready, Output(data=DATA, ref=REF, own={"http": {"status": 200}}))
    kept = recorded(ready, fact)
    assert kept.output == Output(ref=REF, own={"http": {"status": 200}})
    assert values(kept.picked) == [{"is": 5_000}]
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
    assert values(recorded(ready, skipped.fact).picked) == [{"is": 0}]


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
    assert next_move(replace(ready, frame=elsewhere), AT) == next_move(ready, AT)


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


def test_what_is_too_large_and_not_asked_for_does_no_harm_d52() -> None:
    program = program_of(ROUTED.replace("output.data.total > 3", "ctx.last == 1 and output.data.rows == ctx.rows"))
    decided = routed(program, Output(data=DATA, ref=REF))
    assert isinstance(decided, facts.NextEvaluated)
    assert (decided.error, decided.asked, decided.ended) == (None, ((0, False), (1, True)), 1)
