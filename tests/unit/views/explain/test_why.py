"""Why a step ran, waited or did not: whole answers, and every reason that there is."""

from __future__ import annotations

import msgspec
import pytest

from noetl.errors import NotFound
from noetl.output import Failure
from noetl.testing.scenario import Player
from noetl.views.why import (
    CALLS_MAX,
    RUNS_MAX,
    ArcCheck,
    CallWhy,
    GuardCheck,
    RunWhy,
    SeenValue,
    TokenWhy,
    Why,
    WhySource,
    why,
)
from tests.playbooks import kinds
from tests.unit.views.playing import played, scenarios

ORDER = """
workload: {n: 3}
workflow:
- step: start
  tool: {kind: http, url: x}
  next:
    arcs:
    - {step: many, when: "{{ output.data.n > workload.n }}"}
    - {step: few, when: "{{ output.data.n > 0 }}"}
    - {step: none}
    - {step: repair, when: "{{ event.name == 'step.failed' }}"}
- {step: many, tool: {kind: noop}}
- step: few
  input: {n: "{{ workload.n }}"}
  tool:
    name: get
    kind: http
    url: x
    spec: {policy: {rules: [{when: "{{ output.status == 'error' }}", then: {do: retry, attempts: 2}}]}}
- {step: none, tool: {kind: noop}, next: {arcs: [{step: last}]}}
- {step: repair, tool: {kind: noop}}
- {step: last, tool: {kind: noop}}
"""
FAILED = Failure(kind="http", message="it did not work")


def asked(player: Player, step: str) -> Why:
    return why(player.program, "e", player.log, step)


def reasons(player: Player, step: str) -> list[tuple[str, int, str]]:
    return [(way.step, way.arc.place, way.why) for way in asked(player, step).ways]


def test_a_run_is_told_from_its_token_to_its_arcs() -> None:
    player = played(ORDER, 'report start#1 ok {"n": 2}', "report few#1 error http", "report few#1 ok")
    arc = ArcCheck(
        place=1,
        to="few",
        when="output.data.n > 0",
        held=True,
        seen=(SeenValue(path="output.data.n", value="2"),),
    )
    rule = "retry (2 calls in all, immediately) when output.status == 'error'"
    calls = [
        CallWhy(id="few#1/1", task="get", attempt=1, status="error", directive="retry", rule=rule, error=FAILED),
        CallWhy(id="few#1/2", task="get", attempt=2, status="ok", directive="continue", rule=None, error=None),
    ]
    assert asked(player, "few") == Why(
        step="few",
        status="ok",
        ran=1,
        runs=(
            RunWhy(
                id="few#1",
                sources=(WhySource(token="start#1>1", run="start#1", arc=arc),),
                input=(SeenValue(path="n", value="3"),),
                calls=calls,
                ended="step.done",
            ),
        ),
        tokens=(),
        ways=(),
    )


def test_the_arcs_that_were_asked_say_whether_they_held_and_what_they_read() -> None:
    player = played(ORDER, 'report start#1 ok {"n": 2}')
    (run,) = asked(player, "start").runs
    assert run.sources == (WhySource(token=">0"),)
    assert run.arcs == (
        ArcCheck(
            place=0,
            to="many",
            when="output.data.n > workload.n",
            held=False,
            seen=(SeenValue(path="output.data.n", value="2"), SeenValue(path="workload.n", value="3")),
        ),
        ArcCheck(
            place=1,
            to="few",
            when="output.data.n > 0",
            held=True,
            seen=(SeenValue(path="output.data.n", value="2"),),
        ),
        ArcCheck(place=2, to="none", when=None, why="an earlier arc was taken"),
        ArcCheck(
            place=3,
            to="repair",
            when="event.name == 'step.failed'",
            why="an earlier arc was taken",
            seen=(SeenValue(path="event.name", value='"step.done"'),),
        ),
    )


