"""`spec.retry`: a worker repeats a call that fails, and reports one output (D32, D92)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest

from noetl.clock import SystemClock
from noetl.control.deps import ControlHooks
from noetl.engine import facts
from noetl.engine.commands import Cancel
from noetl.engine.moves import RunTask
from noetl.errors import NotFound, Unavailable
from noetl.output import JSON, Output, failed
from noetl.testing.fake_clock import START, FakeClock
from noetl.testing.memory_runtime import MemoryRuntime, RuntimeParts, runtime
from noetl.views.runs import waits_for
from noetl.worker.frame_driver import LogLine
from noetl.worker.keychain import Keychain
from noetl.worker.tries import TRIES_LISTED_MAX
from tests.playbooks import HEAD
from tests.unit.worker.test_credentials import KEYCHAIN, Vault
from tests.unit.worker.test_running_calls import Committed

OK = Output(data="ok")
DOWN = failed("http", "it is down", retryable=True)
BAD = failed("http", "it is bad")


class Answers:
    """A tool that gives these outputs, and repeats the last one."""

    def __init__(self, *outputs: Output) -> None:
        self.calls: list[RunTask] = []
        self._outputs = outputs

    def __call__(self, called: RunTask) -> Output:
        self.calls.append(called)
        return self._outputs[min(len(self.calls), len(self._outputs)) - 1]


def one(spec: str, more: str = "", head: str = "") -> str:
    return f"{HEAD}{head}workflow:\n- step: start\n  tool: {{name: call, kind: http, url: x, spec: {spec}{more}}}\n"


def done(memory: MemoryRuntime) -> list[facts.TaskDone]:
    return [event.fact for event in memory.events if isinstance(event.fact, facts.TaskDone)]


def play(text: str, answers: Callable[[RunTask], Output], parts: RuntimeParts | None = None) -> MemoryRuntime:
    async def work() -> MemoryRuntime:
        async with runtime({"t": text}, tools={"http": answers}, parts=parts) as memory:
            await memory.run("t")
        return memory

    return asyncio.run(work())


def shape(output: Output | None) -> list[tuple[int, JSON]]:
    assert output is not None
    return [(tried["try"], tried.get("kind")) for tried in output.meta["tries"]]


def test_a_call_is_repeated_until_it_succeeds_and_the_log_has_one_output() -> None:
    answers, lines = Answers(DOWN, DOWN, OK), list[LogLine]()
    memory = play(
        one("{retry: {attempts: 5, delay: 1.25, backoff: exponential}}"),
        answers,
        RuntimeParts(on_log_line=[lines.append]),
    )
    [fact] = done(memory)
    assert (fact.status, fact.directive, fact.call, fact.attempt, fact.ms) == ("ok", "continue", 1, 1, 3750.0)
    assert fact.started_at == START
    assert shape(fact.output) == [(1, "http"), (2, "http"), (3, None)]
    assert fact.output is not None
    assert fact.output.meta["tries"][0] == {"try": 1, "duration_ms": 0.0, "kind": "http", "message": "it is down"}
    assert memory.waits == [1.25, 2.5]
    assert len({called.key for called in answers.calls}) == 1
    assert [line.text for line in lines] == [
        "try 2 of 5 in 1.25 s: http: it is down",
        "try 3 of 5 in 2.5 s: http: it is down",
    ]


def test_rules_see_only_the_last_output_and_their_retry_makes_all_tries_again_d24() -> None:
    rules = "policy: {rules: [{when: \"{{ output.status == 'error' }}\", then: {do: retry, attempts: 2}}, {else: {then: {do: continue}}}]}"
    answers = Answers(*[DOWN] * 5, OK)
    first, second = done(play(one(f"{{retry: {{attempts: 3, delay: 1}}, {rules}}}"), answers))
    assert (first.directive, first.attempt, shape(first.output)) == (
        "retry",
        1,
        [(1, "http"), (2, "http"), (3, "http")],
    )
    assert (second.status, second.attempt, shape(second.output)) == ("ok", 2, [(1, "http"), (2, "http"), (3, None)])
    assert len({called.key for called in answers.calls}) == 1


@pytest.mark.parametrize(
    ("retry", "output", "calls"),
    [
        ("{attempts: 3}", DOWN, 3),
        ("{attempts: 3}", BAD, 1),  # it is not retryable
        ("{attempts: 3, on: [http]}", BAD, 3),
        ("{attempts: 3, on: [timeout]}", DOWN, 1),
        ("{attempts: 3, on: [poison, http]}", failed("poison", "gone"), 1),
        ("{attempts: 1}", DOWN, 1),
        ("{delay: 0.1}", DOWN, 3),  # the default
    ],
)
def test_which_failures_are_repeated(retry: str, output: Output, calls: int) -> None:
    answers = Answers(output)
    [fact] = done(play(one(f"{{retry: {retry}}}"), answers))
    assert (len(answers.calls), fact.status) == (calls, "error")
    assert ("tries" in fact.output.meta if fact.output else None) == (calls > 1)


def test_the_layers_of_spec_are_merged_d60() -> None:
    head = "executor: {spec: {retry: {delay: 2, on: [http]}, http: {retry: {attempts: 9}}}}\n"
    answers = Answers(BAD)
    memory = play(one("{retry: {attempts: 2}}", head=head), answers)
    assert (len(answers.calls), memory.waits) == (2, [2.0])


@pytest.mark.parametrize(
    ("growth", "waits"),
    [
        ("backoff: linear, delay: 1", [1.0, 2.0, 3.0]),
        ("backoff: fixed, delay: 1", [1.0, 1.0, 1.0]),
        ("backoff: exponential, delay: 1, max_delay: 1.5", [1.0, 1.5, 1.5]),
    ],
)
def test_how_long_tries_wait_d25(growth: str, waits: list[float]) -> None:
    assert play(one(f"{{retry: {{attempts: 4, {growth}}}}}"), Answers(DOWN)).waits == waits


def test_each_try_has_the_timeout_of_the_task_d33() -> None:
    async def work() -> MemoryRuntime:
        calls = 0

        async def slow(_: RunTask) -> Output:
            nonlocal calls
            calls += 1
            if calls < 3:
                await asyncio.get_running_loop().create_future()
            return OK

        text = one("{timeout: 0.01, retry: {attempts: 3}}")
        async with runtime({"t": text}, tools={"http": slow}) as memory:
            await memory.run("t")
        return memory

    [fact] = done(asyncio.run(work()))
    assert shape(fact.output) == [(1, "timeout"), (2, "timeout"), (3, None)]


def test_rules_can_read_how_many_tries_a_call_needed() -> None:
    more = ', set: {ctx.tries: "{{ output.meta.tries | length }}"}'
    for answers, tries in ((Answers(OK), 1), (Answers(DOWN, OK), 2)):
        [fact] = done(play(one("{retry: {attempts: 3, delay: 1}}", more), answers))
        assert fact.set == {"ctx.tries": tries}


def test_the_list_of_tries_is_limited_and_counts_all_of_them() -> None:
    [fact] = done(play(one("{retry: {attempts: 250}}"), Answers(DOWN)))
    assert fact.output is not None
    listed = fact.output.meta["tries"]
    assert (len(listed), listed[-1]["try"], fact.repeats) == (TRIES_LISTED_MAX, 250, 249)


def test_a_long_delay_parks_the_frame_and_keeps_the_tries() -> None:
    answers = Answers(DOWN, DOWN, OK)
    memory = play(one("{retry: {attempts: 4, delay: 60}}"), answers)
    parked = [event.fact for event in memory.events if isinstance(event.fact, facts.FrameParked)]
    assert [(fact.until, len(fact.tries)) for fact in parked] == [
        (facts.ForTime(at=START + timedelta(seconds=60)), 1),
        (facts.ForTime(at=START + timedelta(seconds=120)), 2),
    ]
    assert [waits_for(fact) for fact in parked] == [
        "until 2026-01-01T00:01:00Z for try 2", "until 2026-01-01T00:02:00Z for try 3",
    ]  # fmt: skip
    [fact] = done(memory)
    assert (fact.call, shape(fact.output)) == (1, [(1, "http"), (2, "http"), (3, None)])
    assert len({called.key for called in answers.calls}) == 1


def test_a_parked_call_ends_when_its_tries_are_used_up() -> None:
    answers = Answers(DOWN)
    [fact] = done(play(one("{retry: {attempts: 3, delay: 60}}"), answers))
    assert (len(answers.calls), fact.directive, fact.repeats) == (3, "fail", 2)


def test_a_skip_rule_is_evaluated_once_for_all_tries_d26() -> None:
    rules = 'policy: {rules: [{when: "{{ ctx.skip is defined }}", then: {do: skip}}]}'
    [fact] = done(play(one(f"{{retry: {{attempts: 2, delay: 60}}, {rules}}}"), Answers(DOWN, OK)))
    assert (fact.status, fact.repeats) == ("ok", 1)


def test_a_pure_task_is_not_repeated() -> None:
    text = f"{HEAD}workflow:\n- step: start\n  spec: {{retry: {{attempts: 5, delay: 1}}}}\n  tool: {{kind: noop}}\n"
    assert play(text, Answers(OK)).waits == []


async def until_it_waits(memory: MemoryRuntime, answers: Answers) -> None:
    """The first call has failed, and the worker waits for its next try."""
    assert isinstance(memory.clock, FakeClock)
    while not memory.clock.sleepers or not answers.calls:
        await memory.clock.settle()


def test_a_worker_that_drains_parks_the_frame_and_another_one_continues() -> None:
    async def work() -> None:
        answers, seen, clock = Answers(DOWN, OK), Committed(), FakeClock()
        parts = RuntimeParts(hooks=ControlHooks(on_commit=(seen,)))
        text = one("{retry: {attempts: 3, delay: 4}}")
        async with runtime({"t": text}, tools={"http": answers}, clock=clock, parts=parts) as memory:
            await memory.start("t", id="e")
            await until_it_waits(memory, answers)
            memory.worker.stop_claiming()
            await seen.wait_for(facts.FrameParked)
            assert (len(answers.calls), memory.worker.drivers) == (1, {})
            memory.worker.draining = False  # as another worker
            memory.add_slots(1)
            clock.advance(4)
            await memory.end("e")
        [fact] = done(memory)
        assert shape(fact.output) == [(1, "http"), (2, None)]
        assert seen.of(facts.FrameLost) == []

    asyncio.run(work())


def test_the_wait_for_a_try_ends_with_its_step() -> None:
    async def work() -> None:
        answers, clock = Answers(DOWN), FakeClock()
        text = one("{retry: {attempts: 3, delay: 4}}").replace(
            "- step: start\n", "- step: start\n  spec: {policy: {lifecycle: {deadline_s: 1}}}\n"
        )
        async with runtime({"t": text}, tools={"http": answers}, clock=clock) as memory:
            await memory.start("t", id="e")
            await until_it_waits(memory, answers)
            clock.advance(1)
            await memory.end("e")
            await memory.worker.send_heartbeat()
            while memory.worker.drivers:
                await clock.settle()
        assert (len(answers.calls), done(memory)) == (1, [])
        assert memory.state("e").failure is not None

    asyncio.run(work())


def test_a_cancelled_execution_makes_no_more_tries() -> None:
    async def work() -> None:
        answers, clock = Answers(DOWN), FakeClock()
        text = one("{retry: {attempts: 3, delay: 60}}")
        async with runtime({"t": text}, tools={"http": answers}, clock=clock) as memory:
            await memory.start("t", id="e")
            while not [event for event in memory.events if isinstance(event.fact, facts.FrameParked)]:
                await clock.settle()
            await memory.command("e", Cancel())
            await memory.sweep()
            await memory.end("e")
        assert (len(answers.calls), memory.state("e").status) == (1, "cancelled")

    asyncio.run(work())


def test_no_secret_reaches_the_tries_or_the_lines_d20() -> None:
    def refuse(called: RunTask) -> Output:
        return failed("http", f"no answer from {called.input['url']}", retryable=True)

    lines = list[LogLine]()
    parts = RuntimeParts(keychain=Keychain(Vault(), SystemClock()), on_log_line=[lines.append])
    text = one("{retry: {attempts: 2, delay: 1}}", head=KEYCHAIN).replace("url: x", 'url: "{{ keychain.token }}"')
    [fact] = done(play(text, refuse, parts))
    assert fact.output is not None
    assert [tried["message"] for tried in fact.output.meta["tries"]] == ["no answer from ***"] * 2
    assert [line.text for line in lines] == ["try 2 of 2 in 1 s: http: no answer from ***"]


def test_a_credential_that_cannot_be_read_is_asked_for_again() -> None:
    text = one("{retry: {attempts: 3, delay: 1}}", head=KEYCHAIN).replace("url: x", 'url: "{{ keychain.token }}"')
    for error, tries in ((Unavailable("the vault does not answer"), 2), (NotFound("there is none"), 1)):
        parts = RuntimeParts(keychain=Keychain(Vault(error), SystemClock()))
        [fact] = done(play(text, Answers(OK), parts))
        assert (fact.status, fact.repeats + 1) == ("ok" if tries > 1 else "error", tries)
