"""Tool calls of a worker: the input is validated, and the output is converted to plain JSON."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Literal, Protocol, TypeAlias

import msgspec

from noetl.engine.moves import RunTask
from noetl.errors import NoetlError, NotFound, Rejected
from noetl.masking import Mask
from noetl.output import JSON, Failure, LargeOutput, NotJSON, Output, clean, clean_decoded, failed
from noetl.playbook.model import Credential
from noetl.playbook.source import Path
from noetl.ports import ResultStore
from noetl.tool import Auth, Call, Tool, Tools, no_keychain, unmasked
from noetl.worker.keychain import Keychain, call_credential, entry_named, failure_of
from noetl.worker.refs import ExecutionResults, Lineage
from noetl.worker.result_stores import ResultPolicy
from noetl.worker.task_files import TaskFiles


class CallContext(Protocol):
    """The caller's side of a call: how results are stored, and who receives lines and progress."""

    result_policy: ResultPolicy

    def say(self, text: str) -> None: ...

    def write(self, stream: Literal["out", "err"], chunk: bytes) -> None: ...

    def use_credential(self, entry: Credential) -> None:
        """The call has read this entry: its values are masked in the output."""
        ...

    def use_files(self, digests: Mapping[str, str]) -> None:
        """The code of the call includes these files."""
        ...

    def mask(self) -> Mask | None:
        """For the values of all entries that the frame has used; None: it has used none."""
        ...

    def progress(self, done: float, of: float | None) -> None: ...


ToolRun: TypeAlias = Callable[[RunTask, CallContext], Awaitable[Output]]

# The names of types in messages of msgspec, and ours.
_TYPES = {
    "str": "text", "int": "an integer", "float": "a number", "bool": "a boolean", "array": "a list",
    "object": "a map", "null": "null",
}  # fmt: skip
_KINDS = re.compile(rf"`((?:{'|'.join(_TYPES)})(?: \| (?:{'|'.join(_TYPES)}))*)`")


class Toolbox:
    """The tools of one worker: created on first use, closed with the worker."""

    def __init__(
        self, tools: Tools, results: ResultStore, keychain: Keychain | None = None, lineage: Lineage | None = None
    ) -> None:
        self._tools = tools
        self._results = results
        self._keychain = keychain
        self._lineage = lineage
        self._created: dict[str, Tool | None] = {}
        self._files = TaskFiles(tools)

    async def __call__(self, called: RunTask, context: CallContext) -> Output:
        """Tools return expected failures as outputs. An exception of a tool becomes a failure, too."""
        task = called.task
        tool = self._tool(task.kind)
        if tool is None:
            return failed("tool", f'this worker has no tool of kind "{task.kind}"')
        try:
            input = msgspec.convert(called.fields if tool.free_input else called.input, tool.Input)
            results = context.result_policy.store_in(self._results)
        except msgspec.ValidationError as error:
            return failed("input", describe_mismatch(task.name, error))
        except (UnicodeError, Rejected) as error:
            return failed("input", f'task "{task.name}": {error}')
        call = self._call(tool, called, context, results)
        if called.folder is not None and not task.pure and (files := self._files(task, called.folder).digests):
            context.use_files(files)
        entry = call_credential(called) if called.keychain else None
        try:
            if entry is not None and self._keychain is not None:
                call = call._replace(auth=await self._keychain.auth(entry))
        except NoetlError as error:
            return Output(status="error", error=failure_of(error))
        try:
            output = await tool.run(input, call)
        except NotImplementedError:
            return failed("tool", f'a task of kind "{task.kind}" can be checked, but not run yet')
        except Exception as error:  # noqa: BLE001  # the boundary of a tool call (STYLE §2)
            return failed("tool", f"{type(error).__name__}: {error}")
        if tool.unjudged == "depth":
            output = cleaned(output, unmasked if type(output) is LargeOutput else clean_decoded)
        elif tool.unjudged == "all":
            output = cleaned(output, clean)
        return output if task.schema is None else task.schema.applied(output)

    def _call(self, tool: Tool, called: RunTask, context: CallContext, results: ResultStore) -> Call:
        task = called.task
        execution_id, workload = called.scope["execution_id"], called.scope["workload"]
        own = ExecutionResults(results, self._lineage, execution_id, workload, context.mask, origins=called.origins)
        mask = context.mask() if called.keychain else None
        return Call(  # by position: with names, Python would make a dict for each call
            called.key,
            called.attempt,
            execution_id,
            called.input if tool.free_input else {},
            called.scope["_prev"],
            task.spec,
            own,
            called.folder,
            None,
            tuple([_at(called.input, path) for path in task.refs]) if task.refs else (),
            partial(self._credential, called, context),
            context.say,
            context.progress,
            task.playbook,
            unmasked if mask is None else mask.value,
            context.write,
            task.libs,
        )

    async def _credential(self, called: RunTask, context: CallContext, name: str) -> Auth:
        """Raises NotFound or Unavailable, with the name of the entry."""
        entry = entry_named(name, called.keychain)
        if entry is None:
            raise NotFound(f'keychain entry "{name}": the playbook does not declare it')
        if self._keychain is None:
            return await no_keychain(name)
        context.use_credential(entry)
        return await self._keychain.auth(entry)

    def _tool(self, kind: str) -> Tool | None:
        tool = self._created.get(kind)
        if tool is None:
            tool = self._created[kind] = self._tools.make(kind)
        return tool

    async def close(self) -> None:
        for tool in self._created.values():
            if tool is not None:
                await tool.close()


def _at(value: JSON, path: Path) -> JSON:
    for part in path:
        value = value[part]
    return value


def describe_mismatch(task: str, error: msgspec.ValidationError) -> str:
    """Which field is wrong, in terms of the playbook. Never its value, which may be a secret."""
    text, _, place = str(error).partition(" - at `$")
    field = place.rstrip("`").lstrip(".") or "input"
    if text.startswith("Invalid enum value"):
        text = "the value is not one of those that this field accepts"
    text = text.replace("Object missing required field", "missing field")
    text = _KINDS.sub(lambda found: " or ".join(_TYPES[each] for each in found[1].split(" | ")), text)
    return f'{field} of task "{task}": {text[:1].lower()}{text[1:]}'


def cleaned(output: Output, clean_data: Callable[[JSON], JSON]) -> Output:
    """The output of a tool as plain JSON: tools are foreign code."""
    try:
        data = clean_data(output.data)
        own = output.own and clean(output.own)
        meta = output.meta and clean(output.meta)
        error = output.error and _clean_failure(output.error)
    except NotJSON as refused:
        return failed("output", f"the output is not valid JSON: {refused}")
    if data is output.data and own is output.own and meta is output.meta and error is output.error:
        return output
    return msgspec.structs.replace(output, data=data, own=own, meta=meta, error=error)


def _clean_failure(error: Failure) -> Failure:
    details, cause = clean(error.details), error.cause and _clean_failure(error.cause)
    if details is error.details and cause is error.cause:
        return error
    return msgspec.structs.replace(error, details=details, cause=cause)


def total_s(spec: dict[str, JSON]) -> float | None:
    """The time limit of a call (D33): a number of seconds, or `total` of a mapping."""
    timeout = spec.get("timeout")
    if isinstance(timeout, dict):
        timeout = timeout.get("total")
    return float(timeout) if isinstance(timeout, int | float) and timeout > 0 else None
