"""Commands to an execution, on any server: cancel, pause, resume, retry, signal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from litestar import post
from litestar.openapi.spec import Operation, RequestBody
from litestar.params import JSONBody

from noetl.api.executions import CancelRequest, CommandResponse, EmptyRequest, RetryRequest, SignalRequest
from noetl.engine.commands import Cancel, Command, Pause, Resume, Retry, Signal
from noetl.errors import NotFound, PlaybookError, Rejected
from noetl.output import NotJSON, clean_decoded
from noetl.server.log_readers import checked_id
from noetl.server.params import RUN, CallerParam, ExecutionId, ServicesParam, error_responses
from noetl.server.services import Services
from noetl.views.log import STARTUP_FACTS, events_of, require_started

TAGS: Final = ["commands"]


@dataclass
class OptionalBody(Operation):
    """A route whose body may be omitted."""

    def __post_init__(self) -> None:
        if isinstance(self.request_body, RequestBody):
            self.request_body.required = False


@post(
    "/executions/{execution_id:str}/cancel",
    opt=RUN,
    tags=TAGS,
    summary="Cancel an execution",
    status_code=200,
    operation_class=OptionalBody,
    responses=error_responses(404, 409),
)
async def cancel(
    services: ServicesParam, caller: CallerParam, execution_id: ExecutionId, data: JSONBody[CancelRequest | None] = None
) -> CommandResponse:
    """Running calls have 10 s to stop. Child executions are cancelled, too."""
    reason = data.reason if data is not None else ""
    return await _send(services, execution_id, Cancel(reason=reason, by=caller.name))


@post(
    "/executions/{execution_id:str}/pause",
    opt=RUN,
    tags=TAGS,
    summary="Pause an execution: start no further steps",
    status_code=200,
    operation_class=OptionalBody,
    responses=error_responses(404, 409),
)
async def pause(
    services: ServicesParam, caller: CallerParam, execution_id: ExecutionId, data: JSONBody[EmptyRequest | None] = None
) -> CommandResponse:
    del data
    return await _send(services, execution_id, Pause(by=caller.name))


@post(
    "/executions/{execution_id:str}/resume",
    opt=RUN,
    tags=TAGS,
    summary="Resume an execution that is paused or interrupted",
    status_code=200,
    operation_class=OptionalBody,
    responses=error_responses(404, 409),
)
async def resume(
    services: ServicesParam, caller: CallerParam, execution_id: ExecutionId, data: JSONBody[EmptyRequest | None] = None
) -> CommandResponse:
    del data
    head = await services.listing.head(checked_id(execution_id))
    if head.status == "running" and not head.owner_alive and services.resume_orphan is not None:
        await services.resume_orphan(execution_id)
        return CommandResponse(execution_id=execution_id, status=head.status)
    return await _send(services, execution_id, Resume(by=caller.name))


@post(
    "/executions/{execution_id:str}/retry",
    opt=RUN,
    tags=TAGS,
    summary="Retry the failed parts of a finished execution",
    status_code=200,
    operation_class=OptionalBody,
    responses=error_responses(404, 409, 422),
)
async def retry(
    services: ServicesParam, caller: CallerParam, execution_id: ExecutionId, data: JSONBody[RetryRequest | None] = None
) -> CommandResponse:
    request = data or RetryRequest()
    command = Retry(step=request.step, from_start=request.from_start, by=caller.name)
    return await _send(services, execution_id, command)


@post(
    "/executions/{execution_id:str}/signal",
    opt=RUN,
    tags=TAGS,
    summary="Send a signal that the execution waits for",
    status_code=200,
    responses=error_responses(404, 409, 422),
)
async def signal(
    services: ServicesParam, caller: CallerParam, execution_id: ExecutionId, data: JSONBody[SignalRequest]
) -> CommandResponse:
    try:
        clean_decoded(data.data)
    except NotJSON as error:
        raise Rejected("not-json", f"the signal's {error}") from error
    command = Signal(name=data.name, data=data.data, by=caller.name)
    return await _send(services, execution_id, command)


async def _send(services: Services, execution_id: str, command: Command) -> CommandResponse:
    """When this returns, the log contains the command."""
    try:
        await services.link.command(checked_id(execution_id), command)
    except (NotFound, PlaybookError):
        # A recorded start request that could not run has no playbook: report that it never began instead.
        require_started(events_of(await services.store.read(execution_id, 0, STARTUP_FACTS)), "start it again")
        raise
    status = await services.store.status(execution_id)
    if status is None:
        raise NotFound(f"no execution {execution_id}")
    return CommandResponse(execution_id=execution_id, status=status)


ROUTES = [cancel, pause, resume, retry, signal]
