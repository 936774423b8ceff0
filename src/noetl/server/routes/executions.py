"""Start, find, list and command executions. A start may wait for the end, so that a playbook can serve as an API."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, TypeVar
from uuid import UUID

from litestar import delete, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.spec import Operation, RequestBody
from litestar.params import HeaderParameter, JSONBody, QueryParameter
from litestar.types import ASGIApp
from msgspec import UNSET

from noetl.api.bulk import ListFilter
from noetl.api.executions import (
    VERSION_MAX,
    CancelRequest,
    CommandResponse,
    DecisionList,
    DeleteResponse,
    EmptyRequest,
    ExecutionIds,
    ExecutionsPage,
    ExecutionSummary,
    ExecutionTree,
    ForkRequest,
    ForkResponse,
    LabelChangeItem,
    LabelsRequest,
    LabelsResponse,
    LastExecution,
    RetryRequest,
    SignalRequest,
    StartRequest,
    StartResponse,
)
from noetl.control.forks import ForkPlanner
from noetl.control.retention import deletable
from noetl.control.secret_inputs import check_inputs, secrets_of_fork, stored_secrets
from noetl.engine.commands import Cancel, Command, Pause, Resume, Retry, Signal, Start
from noetl.engine.facts import ForkOrigin, Requested
from noetl.engine.state import Status
from noetl.errors import NotFound, PlaybookError, Problem, Rejected
from noetl.labels import changed_labels, check_labels, label_texts, parse_labels
from noetl.output import JSON, NotJSON, clean_decoded
from noetl.ports import ExecutionFilter, FeedEvent, LabelChange
from noetl.server.access import check_refs, low_scope
from noetl.server.auth import Caller
from noetl.server.errors import ApiError
from noetl.server.log_readers import ID_PATTERN, checked_id, show_at_once
from noetl.server.params import (
    EXECUTION,
    OF_EXECUTION,
    OF_LIST,
    OF_PLAYBOOK,
    PAGE,
    READ,
    RUN,
    TEXT_CHARS_MAX,
    AppContext,
    CallerParam,
    ContextParam,
    ExecutionId,
    Limit,
    ServicesParam,
    clean_text,
    read_execution,
    response,
    route,
)
from noetl.server.playbook_body import (
    ResolvedStart,
    authorize,
    full_recorded,
    refusals_recorded,
    resolve,
    resolve_digest,
)
from noetl.server.responses import JsonResponse
from noetl.server.services import Services
from noetl.server.subscriptions import CompletionWaiter
from noetl.views.documents import ShowDocument, problem_document
from noetl.views.log import STARTUP_FACTS, events_of, instant, require_started
from noetl.worker.task_files import TaskFiles

T = TypeVar("T")

WAIT_MAX_S: Final = 300.0
KEY_CHARS_MAX: Final = 255
DECISIONS_MAX: Final = 1_000
TREE_DEPTH_MAX: Final = 16
TREE_EXECUTIONS_MAX: Final = 1_000
IdempotencyKey: TypeAlias = Annotated[
    str | None,
    HeaderParameter(
        name="Idempotency-Key",
        description="a repeated key returns the execution of the first request",
        max_length=KEY_CHARS_MAX,
    ),
]
_STARTED: Final = {
    200: response(ShowDocument, "It has ended within `wait`"),
    201: response(StartResponse, "It has started"),
    202: response(StartResponse, "It has not ended within `wait`"),
}


@route(post, RUN | OF_PLAYBOOK, "executions", "/executions", "Start a playbook", 404, 409, 422, success=_STARTED)
async def start(
    data: JSONBody[StartRequest],
    context: ContextParam,
    caller: CallerParam,
    wait: Annotated[float, QueryParameter(description="seconds to wait for its end", ge=0, le=WAIT_MAX_S)] = 0.0,
    key: IdempotencyKey = None,
) -> ASGIApp:
    """When the response arrives, the log contains the start request.

    Requests with the same Idempotency-Key and token start one execution. A new text is registered first,
    which needs the scope `write` as well. The log also records a request that cannot run: the response then
    contains the problems and the id of its execution, and the key remains free.
    """
    async with started(context, data, caller, wait, key) as execution:
        location = f"/executions/{execution.id}"
        if not await execution.has_ended():
            return JsonResponse(202 if wait else 201, await execution.response(), location)
        rows = context.services.committed.ended(execution.id)
        document = None if rows is None else show_at_once(execution.id, rows)
        return JsonResponse(200, document or await context.runs.show(execution.id), location)


class StartedExecution(NamedTuple):
    """An execution that has just started, or that an earlier request with the same key has started."""

    id: str
    is_new: bool
    waiter: CompletionWaiter
    problems: tuple[Problem, ...]  # of a text: warnings and advice
    digest: str | None = None  # of its playbook; None: an earlier request has started it

    async def has_ended(self, found: Callable[[], Awaitable[bool]] | None = None) -> bool:
        """Wait, as long as the caller does, or until `found`. True: it has ended in time, or `found` was true."""
        return await self.waiter.has_ended(is_new=self.is_new, found=found)

    async def response(self) -> StartResponse:
        problems = tuple(map(problem_document, self.problems)) or UNSET
        return StartResponse(execution_id=self.id, status=await self.waiter.status(), problems=problems)


@asynccontextmanager
async def started(
    context: AppContext, data: StartRequest, caller: Caller, wait: float, key: str | None
) -> AsyncIterator[StartedExecution]:
    """Start the playbook, unless a request with this key has started it. `wait`: seconds that the caller waits."""
    services = context.services
    data = await authorize(context, data, caller)
    workload, ctx = _checked(data.workload, "workload"), _checked(data.ctx, "ctx")
    await check_refs(services, caller, workload)
    _labels(lambda: check_labels(data.labels))
    execution_id = services.clock.new_id() if key is None else _derived_id(caller, key)
    is_new = key is None or await services.store.status(execution_id) is None
    resolved: ResolvedStart | None = None
    async with context.waiters.waiter(execution_id, wait) as waiter:
        if is_new:
            async with refusals_recorded(context, data, caller):
                resolved = await resolve(context, data, caller)
                program = await services.playbooks.by_digest(resolved.digest)
                check_inputs(program, workload, data.secrets)
                breakpoints = tuple(each.command(caller.name) for each in data.breakpoints)
                command = Start(workload=workload, ctx=ctx, labels=data.labels, by=caller.name, breakpoints=breakpoints)
                async with (
                    full_recorded(context, caller, execution_id, resolved.path),
                    stored_secrets(services.secrets, execution_id, data.secrets),
                ):
                    await services.link.start(execution_id, resolved.digest, command)
                context.audit.collect(caller, "start", "start", execution_id, resolved.path)
        if key is not None:
            await _check_same_start(context, execution_id, data, resolved, caller)
        problems, digest = (resolved.problems, resolved.digest) if resolved else ((), None)
        yield StartedExecution(execution_id, is_new, waiter, problems, digest)


def _labels(check: Callable[[], T]) -> T:
    """Raises ApiError for labels that no execution can have."""
    try:
        return check()
    except Rejected as error:
        raise ApiError(400, error.code, str(error).removeprefix(f"{error.code}: ")) from error


def _checked(values: dict[str, JSON], label: str) -> dict[str, JSON]:
    try:
        clean_decoded(values)
    except NotJSON as error:
        raise Rejected("not-json", f"{label}: {error}") from error
    return values


def _derived_id(caller: Caller, key: str) -> str:
    if not key or not key.isprintable():
        raise Rejected("bad-key", f"an Idempotency-Key has 1 to {KEY_CHARS_MAX} printable characters")
    seed = hashlib.sha256(f"start {caller.id} {key}".encode()).digest()[:16]
    return str(UUID(bytes=seed, version=5))


async def _check_same_start(
    context: AppContext, execution_id: str, request: StartRequest, resolved: ResolvedStart | None, caller: Caller
) -> None:
    """Compare the request in the log with this one. Raises Rejected when they differ."""
    rows = await context.services.committed.read(execution_id, 0, 1)
    first = rows[0].facts[0] if rows else None
    assert isinstance(first, Requested), "the first fact of a log is the request"
    same = (first.workload, first.ctx) == (request.workload, request.ctx) and request.path in (None, first.path)
    same = same and request.labels.items() <= first.labels.items()
    if same and (request.path is None or request.version is not None):
        same = first.digest == (resolved.digest if resolved else await resolve_digest(context, request, caller))
    if not same:
        message = "the key was used for a different start request: use a new key for this one"
        raise Rejected("idempotency-mismatch", message)


DigestParam: TypeAlias = Annotated[
    str | None,
    QueryParameter(description="only executions of the playbook text with this digest", max_length=TEXT_CHARS_MAX),
]
LabelParam: TypeAlias = Annotated[
    list[str] | None, QueryParameter(description="only with this label, `key=value`; several: with all of them")
]
PathPrefixParam: TypeAlias = Annotated[
    str | None,
    QueryParameter(description="only with a path that begins with this", max_length=TEXT_CHARS_MAX),
]
SearchParam: TypeAlias = Annotated[
    str | None,
    QueryParameter(
        description="part of the path, the error or a label `key=value`, or the beginning or end of the id",
        max_length=TEXT_CHARS_MAX,
    ),
]


@route(get, READ | OF_LIST, "executions", "/executions", "List executions, newest first")
async def executions(
    services: ServicesParam,
    caller: CallerParam,
    *,
    status: Annotated[Status | None, QueryParameter(description="only with this status")] = None,
    open_only: Annotated[bool, QueryParameter(name="open", description="only those that have not ended")] = False,
    path: Annotated[str | None, QueryParameter(max_length=TEXT_CHARS_MAX)] = None,
    path_prefix: PathPrefixParam = None,
    version: Annotated[
        int | None, QueryParameter(description="only executions of this version; needs `path`", ge=1, le=VERSION_MAX)
    ] = None,
    digest: DigestParam = None,
    label: LabelParam = None,
    since: Annotated[datetime | None, QueryParameter(description="started at this time or later, RFC 3339")] = None,
    until: Annotated[datetime | None, QueryParameter(description="started before this time, RFC 3339")] = None,
    roots: Annotated[bool, QueryParameter(description="without those that another execution called")] = False,
    waiting: Annotated[bool, QueryParameter(description="only those that wait for a person: for a signal")] = False,
    search: SearchParam = None,
    total: Annotated[bool, QueryParameter(description="also count the executions on all pages")] = False,
    before: Annotated[str | None, QueryParameter(description="`next` of the previous page", pattern=ID_PATTERN)] = None,
    limit: Limit = PAGE,
) -> ExecutionsPage:
    asked = ListFilter(
        status=status, open=open_only, path=path, path_prefix=path_prefix, version=version, digest=digest,
        label=tuple(label or ()), since=since, until=until, roots=roots, waiting=waiting, search=search,
    )  # fmt: skip
    wanted = await execution_filter(services, caller, asked)
    found = await services.listing.executions(limit, wanted, before=before)
    more = found[-1].execution_id if len(found) == limit else None
    count = await services.listing.count(wanted) if total else UNSET
    return ExecutionsPage(items=tuple(map(ExecutionSummary.from_head, found)), next=more, total=count)


async def execution_filter(services: Services, caller: Caller, asked: ListFilter) -> ExecutionFilter:
    """The filter of a request, within the paths of its caller. Raises ApiError."""
    digest = asked.digest
    if asked.version is not None:
        digest = await _digest_of(services, asked.path, asked.version)
    search = None if asked.search is None else clean_text(asked.search, "search").strip()
    return ExecutionFilter(
        status=None if asked.status == "interrupted" else asked.status,
        open_only=asked.open or asked.status == "interrupted",
        path=None if asked.path is None else clean_text(asked.path, "path"),
        path_prefix=None if asked.path_prefix is None else clean_text(asked.path_prefix, "path_prefix"),
        digest=None if digest is None else clean_text(digest, "digest"),
        labels=_labels(lambda: parse_labels(asked.label)),
        since=_with_zone("since", asked.since),
        until=_with_zone("until", asked.until),
        roots=asked.roots,
        waiting=asked.waiting,
        search=search or None,
        within=caller.paths("read"),
    )


def _with_zone(name: str, time: datetime | None) -> datetime | None:
    if time is not None and time.tzinfo is None:
        raise ApiError(400, "bad-request", f"{name}: add a time zone, as in 2026-01-31T12:00:00Z")
    return time


async def _digest_of(services: Services, path: str | None, version: int) -> str:
    """The digest of a version; of an unknown one a digest that no execution has."""
    if path is None:
        raise ApiError(400, "bad-request", "version: give the path, too: versions are counted for each playbook")
    try:
        versions = await services.catalog.versions(clean_text(path, "path"))
    except NotFound:
        return ""
    return next((each.digest for each in versions if each.version == version), "")


@route(get, READ | OF_LIST, "executions", "/executions/find", "Find ids that begin with a prefix")
async def find(
    services: ServicesParam, caller: CallerParam, prefix: Annotated[str, QueryParameter(min_length=1, max_length=64)]
) -> ExecutionIds:
    try:
        found = await services.listing.find(checked_id(prefix), within=caller.paths("read"))
        return ExecutionIds(ids=tuple(found))
    except NotFound:
        return ExecutionIds(ids=())


@route(get, READ | OF_LIST, "executions", "/executions/last", "The execution that started last", 404)
async def last(services: ServicesParam, caller: CallerParam) -> LastExecution:
    found = await services.listing.executions(1, ExecutionFilter(within=caller.paths("read")))
    if not found:
        raise NotFound("no execution has been started yet")
    return LastExecution(execution_id=found[0].execution_id)


@read_execution("/head", "The summary of an execution, as in the list")
async def head(services: ServicesParam, execution_id: ExecutionId) -> ExecutionSummary:
    return ExecutionSummary.from_head(await services.listing.head(checked_id(execution_id)))


@read_execution("/labels", "The labels of an execution, and their changes after its start")
async def labels(services: ServicesParam, execution_id: ExecutionId) -> LabelsResponse:
    return await _labels_of(services, checked_id(execution_id))


async def _labels_of(services: Services, execution_id: str) -> LabelsResponse:
    head = await services.listing.head(execution_id)
    changes = [
        LabelChangeItem(at=instant(each.at), by=each.by, labels=each.labels)
        for each in await services.listing.label_changes(execution_id)
    ]
    return LabelsResponse(execution_id=execution_id, labels=head.labels, changes=tuple(changes))


@read_execution("/decisions", "What the execution asks people, and what they have decided")
async def decisions(context: ContextParam, execution_id: ExecutionId) -> DecisionList:
    """One entry for each `wait` for a signal, in the order of the log; the newest at most 1,000."""
    found = await context.decisions.get(checked_id(execution_id))
    return DecisionList(items=tuple(found[-DECISIONS_MAX:]))


@read_execution("/tree", "An execution and its children")
async def tree(services: ServicesParam, caller: CallerParam, execution_id: ExecutionId) -> ExecutionTree:
    root = await services.listing.head(checked_id(execution_id))
    return await _TreeBuilder(services, caller).build(ExecutionSummary.from_head(root), 0)


class _TreeBuilder:
    """Reads a tree up to a limit. Children outside of the caller's paths are left out, with their children."""

    def __init__(self, services: Services, caller: Caller) -> None:
        self._services = services
        self._caller = caller
        self._left = TREE_EXECUTIONS_MAX - 1

    async def build(self, execution: ExecutionSummary, depth: int) -> ExecutionTree:
        found = await self._services.listing.children(execution.execution_id)
        heads = [each for each in found if self._caller.may("read", each.path)]
        included = heads[: self._left] if depth < TREE_DEPTH_MAX else []
        self._left -= len(included)
        children = [await self.build(ExecutionSummary.from_head(each), depth + 1) for each in included]
        left_out = len(heads) - len(included)
        return ExecutionTree(execution=execution, children=tuple(children), left_out=left_out)


