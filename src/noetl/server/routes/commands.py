"""A word to an execution, whoever owns it: cancel, pause, resume, retry, signal. `by` is whoever asks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from litestar import post
from litestar.openapi.spec import Operation, RequestBody
from litestar.params import JSONBody
from msgspec import Struct

from noetl.engine.commands import Cancel, Command, Pause, Resume, Retry, Signal
from noetl.errors import NotFound, PlaybookError, Rejected
from noetl.output import JSON, NotJSON, clean_decoded
from noetl.server.log_readers import checked_id
from noetl.server.params import RUN, CallerGiven, DeskGiven, ExecutionId, refusals
from noetl.server.routes.executions import Told
from noetl.server.services import Services
from noetl.views.log import STARTUP_FACTS, events_of, require_started

TAGS: Final = ["commands"]


class CancelAsked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    reason: str = ""


class RetryAsked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    step: str | None = None  # None: every failure that nothing handled
    from_start: bool = False  # of the step, and not at the task that failed


class SignalAsked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    data: JSON = None


@dataclass
class OptionalBody(Operation):
    """A route whose body may be left out."""

    def __post_init__(self) -> None:
        if isinstance(self.request_body, RequestBody):
            self.request_body.required = False


class Nothing(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An empty body."""


@post(
    "/executions/{execution_id:str}/cancel",
    opt=RUN,
    tags=TAGS,
    summary="Cancel it",
    status_code=200,
    operation_class=OptionalBody,
    responses=refusals(404, 409),
)
async def cancel(
    desk: DeskGiven, caller: CallerGiven, execution_id: ExecutionId, data: JSONBody[CancelAsked | None] = None
) -> Told:
    """Calls that run have 10 s; children are cancelled, too."""
    reason = data.reason if data is not None else ""
    return await _commanded(desk, execution_id, Cancel(reason=reason, by=caller.name))


@post(
    "/executions/{execution_id:str}/pause",
    opt=RUN,
    tags=TAGS,
    summary="Begin nothing more of it",
    status_code=200,
    operation_class=OptionalBody,
    responses=refusals(404, 409),
)
async def pause(
    desk: DeskGiven, caller: CallerGiven, execution_id: ExecutionId, data: JSONBody[Nothing | None] = None
) -> Told:
    del data
    return await _commanded(desk, execution_id, Pause(by=caller.name))


@post(
    "/executions/{execution_id:str}/resume",
    opt=RUN,
    tags=TAGS,
    summary="Go on with what is paused or interrupted",
    status_code=200,
    operation_class=OptionalBody,
    responses=refusals(404, 409),
)
async def resume(
    desk: DeskGiven, caller: CallerGiven, execution_id: ExecutionId, data: JSONBody[Nothing | None] = None
) -> Told:
    del data
    head = await desk.listing.head(checked_id(execution_id))
    if head.status == "running" and not head.owner_alive and desk.take_up is not None:
        await desk.take_up(execution_id)
        return Told(execution_id=execution_id, status=head.status)
    return await _commanded(desk, execution_id, Resume(by=caller.name))


@post(
    "/executions/{execution_id:str}/retry",
    opt=RUN,
    tags=TAGS,
    summary="Take up what failed",
    status_code=200,
    operation_class=OptionalBody,
    responses=refusals(404, 409, 422),
)
async def retry(
    desk: DeskGiven, caller: CallerGiven, execution_id: ExecutionId, data: JSONBody[RetryAsked | None] = None
) -> Told:
    asked = data or RetryAsked()
    command = Retry(step=asked.step, from_start=asked.from_start, by=caller.name)
    return await _commanded(desk, execution_id, command)


@post(
    "/executions/{execution_id:str}/signal",
    opt=RUN,
    tags=TAGS,
    summary="Give it what it waits for",
    status_code=200,
    responses=refusals(404, 409, 422),
)
async def signal(
    desk: DeskGiven, caller: CallerGiven, execution_id: ExecutionId, data: JSONBody[SignalAsked]
) -> Told:
    try:
        clean_decoded(data.data)
    except NotJSON as error:
        raise Rejected("not-json", f"the signal's {error}") from error
    command = Signal(name=data.name, data=data.data, by=caller.name)
    return await _commanded(desk, execution_id, command)


async def _commanded(desk: Services, execution_id: str, command: Command) -> Told:
    """It is on record when this returns."""
    try:
        await desk.link.command(checked_id(execution_id), command)
    except (NotFound, PlaybookError):
        # Of a request that could not run there is no playbook, and that is not what matters.
        require_started(events_of(await desk.store.read(execution_id, 0, STARTUP_FACTS)), "start it anew")
        raise
    status = await desk.store.status(execution_id)
    if status is None:
        raise NotFound(f"no execution {execution_id}")
    return Told(execution_id=execution_id, status=status)


ROUTES = [cancel, pause, resume, retry, signal]