def test_a_step_that_no_token_reached_has_a_reason_for_each_arc() -> None:
    player = played(ORDER, 'report start#1 ok {"n": 2}')
    assert reasons(player, "many") == [("start", 0, "its guard was false")]
    assert reasons(player, "none") == [("start", 2, "not evaluated, because an earlier arc was taken")]
    assert reasons(player, "last") == [("none", 0, '"none" did not run')]
    assert reasons(played(ORDER), "many") == [("start", 0, '"start" has not ended')]
    failed = played(ORDER, "report start#1 error http")
    assert reasons(failed, "none") == [
        ("start", 2, "not evaluated, because the step failed, and the arc applies to successes only")
    ]
    assert reasons(played(ORDER, "cancel", "close"), "many") == [("start", 0, '"start" was stopped with the execution')]


def test_a_dynamic_arc_that_led_elsewhere_says_where() -> None:
    body = """
    workload: {to: a}
    workflow:
    - step: start
      tool: {kind: noop}
      next: {arcs: [{step: "{{ workload.to }}", to: [a, b, end]}]}
    - {step: a, tool: {kind: noop}}
    - {step: b, tool: {kind: noop}}
    """
    assert reasons(played(body), "b") == [("start", 0, 'it led to "a"')]
    assert asked(played(body), "a").runs[0].sources[0].run == "start#1"
    ended = Player(body, kinds())
    ended.play('start {"to": "end"}')
    assert reasons(ended, "b") == [("start", 0, 'it led to "end"')]


def test_routing_that_can_not_be_evaluated_is_the_reason() -> None:
    body = """
    workflow:
    - step: start
      tool: {kind: noop}
      next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b, when: "{{ ctx.no.such > 1 }}"}]}
    - {step: a, tool: {kind: noop}}
    - {step: b, tool: {kind: noop}}
    """
    player = played(body)
    assert reasons(player, "a") == [("start", 0, "routing could not be evaluated")]
    assert reasons(player, "b") == [("start", 1, "not evaluated, because routing could not be evaluated")]
    error = asked(player, "start").runs[0].routing_error
    assert error is not None
    assert error.kind == "template"


def test_a_token_that_waits_shows_the_rules_and_what_they_read_now() -> None:
    player = scenarios()["routing_inclusive_waiting"]
    guard = GuardCheck(
        when="ctx.go | default(false)",
        allow=True,
        held=False,
        seen=(SeenValue(path="ctx.go", value="undefined"),),
    )
    source = WhySource(token="start#1>2", run="start#1", arc=ArcCheck(place=2, to="c", when=None, held=True))
    assert asked(player, "c") == Why(
        step="c",
        status="ok",
        ran=0,
        runs=(),
        tokens=(TokenWhy(source=source, join=False, admission=(guard,), held_by=(), error=None),),
        ways=(),
    )


def test_a_token_that_waited_and_was_admitted_says_so() -> None:
    body = """
    workflow:
    - step: start
      tool: {kind: noop}
      next: {spec: {mode: inclusive}, arcs: [{step: gate}, {step: work}]}
    - step: gate
      spec:
        policy:
          admit:
            rules:
            - {when: "{{ ctx.no is defined }}", then: {allow: false}}
            - {when: "{{ ctx.go }}", then: {allow: true}}
            - {else: {then: {allow: false}}}
      tool: {kind: noop}
    - {step: work, tool: {kind: http, url: x, set: {ctx.go: "{{ output.data }}"}}}
    """
    (run,) = asked(played(body, "report work#1 ok true"), "gate").runs
    assert run.waited
    assert run.admission == (
        GuardCheck(
            when="ctx.no is defined",
            allow=False,
            held=False,
            seen=(SeenValue(path="ctx.no", value="undefined"),),
        ),
        GuardCheck(when="ctx.go", allow=True, held=True, seen=(SeenValue(path="ctx.go", value="true"),)),
        GuardCheck(when=None, allow=False, held=None),
    )


def test_a_join_that_did_not_fire_says_what_holds_it() -> None:
    (token,) = asked(scenarios()["join_failed_run_holds"], "done").tokens
    assert (token.join, token.held_by) == (True, ('"a" has failed, and no arc handled the failure',))


