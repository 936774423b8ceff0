"""A call of a tool as the worker makes it: fields checked, time limited, what comes back made clean."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from noetl.engine.pipeline import RunTask
from noetl.output import JSON, NotJSON, Output, clean, clean_decoded, failed
from noetl.ports import ResultStore
from noetl.tool import Call, Tool, Tools

ToolRun: TypeAlias = Callable[[RunTask], Awaitable[Output]]


class Toolbox:
    """The tools of one worker: made when first used, closed with it."""

    def __init__(self, tools: Tools, results: ResultStore) -> None:
        self._tools = tools
        self._results = results
        self._made: dict[str, Tool | None] = {}

    async def __call__(self, called: RunTask) -> Output:
        """A tool never raises for what the world does; what it raises all the same is its own failure."""
        task = called.task
        tool = self._tool(task.kind)
        if tool is None:
            return failed("tool", f'this worker has no tool of kind "{task.kind}"')
        try:
            input = msgspec.convert(called.fields if tool.free_input else called.input, tool.Input)
        except msgspec.ValidationError as error:
            return failed("input", f'task "{task.name}": {error}')
        call = Call(
            key=called.key,
            attempt=called.attempt,
            execution_id=called.scope["execution_id"],
            arguments=called.input if tool.free_input else {},
            prev=called.scope["_prev"],
            spec=task.spec,
            results=self._results,
            folder=called.folder,
        )
        try:
            output = await tool.run(input, call)
        except Exception as error:  # noqa: BLE001  # the border of a tool call (STYLE §2)
            return failed("tool", f"{type(error).__name__}: {error}")
        return cleaned(output, clean_decoded if tool.decoded else clean)

    def _tool(self, kind: str) -> Tool | None:
        if kind not in self._made:
            self._made[kind] = self._tools.make(kind)
        return self._made[kind]

    async def close(self) -> None:
        for tool in self._made.values():
            if tool is not None:
                await tool.close()


def cleaned(output: Output, clean_data: Callable[[JSON], JSON]) -> Output:
    """What a tool gives back is from outside: only plain JSON goes on."""
    try:
        data = clean_data(output.data)
        own, meta = (clean(part) if part else part for part in (output.own, output.meta))
        error = output.error
        if error is not None and error.details:
            error = msgspec.structs.replace(error, details=clean(error.details))
    except NotJSON as refused:
        return failed("output", f"what came back can not be kept: {refused}")
    if data is output.data and own is output.own and meta is output.meta and error is output.error:
        return output
    return msgspec.structs.replace(output, data=data, own=own, meta=meta, error=error)


def total_s(spec: dict[str, JSON]) -> float | None:
    """How long a call may take in all (D33): a number of seconds, or `total` of the parts."""
    timeout = spec.get("timeout")
    if isinstance(timeout, dict):
        timeout = timeout.get("total")
    return float(timeout) if isinstance(timeout, int | float) and timeout > 0 else None
