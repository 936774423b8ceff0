"""Executions are started, found and listed. A start may wait for the end: a playbook serves as an API."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Final
from uuid import UUID

from litestar import Response, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import HeaderParameter, JSONBody, QueryParameter
from msgspec import UNSET, Struct, UnsetType

from noetl.engine.commands import Start
from noetl.engine.facts import Requested
from noetl.engine.state import Status
from noetl.errors import NotFound, Rejected
from noetl.output import JSON, NotJSON, clean_decoded
from noetl.server.auth import Caller
from noetl.server.log_readers import ID_PATTERN, checked_id
from noetl.server.params import (
    PAGE,
    READ,
    RUN,
    TEXT_CHARS_MAX,
    CallerGiven,
    DeskGiven,
    ExecutionId,
    Limit,
    RequestContext,
    RoomGiven,
    clean_text,
    refusals,
)
from noetl.server.reading import shown
from noetl.server.services import Services
from noetl.server.start_request import (
    Meant,
    StartAsked,
    checked_asked,
    digest_meant,
    look_up,
    refused_on_record,
)
from noetl.server.streams import HeadShown, head_shown
from noetl.views.documents import ProblemDocument, ShowDocument, problem_document

WAIT_MAX_S: Final = 300.0
KEY_CHARS_MAX: Final = 255
TREE_DEPTH_MAX: Final = 16
TREE_HEADS_MAX: Final = 1_000
TAGS: Final = ["executions"]


class Told(Struct, frozen=True, kw_only=True):
    """An execution, and how it stands."""

    execution_id: str
    status: Status


class StartTold(Struct, frozen=True, kw_only=True):
    """The same, of one that was asked for."""

    execution_id: str
    status: Status
    problems: tuple[ProblemDocument, ...] | UnsetType = UNSET  # of a text: warnings and advice


class HeadsPage(Struct, frozen=True, kw_only=True):
    items: tuple[HeadShown, ...]
    next: str | None = None  # `before` of the next page; None: there is none


class Found(Struct, frozen=True, kw_only=True):
    ids: tuple[str, ...]


class Last(Struct, frozen=True, kw_only=True):
    execution_id: str


class Branch(Struct, frozen=True, kw_only=True):
    """An execution, and those that its steps have started."""

    execution: HeadShown
    children: tuple[Branch, ...] = ()
    left_out: int = 0  # children that are not shown: there are too many of them, or they lie too deep


@post(
    "/executions",
    opt=RUN,
    tags=TAGS,
    summary="Start a playbook",
    responses={
        200: ResponseSpec(ShowDocument, generate_examples=False, description="It has ended within `wait`"),
        201: ResponseSpec(StartTold, generate_examples=False, description="It is on record"),
        202: ResponseSpec(StartTold, generate_examples=False, description="It has not ended within `wait`"),
        **refusals(404, 409, 422),
    },
)
async def start(
    data: JSONBody[StartAsked],
    room: RoomGiven,
    caller: CallerGiven,
    wait: Annotated[
        float, QueryParameter(description="seconds to wait for its end", ge=0, le=WAIT_MAX_S)
    ] = 0.0,
    key: Annotated[
        str | None,
        HeaderParameter(
            name="Idempotency-Key", description="the same key is the same start", max_length=KEY_CHARS_MAX
        ),
    ] = None,
) -> Response[Any]:
    """It is on record when this is answered. The same Idempotency-Key from the same token starts it once.

    A new text is registered first, which asks for the scope `write` as well. What can not run is on record,
    too: the answer has its problems and the id of its execution, and the key stays free.
    """
    desk = room.desk
    data = await checked_asked(room, data, caller)
    workload = _checked_workload(data.workload)
    execution_id = desk.clock.new_id() if key is None else _derived_id(caller, key)
    where = {"Location": f"/executions/{execution_id}"}
    is_new = key is None or await desk.store.status(execution_id) is None
    started: Meant | None = None
    async with room.waits.waiting(execution_id, wait) as waiting:
        if is_new:
            async with refused_on_record(room, data, caller):
                started = await look_up(room, data)
                await desk.link.start(execution_id, started.digest, Start(workload=workload, by=caller.name))
        if key is not None:
            await _compare(room, execution_id, data, started)
        if await waiting.has_ended(is_new=is_new):
            return Response(await shown(room.memory, desk, execution_id), status_code=200, headers=where)
        told = StartTold(
            execution_id=execution_id,
            status=await waiting.status(),
            problems=tuple(map(problem_document, started.problems if started else ())) or UNSET,
        )
    return Response(told, status_code=202 if wait else 201, headers=where)


def _checked_workload(workload: dict[str, JSON]) -> dict[str, JSON]:
    try:
        clean_decoded(workload)
    except NotJSON as error:
        raise Rejected("not-json", f"workload: {error}") from error
    return workload


def _derived_id(caller: Caller, key: str) -> str:
    if not key or not key.isprintable():
        raise Rejected(
            "bad-key", f"an Idempotency-Key has 1 to {KEY_CHARS_MAX} characters that can be printed"
        )
    seed = hashlib.sha256(f"start {caller.id} {key}".encode()).digest()[:16]
    return str(UUID(bytes=seed, version=5))


async def _compare(room: RequestContext, execution_id: str, asked: StartAsked, started: Meant | None) -> None:
    """Is what stands on record what is asked for? The key may have been used for something else."""
    rows = await room.desk.store.read(execution_id, 0, 1)
    first = rows[0].facts[0] if rows else None
    assert isinstance(first, Requested), "a log begins with its request"
    same = first.workload == asked.workload and asked.path in (None, first.path)
    if same and (asked.path is None or asked.version is not None):
        same = first.digest == (started.digest if started else await digest_meant(room, asked))
    if not same:
        words = "the key was used for another start: take another one for this"
        raise Rejected("idempotency-mismatch", words)


@get("/executions", opt=READ, tags=TAGS, summary="List executions, newest first", responses=refusals())
async def executions(
    desk: DeskGiven,
    *,
    status: Annotated[Status | None, QueryParameter(description="only these")] = None,
    open_only: Annotated[bool, QueryParameter(name="open", description="only those that go on")] = False,
    path: Annotated[str | None, QueryParameter(max_length=TEXT_CHARS_MAX)] = None,
    before: Annotated[
        str | None, QueryParameter(description="`next` of the page before", pattern=ID_PATTERN)
    ] = None,
    limit: Limit = PAGE,
) -> HeadsPage:
    found = await desk.listing.executions(
        limit,
        before=before,
        status=status,
        open_only=open_only,
        path=None if path is None else clean_text(path, "path"),
    )
    more = found[-1].execution_id if len(found) == limit else None
    return HeadsPage(items=tuple(map(head_shown, found)), next=more)


@get("/executions/find", opt=READ, tags=TAGS, summary="Ids that begin so", responses=refusals())
async def find(desk: DeskGiven, prefix: Annotated[str, QueryParameter(min_length=1, max_length=64)]) -> Found:
    try:
        return Found(ids=tuple(await desk.listing.find(checked_id(prefix))))
    except NotFound:
        return Found(ids=())


@get("/executions/last", opt=READ, tags=TAGS, summary="The one that started last", responses=refusals(404))
async def last(desk: DeskGiven) -> Last:
    return Last(execution_id=await desk.listing.last())


@get(
    "/executions/{execution_id:str}/head",
    opt=READ,
    tags=TAGS,
    summary="An execution as the list shows it",
    responses=refusals(404),
)
async def head(desk: DeskGiven, execution_id: ExecutionId) -> HeadShown:
    return head_shown(await desk.listing.head(checked_id(execution_id)))


@get(
    "/executions/{execution_id:str}/tree",
    opt=READ,
    tags=TAGS,
    summary="An execution and its children",
    responses=refusals(404),
)
async def tree(desk: DeskGiven, execution_id: ExecutionId) -> Branch:
    root = await desk.listing.head(checked_id(execution_id))
    return await _Growing(desk).branch(head_shown(root), 0)


class _Growing:
    """Reads a tree until there is too much of it."""

    def __init__(self, desk: Services) -> None:
        self._desk = desk
        self._room = TREE_HEADS_MAX - 1

    async def branch(self, execution: HeadShown, depth: int) -> Branch:
        heads = await self._desk.listing.children(execution.execution_id)
        shown = heads[: self._room] if depth < TREE_DEPTH_MAX else []
        self._room -= len(shown)
        children = [await self.branch(head_shown(each), depth + 1) for each in shown]
        return Branch(execution=execution, children=tuple(children), left_out=len(heads) - len(shown))


ROUTES = [start, executions, find, last, head, tree]