@route(
    delete,
    RUN | OF_EXECUTION,
    "executions",
    EXECUTION,
    "Delete a finished execution, and the executions that it called",
    404,
    409,
    status_code=200,
)
async def delete_execution(context: ContextParam, caller: CallerParam, execution_id: ExecutionId) -> DeleteResponse:
    """Its log is deleted at once. Its stored results follow: on PostgreSQL soon after, in a file with `noetl gc`.

    An execution that another one called is deleted with its caller.
    """
    return DeleteResponse(deleted=await delete_with_children(context, caller, checked_id(execution_id)))


async def delete_with_children(context: AppContext, caller: Caller, execution_id: str) -> int:
    """How many executions were deleted. Raises NotFound, Rejected or ApiError."""
    services = context.services
    heads = await deletable(services.listing, execution_id)
    for head in heads:
        if not caller.may("run", head.path):
            raise low_scope(caller, "run", head.path, ", which the execution called")
    gone = await services.delete([head.execution_id for head in heads])
    if execution_id not in gone:
        raise Rejected("not-ended", f"{execution_id} cannot be deleted: it was retried just now")
    await context.audit.record(caller, "command", "delete", execution_id, f"{heads[0].path}: {len(gone)} executions")
    return len(gone)


# Commands to an execution, on any server


