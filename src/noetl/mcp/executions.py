"""The verbs for executions: run, look, explain, compare, fork, signal and cancel."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

from noetl.api.executions import line_text
from noetl.api.playbooks import to_problem
from noetl.api.trials import WhatIfRequest
from noetl.errors import NotFound, PlaybookError
from noetl.mcp.bounds import at_pointer, page
from noetl.mcp.context import TEXT_NAME, Answer, VerbContext
from noetl.mcp.trials import ServerTrials
from noetl.output import JSON
from noetl.session.analysis import PlaybookDifference, compare, explain_step
from noetl.session.errors import UsageError
from noetl.session.execution import Execution
from noetl.session.protocol import ForkSpec, Standing
from noetl.session.sources import PlaybookFile, RegisteredPath
from noetl.session.what_if import WhatIf, require_ended
from noetl.views.log import instant
from noetl.views.what_if import WhatIfReport
from noetl.views.why_text import why_lines

WAIT_S: Final = 30.0
WAIT_S_MAX: Final = 300.0
EVENTS_CHARS_MAX: Final = 30_000  # of one page

Id = Annotated[str, Meta(description="the id of an execution, the beginning of it, or `last`", examples=["last"])]
Workload = Annotated[dict[str, Any], Meta(description="the inputs, by name", examples=[{"day": "2026-11-16"}])]
Wait = Annotated[
    float,
    Meta(description="seconds to wait for its end; then the answer has its id, and it continues", ge=0, le=WAIT_S_MAX),
]
Limit = Annotated[int, Meta(description="the maximum number of results", ge=1, le=1_000)]


class RunArguments(Struct, forbid_unknown_fields=True, kw_only=True):
    path: Annotated[
        str | None,
        Meta(description="the path of a registered playbook, or path@version", examples=["shop/orders"]),
    ] = None
    text: Annotated[str | None, Meta(description="a playbook, as YAML text; it is checked first")] = None
    workload: Workload = {}
    wait_s: Wait = WAIT_S
    key: Annotated[
        str | None, Meta(description="names this request: a second call with it returns the same execution")
    ] = None


async def run(context: VerbContext, asked: RunArguments) -> Answer:
    source = context.source(asked.path, asked.text)
    await context.require_runnable(source)
    execution = await context.session.start(source, workload=asked.workload, key=asked.key)
    return await ended(execution, asked.wait_s)


async def run_registered(context: VerbContext, path: str, workload: dict[str, JSON]) -> Answer:
    """A playbook that is a tool of its own."""
    return await ended(await context.session.start(RegisteredPath(path), workload=workload), WAIT_S)


async def ended(execution: Execution, wait_s: float) -> Answer:
    """How an execution ended, or that it has not."""
    if wait_s:
        try:
            result = await execution.result(timeout_s=wait_s)
        except TimeoutError:
            pass
        else:
            answer: Answer = {"execution": execution.id, "status": result.status, "output": result.output}
            if result.error is not None:
                steps = (await execution.show()).steps
                failed = dict.fromkeys(each.step for each in steps if each.status == "error")
                answer |= {"error": msgspec.to_builtins(result.error), "failed_steps": list(failed)}
            return {**answer, "duration_s": result.duration_s}
    status = await execution.status()
    return {"execution": execution.id, "status": status, "next": "it continues; `status` shows where it is"}


class ExecutionArguments(Struct, forbid_unknown_fields=True, kw_only=True):
    execution: Id


async def status(context: VerbContext, asked: ExecutionArguments) -> Answer:
    execution = await context.session.execution(asked.execution)
    info, document = await execution.info(), msgspec.to_builtins(await execution.show())
    document.pop("execution_id")
    return {
        "execution": execution.id,
        "playbook": info.path,
        "started": instant(info.started_at),
        **document,
        "status": info.standing,
    }


class OutputArguments(Struct, forbid_unknown_fields=True, kw_only=True):
    execution: Id
    step: Annotated[str | None, Meta(description="the output of this step; default: of the whole playbook")] = None
    pointer: Annotated[str, Meta(description="a part of it, as a JSON pointer", examples=["/rows/0"])] = ""
    offset: Annotated[int, Meta(description="the first character, item or key of that part", ge=0)] = 0
    limit: Annotated[int, Meta(description="how many characters, items or keys", ge=1, le=30_000)] = 1_000


async def output(context: VerbContext, asked: OutputArguments) -> Answer:
    value = await (await context.session.execution(asked.execution)).output(asked.step)
    try:
        part = at_pointer(value, asked.pointer)
    except LookupError as error:
        raise NotFound(f'the output has no "{error.args[0]}" at {asked.pointer}') from None
    shown, total = page(part, asked.offset, asked.limit)
    answer: Answer = {"value": shown}
    if total is not None and (asked.offset or asked.limit < total):
        last = min(asked.offset + asked.limit, total)
        answer |= {"offset": asked.offset, "total": total, "next_offset": last if last < total else None}
    return answer


class EventsArguments(Struct, forbid_unknown_fields=True, kw_only=True):
    execution: Id
    after: Annotated[int, Meta(description="only events after this `seq`", ge=0)] = 0
    limit: Limit = 50


async def events(context: VerbContext, asked: EventsArguments) -> Answer:
    execution = await context.session.execution(asked.execution)
    found: list[JSON] = []
    size, last, following = 0, asked.after, None
    async for event in execution.events(after=asked.after):
        # The events of one fact stay together.
        if event.seq != last and found and (len(found) >= asked.limit or size > EVENTS_CHARS_MAX):
            following = last
            break
        found.append(msgspec.to_builtins(event))
        size, last = size + len(msgspec.json.encode(event)), event.seq
    return {"execution": execution.id, "events": found, "next_after": following}


class LogsArguments(Struct, forbid_unknown_fields=True, kw_only=True):
    execution: Id
    step: Annotated[str | None, Meta(description="only lines of this step, run, iteration or call")] = None
    failed: Annotated[bool, Meta(description="only lines of failed calls")] = False
    offset: Annotated[int, Meta(description="the first line", ge=0)] = 0
    limit: Limit = 200


async def logs(context: VerbContext, asked: LogsArguments) -> Answer:
    execution = await context.session.execution(asked.execution)
    lines: list[str] = []
    place, size, following = 0, 0, None
    async for line in execution.logs(asked.step, failed=asked.failed):
        if place >= asked.offset:
            if len(lines) >= asked.limit or (lines and size > EVENTS_CHARS_MAX):
                following = place
                break
            lines.append(line_text(line))
            size += len(lines[-1])
        place += 1
    return {"execution": execution.id, "lines": lines, "next_offset": following}


class StateArguments(Struct, forbid_unknown_fields=True, kw_only=True):
    execution: Id
    at: Annotated[int | None, Meta(description="after the fact with this `seq`; default: the last one")] = None


async def state(context: VerbContext, asked: StateArguments) -> Answer:
    execution = await context.session.execution(asked.execution)
    return {"execution": execution.id, **msgspec.to_builtins(await execution.state(asked.at))}


class WhyArguments(Struct, forbid_unknown_fields=True, kw_only=True):
    execution: Id
    step: Annotated[str, Meta(description="a step or a block of its playbook", examples=["start"])]


async def why(context: VerbContext, asked: WhyArguments) -> Answer:
    execution = await context.session.execution(asked.execution)
    found = await explain_step(execution, asked.step, context.kinds)
    return {"execution": execution.id, "text": "\n".join(why_lines(found)), "why": msgspec.to_builtins(found)}


class ForkArguments(Struct, forbid_unknown_fields=True, kw_only=True):
    execution: Id
    text: Annotated[str | None, Meta(description="the corrected playbook, as YAML text; default: the same text")] = None
    path: Annotated[str | None, Meta(description="the path of a registered playbook, instead of `text`")] = None
    workload: Annotated[dict[str, Any], Meta(description="inputs that replace earlier ones")] = {}
    at: Annotated[Annotated[int, Meta(ge=1)] | None, Meta(description="only events up to this `seq` count")] = None
    from_step: Annotated[str | None, Meta(description="repeat the runs of this step, and all that follows")] = None
    failed_only: Annotated[
        bool, Meta(description="keep all finished work, even if its text or its input has changed")
    ] = False
    dry_run: Annotated[bool, Meta(description="only the plan: what is kept and what is repeated")] = False
    wait_s: Wait = WAIT_S


async def fork(context: VerbContext, asked: ForkArguments) -> Answer:
    session = context.session
    execution = await session.execution(asked.execution)
    source = None
    if asked.text is not None or asked.path is not None:
        source = context.source(asked.path, asked.text)
        await context.require_runnable(source)
    wanted = ForkSpec(source, asked.at, asked.from_step, asked.workload, asked.failed_only)
    planned = await session.plan_fork(execution.id, wanted)
    answer: Answer = {"fork_of": execution.id, "plan": msgspec.to_builtins(planned)}
    if not asked.dry_run:
        answer |= await ended(await session.fork(execution.id, wanted._replace(at=planned.at)), asked.wait_s)
    return answer


class WhatIfArguments(Struct, forbid_unknown_fields=True, kw_only=True):
    execution: Id
    text: Annotated[str, Meta(description="the edited playbook, as YAML text")]
    on_miss: Annotated[
        Literal["fail", "null"], Meta(description="a call that was not recorded fails, or returns null")
    ] = "fail"


async def what_if(context: VerbContext, asked: WhatIfArguments) -> Answer:
    execution = await context.session.execution(asked.execution)
    if context.trials is None:
        compared = WhatIf(context.session, PlaybookFile(TEXT_NAME, asked.text.encode()), asked.on_miss)
        report = await compared.compare(execution)
    else:
        report = await _what_if_on_server(context.trials, execution, asked)
    answer: Answer = msgspec.to_builtins(report)
    return {"execution": answer.pop("execution_id"), **answer}


async def _what_if_on_server(trials: ServerTrials, execution: Execution, asked: WhatIfArguments) -> WhatIfReport:
    await require_ended(execution)
    request = WhatIfRequest(text=asked.text, executions=(execution.id,), on_miss=asked.on_miss)
    found = await trials.what_if(request)
    if found.problems:
        raise PlaybookError(to_problem(each, TEXT_NAME) for each in found.problems)
    (item,) = found.items
    if item.report is None:
        raise UsageError(item.error or f"{execution.id} cannot be compared")
    return item.report


class DiffArguments(Struct, forbid_unknown_fields=True, kw_only=True):
    a: Annotated[str, Meta(description="an execution, or a playbook as path@version", examples=["shop/orders@3"])]
    b: Annotated[str, Meta(description="the other execution or playbook", examples=["shop/orders@4"])]


async def diff(context: VerbContext, asked: DiffArguments) -> Answer:
    found = await compare(context.session, context.named(asked.a), context.named(asked.b), context.kinds)
    if isinstance(found, PlaybookDifference):
        return {"differs": found.differs, "changes": msgspec.to_builtins(found.changes)}
    answer: Answer = msgspec.to_builtins(found)
    return answer


class ListArguments(Struct, forbid_unknown_fields=True, kw_only=True):
    of: Annotated[Literal["executions", "playbooks"], Meta(description="what to list")] = "executions"
    path: Annotated[str | None, Meta(description="only of these playbooks", examples=["shop/*"])] = None
    status: Annotated[list[Standing], Meta(description="only executions with one of these")] = []
    limit: Limit = 20


async def list_found(context: VerbContext, asked: ListArguments) -> Answer:
    if asked.of == "playbooks":
        return {"playbooks": await _playbooks(context, asked)}
    found = context.session.executions(status=asked.status or None, path=asked.path, limit=asked.limit)
    return {
        "executions": [
            {
                "execution": each.id,
                "playbook": each.path,
                "status": each.standing,
                "started": instant(each.started_at),
                "labels": each.labels,
            }
            async for each in found
        ]
    }


async def _playbooks(context: VerbContext, asked: ListArguments) -> list[JSON]:
    from fnmatch import fnmatchcase

    return [
        {"path": each.path, "version": each.version, "registered": instant(each.at)}
        for each in await context.session.playbooks.list()
        if asked.path is None or fnmatchcase(each.path, asked.path)
    ][: asked.limit]


class SignalArguments(Struct, forbid_unknown_fields=True, kw_only=True):
    execution: Id
    name: Annotated[str, Meta(description="the signal that a task waits for", examples=["approval"])]
    data: Annotated[Any, Meta(description="its data", examples=[{"ok": True}])] = None
    frame: Annotated[
        str | None, Meta(description="only for the wait of this frame; default: for all of them", examples=["ask#1[2]"])
    ] = None


async def signal(context: VerbContext, asked: SignalArguments) -> Answer:
    execution = await context.session.execution(asked.execution)
    received = await context.session.signal(execution.id, asked.name, asked.data, frame=asked.frame)
    note = {} if received else {"note": "no process runs the execution: the signal takes effect when it is resumed"}
    return {"execution": execution.id, "received": received, **note}


class CancelArguments(Struct, forbid_unknown_fields=True, kw_only=True):
    execution: Id
    reason: Annotated[str, Meta(description="the reason, which is recorded in the log")] = ""
    compensate: Annotated[bool, Meta(description="undo its completed steps first")] = False


async def cancel(context: VerbContext, asked: CancelArguments) -> Answer:
    execution = await context.session.execution(asked.execution)
    status = await context.session.cancel(execution.id, asked.reason, compensate=asked.compensate)
    return {"execution": execution.id, "status": status}
