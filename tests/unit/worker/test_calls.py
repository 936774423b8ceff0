"""A call of a tool: the error that the author sees when its fields do not fit, or when the tool cannot run."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from noetl.engine import facts
from noetl.output import JSON, Failure, Output, failed
from noetl.testing.memory_runtime import MemoryRuntime, RuntimeParts
from noetl.tool import Call, Tool
from noetl.tools.duckdb.tool import DuckdbTool
from noetl.tools.http.tool import HttpInput, HttpTool
from noetl.tools.postgres.tool import PostgresTool
from noetl.tools.python.tool import PythonTool
from noetl.tools.resolve import ResolveInput
from noetl.tools.shell.tool import ShellTool
from noetl.tools.sqlite.tool import SqliteTool
from noetl.worker.calls import describe_mismatch
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


NO_RESPONSE: dict[str, JSON] = {
    "http": {"status": None, "headers": {}, "request_id": None, "elapsed_ms": None, "url": None}
}
PARTS: dict[str, tuple[str, type[Tool], JSON]] = {
    "http": ("url: 'ftp://example.com'", HttpTool, NO_RESPONSE["http"]),
    "python": ("script: none.py", PythonTool,
               {"exception_type": None, "exception": None, "traceback": None, "stdout": "", "stderr": ""}),
    "shell": ("argv: [no-such-program]", ShellTool, {"exit_code": None, "signal": None, "stdout": "", "stderr": ""}),
    "sqlite": ("path: ':memory:', query: SELECT 1; COMMIT", SqliteTool, {"code": None, "message": None, "rowcount": None}),
    "duckdb": ("query: SELECT 1; SELECT 2", DuckdbTool, {"rows": None, "columns": None}),
    "postgres": ("query: SELECT 1", PostgresTool, {"code": None, "sqlstate": None, "message": None, "rowcount": None}),
}  # fmt: skip


@pytest.mark.parametrize("kind", PARTS)
def test_a_failure_without_an_answer_has_the_defaults_of_the_own_part_d95(kind: str) -> None:
    fields, tool, part = PARTS[kind]
    output = failed_output(f"{{kind: {kind}, {fields}}}", {kind: tool})
    assert output.own == {tool.output: part}


class Endless(HttpTool):
    """Never answers."""

    async def run(self, input: HttpInput, call: Call) -> Output:  # noqa: ARG002  # the signature of Tool
        await asyncio.get_running_loop().create_future()
        return Output()


def test_a_timeout_has_the_defaults_of_the_own_part_too_d95() -> None:
    output = failed_output("{kind: http, url: x, spec: {timeout: 0.01}}", {"http": Endless})
    assert output.error is not None
    assert (output.error.kind, output.own) == ("timeout", NO_RESPONSE)


class Undescribed(Tool):
    """Fails, and does not describe its part of the output."""

    kind = "http"
    Input = HttpInput
    output = "http"

    async def run(self, input: HttpInput, call: Call) -> Output:  # noqa: ARG002  # the signature of Tool
        return failed("http", "no connection")


def test_a_tool_that_does_not_describe_its_part_gets_none_d95() -> None:
    assert failed_output("{kind: http, url: x}", {"http": Undescribed}).own == {}


def failed_output(tool: str, tools: dict[str, type[Tool]]) -> Output:
    """The recorded output of a task that fails."""
    runtime = memory_runtime({"t": f"workflow:\n- {{step: start, tool: {tool}}}\n"}, tools)

    async def work(runtime: MemoryRuntime) -> None:
        await runtime.start("t", id="e")
        await runtime.end("e")

    run_in(runtime, work)
    (done,) = [event.fact for event in runtime.events if isinstance(event.fact, facts.TaskDone)]
    assert done.output is not None
    assert done.output.status == "error"
    return done.output


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