@dataclass
class OptionalBody(Operation):
    """A route whose body may be omitted."""

    def __post_init__(self) -> None:
        if isinstance(self.request_body, RequestBody):
            self.request_body.required = False


def _command(name: str, summary: str, *errors: int, **options: Any) -> HTTPRouteHandler:
    path = f"{EXECUTION}/{name}"
    return route(post, RUN | OF_EXECUTION, "commands", path, summary, 404, 409, *errors, status_code=200, **options)


@_command("cancel", "Cancel an execution", operation_class=OptionalBody)
async def cancel(
    context: ContextParam, caller: CallerParam, execution_id: ExecutionId, data: JSONBody[CancelRequest | None] = None
) -> CommandResponse:
    """Running calls have 10 s to stop. Child executions are cancelled, too.

    With `compensate`, completed steps that have a `compensate` are then undone, the last one first, before the
    execution ends.
    """
    asked = data or CancelRequest()
    command = Cancel(reason=asked.reason, by=caller.name, compensate=asked.compensate)
    return await send_command(context, caller, execution_id, command)


@_command("pause", "Pause an execution: start no further steps", operation_class=OptionalBody)
async def pause(
    context: ContextParam, caller: CallerParam, execution_id: ExecutionId, data: JSONBody[EmptyRequest | None] = None
) -> CommandResponse:
    del data
    return await send_command(context, caller, execution_id, Pause(by=caller.name))


