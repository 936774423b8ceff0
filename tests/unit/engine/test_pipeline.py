"""The pipeline machine, move by move: cases that transcripts cannot show: keys, chance, times and scopes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from textwrap import dedent, indent

import pytest
from msgspec.structs import replace

from noetl.engine.apply import advance
from noetl.engine.facts import ForBlock, ForChild, FrameParked, TaskDone
from noetl.engine.moves import Answered, Decided, FrameEnded, FramePlace, Park, RunTask, Wait, Work
from noetl.engine.pipeline import next_move, take
from noetl.engine.state import Frame
from noetl.net.program import CompiledPipeline
from noetl.output import JSON, Failure, Output, failed
from tests.playbooks import checked

AT = datetime(2026, 1, 1, tzinfo=UTC)
PLACE = FramePlace("e", {"n": 3}, {"size": 10}, None)
RETRY = "{when: \"{{ output.status == 'error' }}\", then: {do: retry, %s}}, {else: {then: {do: continue}}}"


def pipeline(tasks: str, around: str = "") -> CompiledPipeline:
    """The pipeline of a step with these tasks and further keys."""
    body = "workflow:\n- step: start\n" + indent(dedent(around), "  ")
    found = checked(body + "  tool:\n" + indent(dedent(tasks), "  "))
    assert found.program is not None
    assert found.errors == ()
    return found.program._replace(digest="digest").steps["start"].pipeline


def policy(rules: str) -> str:
    return f"- {{name: call, kind: http, url: x, spec: {{policy: {{rules: [{rules}]}}}}}}"


def work(tasks: str, around: str = "", place: FramePlace = PLACE) -> Work:
    return Work(pipeline(tasks, around), Frame(id="start#1"), place)


def called(ready: Work, at: datetime = AT) -> RunTask:
    move = next_move(ready, at)
    assert isinstance(move, RunTask), move
    return move


def taken(ready: Work, output: Output, at: datetime = AT, *, chance: float = 0.5) -> TaskDone:
    """One call and its output; the frame is moved on."""
    fact = take(ready, called(ready, at), output, at, chance=chance)
    advance(ready.frame, fact)
    return fact


def test_a_call_says_what_the_tool_is_to_do() -> None:
    ready = work("""\
        - {name: one, kind: python, code: "result = {{ n }}", input: {n: "{{ workload.n }}"}, spec: {timeout: 5}}
        """)
    move = called(ready)
    assert (move.task.name, move.fields, move.input, move.attempt) == (
        "one",
        {"code": "result = {{ n }}"},
        {"n": 3},
        1,
    )
    assert move.task.spec == {"timeout": 5, "memory_mb": 512}  # D33: per call, enforced by the worker


def test_asking_again_gives_the_same_move() -> None:
    ready = work("- {name: one, kind: http, url: 'x/{{ uuid() }}'}")
    assert next_move(ready, AT) == next_move(ready, AT)


def test_a_frame_that_is_over_has_no_move() -> None:
    ready = work("- {name: one, kind: noop}")
    fact = taken(ready, Output(data=1))
    assert (fact.next, next_move(ready, AT)) == (-1, FrameEnded())


def test_the_envelope_that_rules_and_later_tasks_read_d21() -> None:
    ready = work("""\
        - {name: one, kind: http, url: x, set: {step.seen: "{{ output }}"},
           spec: {policy: {rules: [{else: {then: {do: continue, set: {ctx.meta: "{{ output.meta }}"}}}}]}}}
        - {name: two, kind: noop, input: {last: "{{ output.meta.attempt }}", one: "{{ one.meta.duration_ms }}"}}
        """)
    output = Output(data={"status": "error"}, own={"http": {"status": 200}}, meta={"ts": "the tool's own"})
    fact = take(ready, called(ready), output, AT, ms=12.5)
    meta = {"attempt": 1, "duration_ms": 12.5, "ts": "the tool's own"}
    assert fact.set == {
        "step.seen": {"status": "ok", "data": {"status": "error"}, "meta": meta, "http": {"status": 200}},
        "ctx.meta": meta,
    }
    assert (fact.status, fact.ms) == ("ok", 12.5)  # Data is never looked at to find the status.
    advance(ready.frame, fact)
    assert called(ready).input == {"last": 1, "one": 12.5}


def test_meta_is_recorded_only_where_a_template_reads_it_d21() -> None:
    fact = taken(work("- {name: one, kind: http, url: x, set: {ctx.n: '{{ output.data }}'}}"), Output(data=1))
    assert fact.output == Output(data=1)


def test_an_error_that_gives_no_reason_still_fails_with_one_d22() -> None:
    fact = taken(work("- {name: one, kind: http, url: x}"), Output(status="error"))
    reason = Failure(kind="http", message='task "one" gave an error and no reason')
    assert (fact.directive, fact.error) == ("fail", reason)


def test_data_of_an_error_is_there_for_rules_and_the_next_task_d82() -> None:
    ready = work("""\
        - {name: one, kind: http, url: x, spec: {policy: {rules: [
            {when: "{{ output.data.code == 7 and output.http.headers['x-id'] == '1' }}", then: {do: continue}},
            {else: {then: {do: fail}}}]}}}
        - {name: two, kind: noop, input: {code: "{{ _prev.code }}"}}
        """)
    own = {"http": {"status": 400, "headers": {"x-id": "1"}}}
    output = replace(failed("http", "400"), data={"code": 7}, own=own)
    assert taken(ready, output).directive == "continue"
    assert called(ready).input == {"code": 7}


def test_the_key_is_one_for_all_attempts_and_another_for_each_entry_p3() -> None:
    ready = work("""\
        - {name: call, kind: http, url: x, spec: {policy: {rules: [
            {when: "{{ output.status == 'error' }}", then: {do: retry}},
            {when: "{{ output.data == 'more' }}", then: {do: jump, to: call}},
            {else: {then: {do: continue}}}]}}}
        - {name: other, kind: http, url: x}
        """)
    keys = []
    for output in (failed("http", "away"), Output(data="more"), failed("http", "away"), Output(data="end")):
        keys.append(called(ready).key)
        taken(ready, output)
    keys.append(called(ready).key)
    assert keys[0] == keys[1] != keys[2] == keys[3]
    assert len(set(keys)) == 3
    assert all(len(key) == 64 for key in keys)


def test_the_key_is_another_in_another_frame_and_in_another_execution_p3() -> None:
    one = work("- {name: call, kind: http, url: x}")
    others = [
        Work(one.pipeline, Frame(id="start#2"), PLACE),
        Work(one.pipeline, Frame(id="start#1[0]"), PLACE),
        Work(one.pipeline, Frame(id="start#1"), replace(PLACE, execution_id="f")),
    ]
    assert len({called(each).key for each in [one, *others]}) == 4


def test_a_frame_rebuilt_from_its_facts_has_the_same_key_and_the_same_move_p3() -> None:
    ready = work(policy(RETRY % "attempts: 9"))
    facts = [taken(ready, failed("http", "away")) for _ in range(3)]
    rebuilt = Frame(id="start#1")
    for fact in facts:
        advance(rebuilt, fact)
    assert rebuilt == ready.frame
    assert next_move(replace(ready, frame=rebuilt), AT) == called(ready)


@pytest.mark.parametrize(("chance", "waits_s"), [(0.0, 8.0), (0.5, 10.0), (1.0, 12.0)])
def test_jitter_is_drawn_by_chance_and_recorded_d87(chance: float, waits_s: float) -> None:
    ready = work(policy(RETRY % "delay: 10, jitter: 0.2"))
    fact = taken(ready, failed("http", "away"), chance=chance)
    assert fact.until == AT + timedelta(seconds=waits_s)
    assert next_move(ready, AT) == Wait(AT + timedelta(seconds=waits_s))
    assert called(ready, AT + timedelta(seconds=waits_s)).attempt == 2


@pytest.mark.parametrize(
    ("backoff", "waits_s"),
    [("none", [3, 3, 3]), ("fixed", [3, 3, 3]), ("linear", [3, 6, 9]), ("exponential", [3, 6, 12])],
)
def test_how_long_retries_wait_d25(backoff: str, waits_s: list[int]) -> None:
    ready = work(policy(RETRY % f"attempts: 9, delay: 3, backoff: {backoff}"))
    at, waited = AT, []
    for _ in waits_s:
        until = taken(ready, failed("http", "away"), at).until
        assert until is not None
        waited.append((until - at).total_seconds())
        at = until
    assert waited == waits_s


def test_a_wait_has_a_limit_however_it_grows_d25() -> None:
    ready = work(policy(RETRY % "attempts: 5000, delay: 1e9, backoff: exponential"))
    ready.frame.attempt = 4_000
    assert taken(ready, failed("http", "away")).until == AT + timedelta(days=366)


@pytest.mark.parametrize("written", ["'{{ -1 }}'", "'{{ true }}'", "'{{ workload }}'", "'{{ 10 ** 18 }}'"])
def test_a_number_of_attempts_that_is_none_breaks_the_task_d16(written: str) -> None:
    fact = taken(work(policy(RETRY % f"attempts: {written}")), failed("http", "away"))
    assert fact.directive == "fail"
    assert fact.error is not None
    assert fact.error.kind == "template"
    assert fact.error.message.startswith('attempts of rule 1 of task "call": it gives ')


def test_the_budget_of_calls_counts_skipped_tasks_too_d87() -> None:
    ready = work(
        """\
        - {name: a, kind: noop, spec: {policy: {rules: [{when: true, then: {do: skip}}]}}}
        - {name: b, kind: noop, spec: {policy: {rules: [{when: '{{ ctx.over | default(false) }}', then: {do: break}}, {else: {then: {do: jump, to: a}}}]}}}
        """,
        "spec: {policy: {limits: {calls: 2}}}\n",
    )
    skipped = next_move(ready, AT)
    assert isinstance(skipped, Decided)
    advance(ready.frame, skipped.fact)
    taken(ready, Output())
    over = next_move(ready, AT)
    assert isinstance(over, Decided)
    assert (over.fact.call, over.fact.directive, over.fact.next) == (3, "fail", -1)
    assert over.fact.output == failed("runaway", "start#1 made 2 calls; the limit is limits.calls")


KEYCHAIN = """\
    keychain: [{name: token, kind: env, variable: TOKEN}]
    workbook: {block: {tool: {kind: noop}}}
    workflow:
    - step: start
      tool: %s
    """


def with_keychain(tool: str) -> Work:
    found = checked(KEYCHAIN % tool)
    assert found.program is not None
    program = found.program._replace(digest="digest")
    return Work(program.steps["start"].pipeline, Frame(id="start#1"), PLACE)


def test_secrets_are_in_what_a_tool_is_called_with_and_absent_from_what_rules_read_d20() -> None:
    ready = with_keychain(
        '{kind: http, url: x, headers: {auth: "{{ keychain.token }}"}, set: {ctx.seen: "{{ input }}"}}'
    )
    move = next_move(ready, AT, {"token": "s3cret"})
    assert isinstance(move, RunTask)
    assert move.input == {"url": "x", "headers": {"auth": "s3cret"}}
    fact = take(ready, move, Output(), AT)
    assert fact.set == {"ctx.seen": {"size": 10, "url": "x"}}
    assert "s3cret" not in repr((move.scope, fact))


def test_what_a_call_was_made_with_is_on_record_as_a_hash_d20() -> None:
    """Equal for equal values, in any order of keys."""

    def hashed(tool: str) -> str | None:
        return taken(work(f"- {tool}"), failed("http", "no")).input_hash

    first = hashed("{name: a, kind: http, url: x, params: {n: '{{ workload.n }}', m: 1}}")
    assert first is not None
    assert hashed("{name: b, kind: http, params: {m: 1, n: 3}, url: x}") == first
    assert hashed("{name: a, kind: http, url: x, params: {n: 4, m: 1}}") != first
    assert hashed("{name: a, kind: noop, input: {n: 1}}") is None  # it is pure


def test_a_secret_leaves_no_trace_in_the_hash_of_a_call_d20() -> None:
    ready = with_keychain('{kind: http, url: x, headers: {auth: "{{ keychain.token }}"}}')
    moves = [next_move(ready, AT, {"token": value}) for value in ("one", "another")]
    assert isinstance(moves[0], RunTask)
    assert isinstance(moves[1], RunTask)
    assert moves[0].input["headers"] != moves[1].input["headers"]
    assert moves[0].input_hash == moves[1].input_hash


def test_a_failure_does_not_repeat_a_secret_d57() -> None:
    ready = with_keychain("{kind: http, url: \"{{ {'a': 1}[keychain.token] }}\"}")
    move = next_move(ready, AT, {"token": "s3cret"})
    assert isinstance(move, Decided)
    message = "it cannot be evaluated; the reason is withheld, because it may contain a secret"
    assert move.fact.output == failed("template", f'input of task "start_task": {message}')


def test_a_credential_that_is_not_there_is_named_d57() -> None:
    ready = with_keychain('{kind: http, url: "{{ keychain.token.url }}"}')
    move = next_move(ready, AT, {"token": {"user": "s3cret"}})
    assert isinstance(move, Decided)
    message = 'input of task "start_task": "{{ keychain.token.url }}": keychain.token.url is undefined'
    assert move.fact.output == failed("template", message)


def test_no_secret_goes_into_what_a_frame_is_parked_for_d20() -> None:
    ready = with_keychain('{kind: workbook, block: block, input: {token: "{{ keychain.token }}"}}')
    move = next_move(ready, AT, {"token": "s3cret"})
    assert isinstance(move, Decided)
    message = 'input of task "start_task": "{{ keychain.token }}": keychain.token is undefined'
    assert move.fact.output == failed("template", message)


def test_retry_inside_a_tool_is_a_knob_that_rules_never_see_d32() -> None:
    ready = work("- {name: call, kind: http, url: x, spec: {retry: {attempts: 4}}}")
    assert called(ready).task.spec["retry"] == {"attempts": 4}
    assert taken(ready, failed("http", "all four")).directive == "fail"


def test_now_and_uuid_are_those_of_the_call_and_of_its_field_d17() -> None:
    ready = work("""\
        - {name: call, kind: noop, input: {at: "{{ now() }}", a: "{{ uuid() }}", b: "{{ uuid() }}"},
           set: {ctx.at: "{{ now() }}", ctx.a: "{{ uuid() }}"},
           spec: {policy: {rules: [{when: "{{ now() > '2026-01-01T00:00:01Z' }}", then: {do: retry, attempts: 9}},
             {else: {then: {do: fail}}}]}}}
        """)
    move = called(ready)
    fact = take(ready, move, Output(), AT + timedelta(seconds=2))
    assert (move.input["at"], fact.set["ctx.at"]) == ("2026-01-01T00:00:00Z", "2026-01-01T00:00:02Z")
    assert fact.directive == "retry"
    drawn = {move.input["a"], move.input["b"], fact.set["ctx.a"]}
    advance(ready.frame, fact)
    again = called(ready)
    drawn |= {again.input["a"], again.input["b"], take(ready, again, Output(), AT).set["ctx.a"]}
    assert len(drawn) == 6


def parked(ready: Work) -> FrameParked:
    move = next_move(ready, AT)
    assert isinstance(move, Park), move
    return move.fact


def test_a_child_has_the_same_id_on_repeat_and_another_for_another_attempt_d58() -> None:
    ready = work("""\
        - {name: call, kind: playbook, path: other, version: 2, input: {n: 1}, spec: {policy: {rules: [
            {when: "{{ output.status == 'error' }}", then: {do: retry}}, {else: {then: {do: continue}}}]}}}
        """)
    first = parked(ready)
    assert parked(ready) == first
    assert isinstance(first.until, ForChild)
    assert (first.call, first.until.path, first.until.version, first.until.workload) == (
        1,
        "other",
        2,
        {"n": 1},
    )
    ready.frame.answer = failed("playbook", "the child failed")
    move = next_move(ready, AT)
    assert isinstance(move, Answered)
    advance(ready.frame, take(ready, move, move.output, AT))
    second = parked(ready)
    assert isinstance(second.until, ForChild)
    assert (second.call, second.until.execution_id != first.until.execution_id) == (2, True)


def test_a_block_is_called_by_parking_and_its_answer_is_taken_like_any_output_d59() -> None:
    body = """\
        workbook: {twice: {tool: {kind: noop}}}
        workflow:
        - step: start
          tool: {kind: workbook, block: twice, input: {n: "{{ workload.n }}"}, set: {ctx.n: "{{ input.n + output.data }}"}}
        """
    found = checked(body)
    assert found.program is not None
    program = found.program._replace(digest="digest")
    ready = Work(program.steps["start"].pipeline, Frame(id="start#1"), PLACE)
    assert parked(ready) == FrameParked(frame="start#1", call=1, until=ForBlock(block="twice", input={"n": 3}))
    ready.frame.answer = Output(data=6)
    move = next_move(ready, AT)
    assert isinstance(move, Answered)
    assert take(ready, move, move.output, AT).set == {"ctx.n": 9}


def test_an_answer_is_taken_before_any_wait_or_budget_is_looked_at() -> None:
    ready = work("- {name: call, kind: playbook, path: other}", "spec: {policy: {limits: {calls: 1}}}\n")
    ready.frame.calls, ready.frame.until = 5, AT + timedelta(days=1)
    ready.frame.answer = Output(data=1)
    assert isinstance(next_move(ready, AT), Answered)


def test_taking_the_same_call_twice_gives_the_same_fact() -> None:
    ready = work("- {name: call, kind: http, url: x, set: {ctx.n: '{{ (ctx.n | default(0)) + 1 }}'}}")
    move = called(ready)
    facts = [take(ready, move, Output(data=1), AT) for _ in range(2)]
    assert facts[0] == facts[1]
    assert facts[0].set == {"ctx.n": 1}


def test_writes_leave_what_others_hold_of_ctx_as_it_was() -> None:
    ctx: dict[str, JSON] = {"deep": {"n": 1}}
    ready = work("- {name: call, kind: http, url: x, set: {ctx.deep.n: 2, ctx.deep.m: '{{ ctx.deep.n }}'}}")
    ready.frame.ctx = ctx
    taken(ready, Output())
    assert (ctx, ready.frame.ctx) == ({"deep": {"n": 1}}, {"deep": {"n": 2, "m": 1}})
