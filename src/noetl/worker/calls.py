"""A call of a tool as the worker makes it: fields checked, time limited, what comes back made clean."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

import msgspec

from noetl.engine.moves import RunTask
from noetl.errors import NoetlError, Rejected
from noetl.output import JSON, NotJSON, Output, clean, clean_decoded, failed
from noetl.ports import ResultStore
from noetl.tool import Call, Tool, Tools
from noetl.worker.keychain import Keychain, failure_of, signs_in_with
from noetl.worker.result_policy import ResultPolicy


class Ear(Protocol):
    """Who asks for a call: how its results are kept, and who hears what the tool says while it works."""

    keeping: ResultPolicy

    def say(self, words: str) -> None: ...

    def progress(self, done: float, of: float | None) -> None: ...


ToolRun: TypeAlias = Callable[[RunTask, Ear], Awaitable[Output]]

# What msgspec calls the kinds of values, and what we do.
_WORDS = {
    "str": "text", "int": "an integer", "float": "a number", "bool": "a boolean", "array": "a list",
    "object": "a map", "null": "null",
}  # fmt: skip
_KINDS = re.compile(rf"`((?:{'|'.join(_WORDS)})(?: \| (?:{'|'.join(_WORDS)}))*)`")


class Toolbox:
    """The tools of one worker: made when first used, closed with it."""

    def __init__(self, tools: Tools, results: ResultStore, keychain: Keychain | None = None) -> None:
        self._tools = tools
        self._results = results
        self._keychain = keychain
        self._made: dict[str, Tool | None] = {}

    async def __call__(self, called: RunTask, ear: Ear) -> Output:
        """A tool never raises for what the world does; what it raises all the same is its own failure."""
        task = called.task
        tool = self._tool(task.kind)
        if tool is None:
            return failed("tool", f'this worker has no tool of kind "{task.kind}"')
        try:
            input = msgspec.convert(called.fields if tool.free_input else called.input, tool.Input)
            results = ear.keeping.store_in(self._results)
        except msgspec.ValidationError as error:
            return failed("input", misfit(task.name, error))
        except (UnicodeError, Rejected) as error:
            return failed("input", f'task "{task.name}": {error}')
        call = Call(
            key=called.key,
            attempt=called.attempt,
            execution_id=called.scope["execution_id"],
            arguments=called.input if tool.free_input else {},
            prev=called.scope["_prev"],
            spec=task.spec,
            results=results,
            folder=called.folder,
            say=ear.say,
            progress=ear.progress,
        )
        entry = signs_in_with(called) if called.keychain else None
        try:
            if entry is not None and self._keychain is not None:
                call = call._replace(auth=await self._keychain.auth(entry))
        except NoetlError as error:
            return Output(status="error", error=failure_of(error))
        try:
            output = await tool.run(input, call)
        except NotImplementedError:
            return failed("tool", f'a task of kind "{task.kind}" can be checked, but not be run yet')
        except Exception as error:  # noqa: BLE001  # the border of a tool call (STYLE §2)
            return failed("tool", f"{type(error).__name__}: {error}")
        if tool.unjudged == "nothing":
            return output
        return cleaned(output, clean_decoded if tool.unjudged == "depth" else clean)

    def _tool(self, kind: str) -> Tool | None:
        if kind not in self._made:
            self._made[kind] = self._tools.make(kind)
        return self._made[kind]

    async def close(self) -> None:
        for tool in self._made.values():
            if tool is not None:
                await tool.close()


def misfit(task: str, error: msgspec.ValidationError) -> str:
    """In the words of playbooks: which field it is, and never its value, which may be a secret."""
    words, _, place = str(error).partition(" - at `$")
    field = place.rstrip("`").lstrip(".") or "input"
    if words.startswith("Invalid enum value"):
        words = "it is none of the words that this field takes"
    words = words.replace("Object missing required field", "it lacks the field")
    words = _KINDS.sub(lambda found: " or ".join(_WORDS[each] for each in found[1].split(" | ")), words)
    return f'{field} of task "{task}": {words[:1].lower()}{words[1:]}'


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
