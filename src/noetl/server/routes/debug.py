"""Debug an execution: set breakpoints, list what is held, read and change its values, and continue it."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Final

from litestar import delete, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody, QueryParameter

from noetl.api.debugging import (
    PLACE_CHARS_MAX,
    BreakpointRequest,
    BreakpointsResponse,
    ChangeRequest,
    ContinueRequest,
    EvaluateRequest,
    StepRequest,
)
from noetl.engine.commands import Change, ClearBreakpoint, Command, Release
from noetl.errors import NoetlError, NotFound, Rejected
from noetl.net.program import Program
from noetl.output import NotJSON, clean_decoded
from noetl.playbook.source import parse
from noetl.server.auth import Caller
from noetl.server.log_readers import checked_id
from noetl.server.params import (
    EXECUTION,
    OF_EXECUTION,
    READ,
    RUN,
    AppContext,
    CallerParam,
    ContextParam,
    ExecutionId,
    clean_text,
    read_execution,
    route,
)
from noetl.server.routes.executions import send_command
from noetl.views.debugging import (
    DebugDocument,
    EvaluationDocument,
    Lines,
    OpenChildDocument,
    PlaceScopes,
    Reads,
    ScopesDocument,
    debug_document,
    with_held_children,
)

At = Annotated[
    str | None, QueryParameter(name="at", description="a run or frame that is held", max_length=PLACE_CHARS_MAX)
]


@read_execution("/debug", "Breakpoints of an execution, and what they hold")
async def debug(context: ContextParam, caller: CallerParam, execution_id: ExecutionId) -> DebugDocument:
    """A held run or frame occupies no worker and survives a restart. Its timeouts are stopped; deadlines are not."""
    return await _with_children(context, caller, execution_id)


@read_execution("/debug/scopes", "The scopes that templates see where something is held", 409)
async def scopes(context: ContextParam, execution_id: ExecutionId, at: At = None) -> ScopesDocument:
    """Without `at`, the scopes of the whole execution. A value over 64 KiB is replaced by its size."""
    return (await _scopes_at(context, execution_id, at)).document()


@route(
    post,
    READ | OF_EXECUTION,
    "executions",
    f"{EXECUTION}/debug/evaluate",
    "Evaluate an expression where something is held",
    404,
    409,
    status_code=200,
)
async def evaluate(
    context: ContextParam, execution_id: ExecutionId, data: JSONBody[EvaluateRequest]
) -> EvaluationDocument:
    """Nothing is changed. An expression that reads the keychain gives `***`: secrets are not read."""
    scene = await _scopes_at(context, execution_id, data.at)
    return await scene.evaluate(data.expression, Reads(context.services.results.get, context.loop_items.item))


@read_execution("/breakpoints", "The breakpoints of an execution")
async def breakpoints(context: ContextParam, execution_id: ExecutionId) -> BreakpointsResponse:
    return BreakpointsResponse(items=(await _document(context, execution_id)).breakpoints)


def _command(name: str, summary: str) -> HTTPRouteHandler:
    path = f"{EXECUTION}/{name}"
    return route(post, RUN | OF_EXECUTION, "commands", path, summary, 404, 409, 422, status_code=200)


@_command("breakpoints", "Set a breakpoint, or replace the one at its place")
async def set_breakpoint(
    context: ContextParam, caller: CallerParam, execution_id: ExecutionId, data: JSONBody[BreakpointRequest]
) -> DebugDocument:
    """Before a step, or before a task of it: `fetch` or `fetch.get_page`. A frame that is running stops at it
    only after its next report.
    """
    detail = f"{data.place} when {data.when}" if data.when else data.place
    return await _done(context, caller, execution_id, data.command(caller.name), what="break", detail=detail)


@route(
    delete,
    RUN | OF_EXECUTION,
    "commands",
    f"{EXECUTION}/breakpoints",
    "Remove a breakpoint, or all of them",
    404,
    409,
    status_code=200,
)
async def clear_breakpoints(
    context: ContextParam,
    caller: CallerParam,
    execution_id: ExecutionId,
    place: Annotated[
        str | None, QueryParameter(description="of the breakpoint; without it: all", max_length=PLACE_CHARS_MAX)
    ] = None,
) -> DebugDocument:
    """Runs and frames that are held stay held."""
    name = None if place is None else clean_text(place, "place")
    command = ClearBreakpoint(place=name, by=caller.name)
    return await _done(context, caller, execution_id, command, what="clear", detail=name or "all")


@_command("debug/continue", "Continue held runs and frames until the next breakpoint")
async def continue_held(
    context: ContextParam, caller: CallerParam, execution_id: ExecutionId, data: JSONBody[ContinueRequest]
) -> DebugDocument:
    command = Release(at=data.at, by=caller.name)
    return await _done(context, caller, execution_id, command, what="continue", detail=data.at or "all")


@_command("debug/step", "Run one task of a held run or frame, and hold it again before the next task")
async def step(
    context: ContextParam, caller: CallerParam, execution_id: ExecutionId, data: JSONBody[StepRequest]
) -> DebugDocument:
    """After the last task it is held before the next step, or in a sequential loop before the next iteration."""
    command = Release(at=data.at, step=True, by=caller.name)
    return await _done(context, caller, execution_id, command, what="step", detail=data.at)


@_command("debug/set", "Change values of `ctx`, `step` or `iter` where something is held")
async def change(
    context: ContextParam, caller: CallerParam, execution_id: ExecutionId, data: JSONBody[ChangeRequest]
) -> DebugDocument:
    """The log records the values and who has changed them."""
    try:
        clean_decoded(data.set)
    except NotJSON as error:
        raise Rejected("not-json", f"set: {error}") from error
    command = Change(at=data.at, set=data.set, by=caller.name)
    detail = f"{data.at}: {', '.join(data.set)}"
    return await _done(context, caller, execution_id, command, what="set", detail=detail)


async def _done(
    context: AppContext, caller: Caller, execution_id: str, command: Command, *, what: str, detail: str
) -> DebugDocument:
    await send_command(context, caller, execution_id, command, what=what, detail=detail)
    return await _with_children(context, caller, execution_id)


async def _with_children(context: AppContext, caller: Caller, execution_id: str) -> DebugDocument:
    async def read(child: OpenChildDocument) -> DebugDocument | None:
        with suppress(NotFound):  # it has no log yet
            return await _document(context, child.execution_id) if caller.may("read", child.path) else None
        return None

    return await with_held_children(await _document(context, execution_id), read)


async def _document(context: AppContext, execution_id: str) -> DebugDocument:
    found = await context.runs.query(checked_id(execution_id), debug_document)
    if not found.breakpoints and not found.held:
        return found
    lines = await _lines(context, found.digest)
    return await context.runs.query(execution_id, lambda runs: debug_document(runs, lines))


async def _lines(context: AppContext, digest: str) -> Lines | None:
    """None: the playbook cannot be read here."""
    services = context.services
    try:
        program = await services.playbooks.by_digest(digest)
        text = await services.catalog.get(digest)
    except NoetlError:
        return None
    return await context.cpu_pool.run(_read_lines, program, text.text, text.path)


def _read_lines(program: Program, text: str, path: str) -> Lines:
    return Lines(program, parse(text, path).document)


async def _scopes_at(context: AppContext, execution_id: str, at: str | None) -> PlaceScopes:
    digest = await context.runs.query(checked_id(execution_id), lambda runs: runs.state.digest)
    program = await context.services.playbooks.by_digest(digest)
    return await context.runs.query(execution_id, lambda runs: PlaceScopes(program, runs.state, at))


ROUTES: Final = [
    debug, scopes, evaluate, breakpoints, set_breakpoint, clear_breakpoints, continue_held, step, change,
]  # fmt: skip