@_command("resume", "Resume an execution that is paused or interrupted", operation_class=OptionalBody)
async def resume(
    context: ContextParam, caller: CallerParam, execution_id: ExecutionId, data: JSONBody[EmptyRequest | None] = None
) -> CommandResponse:
    del data
    services = context.services
    head = await services.listing.head(checked_id(execution_id))
    if head.status == "running" and not head.owner_alive and services.resume_orphan is not None:
        await services.resume_orphan(execution_id)
        await context.audit.record(caller, "command", "resume", execution_id)
        return CommandResponse(execution_id=execution_id, status=head.status)
    return await send_command(context, caller, execution_id, Resume(by=caller.name))


@_command("retry", "Retry the failed parts of a finished execution", 422, operation_class=OptionalBody)
async def retry(
    context: ContextParam, caller: CallerParam, execution_id: ExecutionId, data: JSONBody[RetryRequest | None] = None
) -> CommandResponse:
    request = data or RetryRequest()
    named = tuple(request.iterations)
    command = Retry(step=request.step, iterations=named, from_start=request.from_start, by=caller.name)
    return await send_command(context, caller, execution_id, command)


@_command("fork", "Start a new execution that keeps the finished work of this one", 400, 413, 422)
async def fork(
    context: ContextParam, caller: CallerParam, execution_id: ExecutionId, data: JSONBody[ForkRequest]
) -> ForkResponse:
    """Finished runs are kept if neither the text of their tasks nor the values that these read have changed.

    The execution has ended, is paused, or `at` names the last event that counts. `dry_run` returns the plan alone.
    """
    services = context.services
    head = await services.listing.head(checked_id(execution_id))
    require_started(events_of(await services.store.read(execution_id, 0, STARTUP_FACTS)), "start it again")
    if data.at is None and head.status in ("new", "running", "cancelling") and head.owner_alive:
        raise Rejected("not-paused", "the execution is running: pause it first, or name the last event (`at`)")
    if data.at is not None and data.at > head.seq:
        raise ApiError(400, "bad-request", f"at: the log has {head.seq} events")
    given = data.path is not None or data.text is not None or data.digest is not None
    request = StartRequest(
        path=data.path, version=data.version, text=data.text, dialect=data.dialect, workload=data.workload,
        digest=data.digest if given else head.digest, labels=data.labels,
    )  # fmt: skip
    request = await authorize(context, request, caller)
    workload = _checked(data.workload, "workload")
    await check_refs(services, caller, workload)
    _labels(lambda: check_labels(data.labels))
    resolved = await resolve(context, request, caller, listed=not data.dry_run)
    origin = ForkOrigin(
        execution=execution_id, seq=data.at or head.seq, from_step=data.from_step, failed_only=data.failed_only
    )
    breakpoints = tuple(each.command(caller.name) for each in data.breakpoints)
    command = Start(workload=workload, labels=data.labels, by=caller.name, fork=origin, breakpoints=breakpoints)
    program = await services.playbooks.by_digest(resolved.digest)
    new = services.clock.new_id()
    planner = ForkPlanner(services.store, services.playbooks, TaskFiles(services.tools))
    planned = await planner.plan(new, program, command, services.clock.now())
    if not data.dry_run:
        detail = f"{resolved.path}, fork of {execution_id}"
        secrets = await secrets_of_fork(services.secrets, head, program, data.secrets)
        async with full_recorded(context, caller, new, detail), stored_secrets(services.secrets, new, secrets):
            await services.link.start(new, resolved.digest, command)
        await context.audit.record(caller, "start", "fork", new, detail)
    problems = tuple(map(problem_document, resolved.problems)) or UNSET
    return ForkResponse(plan=planned.plan, execution_id=UNSET if data.dry_run else new, problems=problems)


