"""Why, line by line, as a person reads it."""

from __future__ import annotations

from noetl.views.why import why
from noetl.views.why_text import why_lines
from tests.unit.views.explain.test_why import ORDER
from tests.unit.views.playing import played, scenarios


def told(body: str, step: str, *commands: str) -> list[str]:
    player = played(body, *commands)
    return why_lines(why(player.program, "e", player.log, step))


def of_scenario(name: str, step: str) -> list[str]:
    player = scenarios()[name]
    return why_lines(why(player.program, "e", player.log, step))


def test_a_run_reads_from_its_token_to_its_end() -> None:
    commands = ('report start#1 ok {"n": 2}', "report few#1 error http", "report few#1 error http")
    assert told(ORDER, "few", *commands) == [
        '"few" ran 1 time',
        "few#1",
        "  started by token start#1>1, which start#1 created",
        "    arc 2 to few when output.data.n > 0: true",
        "      output.data.n = 2",
        "  input n = 3",
        "  few#1/1 get: error, retry by the rule “retry (2 calls in all, immediately) when output.status == 'error'”"
        ": http: it did not work",
        "  few#1/2 get: error, attempt 2, fail by the rule “retry (2 calls in all, immediately) when"
        " output.status == 'error'”: http: it did not work",
        "  ended with step.failed: http: it did not work",
    ]


def test_the_arcs_of_a_run_say_why_they_were_not_taken() -> None:
    assert told(ORDER, "start", "report start#1 error http") == [
        '"start" ran 1 time',
        "start#1",
        "  started by token >0, which the request created",
        "  start#1/1 start_task: error, fail: http: it did not work",
        "  ended with step.failed: http: it did not work",
        "  arc 1 to many when output.data.n > workload.n: not evaluated, because the step failed, and the arc applies to successes only",
        "  arc 2 to few when output.data.n > 0: not evaluated, because the step failed, and the arc applies to successes only",
        "  arc 3 to none: not evaluated, because the step failed, and the arc applies to successes only",
        "  arc 4 to repair when event.name == 'step.failed': true",
        '    event.name = "step.failed"',
    ]


def test_a_step_that_did_not_run_says_which_arcs_could_have_led_there() -> None:
    assert told(ORDER, "many", 'report start#1 ok {"n": 2}') == [
        '"many" did not run: no token reached it',
        "after start#1, arc 1 of start when output.data.n > workload.n: its guard was false",
        "  output.data.n = 2",
        "  workload.n = 3",
    ]
    assert told(ORDER, "last") == [
        '"last" did not run: no token reached it',
        'arc 1 of none: "none" did not run',
    ]


def test_a_token_that_waits_says_for_what() -> None:
    assert of_scenario("routing_inclusive_waiting", "c") == [
        '"c" did not run: 1 token arrived, but none started a run',
        "token start#1>2, which start#1 created",
        "  arc 3 to c: no guard",
        "  admission: admit when ctx.go | default(false): false",
        "    ctx.go is undefined",
        "  no rule is true, so the token waits",
    ]


def test_a_join_says_what_it_waits_for() -> None:
    assert of_scenario("join_failed_run_holds", "done") == [
        '"done" did not run: 1 token arrived, but none started a run',
        "token b#1>0, which b#1 created",
        "  arc 1 to done: no guard",
        "  has arrived at a join and waits for other tokens",
        '    "a" has failed, and no arc handled the failure',
    ]


def test_a_loop_and_its_retry_are_told_by_their_counts() -> None:
    assert of_scenario("retried_parallel_loop", "start") == [
        '"start" ran 2 times',
        "start#1",
        "  started by token >0, which the request created",
        "  loop over 4 items: 2 succeeded, 1 failed",
        "  start#1[1]/2 two: error, fail: http: it did not work",
        "  ended with step.failed: http: it did not work",
        "start#2",
        "  retries start#1",
        "  loop over 4 items: 4 succeeded, 0 failed",
        "  ended with loop.done",
    ]


def test_what_has_not_ended_says_so() -> None:
    assert told(ORDER, "start")[-1] == "  has not ended"
    assert told(ORDER, "start", "running start#1 3")[-1] == "  runs the task start_task"
    lost = '  waits for another worker: w was lost in task "start_task"'
    assert told(ORDER, "start", "running start#1 3", "lose start#1 w")[-1] == lost
    body = "workflow: [{step: start, tool: {kind: wait, input: {signal: go}}}]"
    assert told(body, "start")[-1] == "  waits for the signal go"


def test_text_of_strangers_can_not_forge_a_line() -> None:
    lines = told(ORDER, "start", 'report start#1 ok {"n": "1\\n\\u001b[31mevil"}')
    assert all(line.isprintable() for line in lines)