def test_an_admission_that_can_not_be_evaluated_is_told_with_its_error() -> None:
    tokens = asked(scenarios()["join_admission_fails"], "done").tokens
    assert [(token.source.token, token.error and token.error.kind) for token in tokens] == [
        ("a#1>0", "template"),
        ("b#1>0", "template"),
    ]


def test_a_loop_is_told_by_its_counts_and_by_what_did_not_just_go_on() -> None:
    first, second = asked(scenarios()["retried_parallel_loop"], "start").runs
    assert (first.iterations, first.ended, first.error) == ((4, 2, 1), "step.failed", FAILED)
    assert [(call.id, call.directive) for call in first.calls] == [("start#1[1]/2", "fail")]
    assert (second.retry_of, second.iterations, second.calls) == ("start#1", (4, 4, 0), [])


def test_a_block_is_told_by_the_frame_that_called_it() -> None:
    (run,) = asked(scenarios()["block_called"], "b").runs
    assert (run.id, run.called_by, run.ended) == ("start#1[0]/b#1", "start#1[0]", "loop.done")


def test_a_parked_run_says_what_it_waits_for() -> None:
    body = "workflow: [{step: start, tool: {kind: wait, input: {signal: go}}}]"
    (run,) = asked(played(body), "start").runs
    assert (run.ended, run.waits_for) == (None, "for the signal go")
    (run,) = asked(played(body, "signal go 1"), "start").runs
    assert (run.ended, run.waits_for) == ("step.done", None)


def test_of_very_many_runs_and_calls_the_newest_are_told() -> None:
    body = """
    workflow:
    - step: start
      tool: {kind: noop, set: {ctx.n: "{{ ctx.n | default(0) + 1 }}"}}
      next: {arcs: [{step: start, when: "{{ ctx.n < 30 }}"}]}
    """
    told = asked(played(body), "start")
    assert (told.ran, len(told.runs), told.runs[-1].id) == (30, RUNS_MAX, "start#30")
    body = """
    workflow:
    - step: start
      tool:
        name: t
        kind: noop
        set: {step.n: "{{ step.n | default(0) + 1 }}"}
        spec: {policy: {rules: [{when: "{{ step.n < 80 }}", then: {do: jump, to: t}}]}}
    """
    (run,) = asked(played(body), "start").runs
    assert (len(run.calls), run.calls_left_out, run.calls[-1].id) == (CALLS_MAX, 80 - CALLS_MAX, "start#1/80")


def test_what_nothing_leads_to_says_so() -> None:
    body = """
    workflow:
    - {step: start, tool: {kind: noop}}
    - {step: b, tool: {kind: workbook, block: b}}
    workbook:
      b: {tool: {kind: noop}}
      c: {tool: {kind: noop}}
    """
    assert asked(played(body), "b").unreached == "no arc leads to it"
    assert asked(played(body), "c").unreached == "no task has called it"
    refused = Player(body, kinds())
    refused.play("refuse keychain no entry")
    assert asked(refused, "start").unreached == "the execution was not started"


def test_a_step_and_a_block_of_one_name_are_told_apart() -> None:
    body = """
    workflow: [{step: start, tool: {kind: workbook, block: start}}]
    workbook: {start: {tool: {kind: noop}}}
    """
    assert [run.id for run in asked(played(body), "start").runs] == ["start#1"]


def test_a_name_that_is_no_step_is_not_found() -> None:
    with pytest.raises(NotFound, match='the playbook has no step "x"'):
        asked(played(ORDER), "x")


def test_every_step_of_every_scenario_has_an_answer_that_can_be_written() -> None:
    for player in scenarios().values():
        for step in (*player.program.steps, *player.program.blocks):
            told = asked(player, step)
            assert [bool(told.ran or told.tokens), bool(told.ways), told.unreached is not None].count(True) == 1
            assert msgspec.json.decode(msgspec.json.encode(told))["step"] == step