@_command("signal", "Send a signal that the execution waits for", 422)
async def signal(
    context: ContextParam, caller: CallerParam, execution_id: ExecutionId, data: JSONBody[SignalRequest]
) -> CommandResponse:
    try:
        clean_decoded(data.data)
    except NotJSON as error:
        raise Rejected("not-json", f"the signal's {error}") from error
    command = Signal(name=data.name, data=data.data, frame=data.frame, by=caller.name)
    return await send_command(context, caller, execution_id, command)


@_command("labels", "Add labels to an execution, or remove some", 400)
async def change_labels(
    context: ContextParam, caller: CallerParam, execution_id: ExecutionId, data: JSONBody[LabelsRequest]
) -> LabelsResponse:
    """Also of one that has ended. Lists find executions by labels; a run does not read them."""
    services = context.services
    head = await services.listing.head(checked_id(execution_id))
    if _labels(lambda: changed_labels(head.labels, data.labels)) != head.labels:
        await label_execution(context, caller, execution_id, data.labels)
    return await _labels_of(services, execution_id)


async def label_execution(
    context: AppContext, caller: Caller, execution_id: str, change: dict[str, str | None]
) -> None:
    """The labels are checked. Raises NotFound."""
    services = context.services
    await services.listing.label(execution_id, LabelChange(services.clock.now(), caller.name, change))
    services.feed.publish(FeedEvent(execution_id))  # open lists show it
    await context.audit.record(caller, "command", "label", execution_id, label_texts(change))


async def send_command(
    context: AppContext, caller: Caller, execution_id: str, command: Command, *, what: str = "", detail: str = ""
) -> CommandResponse:
    """When this returns, the log contains the command, and the audit trail its name or `what`, and `detail`."""
    services = context.services
    try:
        await services.link.command(checked_id(execution_id), command)
    except (NotFound, PlaybookError):
        # A recorded start request that could not run has no playbook: report that it never began instead.
        require_started(events_of(await services.store.read(execution_id, 0, STARTUP_FACTS)), "start it again")
        raise
    await context.audit.record(caller, "command", what or type(command).__name__.lower(), execution_id, detail)
    status = await services.store.status(execution_id)
    if status is None:
        raise NotFound(f"no execution {execution_id}")
    return CommandResponse(execution_id=execution_id, status=status)


ROUTES = [
    start,
    executions,
    find,
    last,
    head,
    labels,
    decisions,
    tree,
    delete_execution,
    cancel,
    pause,
    resume,
    retry,
    fork,
    signal,
    change_labels,
]
