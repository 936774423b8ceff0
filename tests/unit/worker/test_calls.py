"""A call of a tool: the error that the author sees when its fields do not fit, or when the tool cannot run."""

from __future__ import annotations

import msgspec
import pytest

from noetl.engine import facts
from noetl.output import JSON, Failure, Output, failed
from noetl.testing.memory_runtime import MemoryRuntime, RuntimeParts
from noetl.tool import Call, Tool
from noetl.tools.http.tool import HttpInput, HttpPart
from noetl.tools.resolve import ResolveInput
from noetl.worker.calls import describe_mismatch, with_own_part
from noetl.worker.frame_driver import LogLine
from tests.unit.control.runtimes import memory_runtime, run_in


@pytest.mark.parametrize(
    ("fields", "kind", "words"),
    [
        ({"url": [1, 2]}, HttpInput, 'url of task "get": expected text, got a list'),
        ({"url": "x", "params": "a=1"}, HttpInput, 'params of task "get": expected a map or null, got text'),
        (
            {"url": "x", "method": "s3cret"},
            HttpInput,
            'method of task "get": the value is not one of those that this field accepts',
        ),
        ({}, HttpInput, 'input of task "get": missing field `url`'),
        (
            {"ref": {}, "columns": ["a", 1]},
            ResolveInput,
            'columns[1] of task "get": expected text, got an integer',
        ),
    ],
)
def test_a_field_that_does_not_fit_is_named_and_its_value_is_not(
    fields: dict[str, JSON], kind: type[msgspec.Struct], words: str
) -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.convert(fields, kind)
    assert describe_mismatch("get", refused.value) == words


class Described(Tool):
    """A kind that the language knows, but that has no implementation."""

    kind = "http"
    Input = HttpInput


def test_a_kind_that_can_not_be_run_says_so() -> None:
    body = "workflow:\n- {step: start, tool: {kind: http, url: x}}\n"
    runtime = memory_runtime({"t": body}, {"http": Described})  # type: ignore[type-abstract]  # it has no run()

    async def work(runtime: MemoryRuntime) -> None:
        await runtime.start("t", id="e")
        await runtime.end("e")

    run_in(runtime, work)
    [failed] = [event.fact for event in runtime.events if isinstance(event.fact, facts.StepFailed)]
    assert failed.error == Failure(kind="tool", message='a task of kind "http" can be checked, but not run yet')


@pytest.mark.parametrize(
    ("part", "own"),
    [
        (None, {}),
        (HttpPart, {"http": {"status": None, "headers": {}, "request_id": None, "elapsed_ms": None, "url": None}}),
    ],
)
def test_an_output_without_its_own_part_gets_the_defaults_d95(
    part: type[msgspec.Struct] | None, own: dict[str, JSON]
) -> None:
    class Refused(Tool):
        kind = "http"
        Input = HttpInput
        output = "http"
        OutputPart = part

        async def run(self, input: HttpInput, call: Call) -> Output:  # noqa: ARG002  # the signature of Tool
            return failed("http", "no connection")

    assert with_own_part(Refused(), failed("http", "no connection")).own == own
    answered = Output(own={"http": {"status": 200}})
    assert with_own_part(Refused(), answered) is answered


class Talking(Tool):
    """Says what it does, and how far it is."""

    kind = "http"
    Input = HttpInput

    async def run(self, input: HttpInput, call: Call) -> Output:
        call.say(f"asking {input.url}")
        call.progress(1, 4)
        call.progress(2, 4)  # dropped: it follows too soon after the first
        return Output(data=1)


def test_what_a_tool_says_while_it_works_is_heard_and_not_kept() -> None:
    body = "workflow:\n- {step: start, tool: {kind: http, url: x}}\n"
    lines: list[LogLine] = []
    runtime = memory_runtime({"t": body}, {"http": Talking}, parts=RuntimeParts(on_log_line=[lines.append]))

    async def work(runtime: MemoryRuntime) -> None:
        await runtime.start("t", id="e")
        await runtime.end("e")

    run_in(runtime, work)
    assert lines == [LogLine("e", "start#1", "line", "asking x"), LogLine("e", "start#1", "progress", "25%")]
