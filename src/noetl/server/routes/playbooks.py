"""The catalog: register, list, read, compare and archive playbooks."""

from __future__ import annotations

import difflib
from typing import Annotated, Any, Final

from litestar import Request, Response, get, post
from litestar.params import JSONBody, PathParameter, QueryParameter
from msgspec import UNSET

from noetl.api.executions import VERSION_MAX
from noetl.api.history import PlaybookHistory
from noetl.api.playbooks import (
    CredentialUses,
    PlaybookDetails,
    PlaybookDiff,
    PlaybookOverviewList,
    PlaybookTextResponse,
    PlaybookVersionItem,
    PlaybookVersionsPage,
    RegisterResponse,
    RollbackRequest,
    RollbackResponse,
    UpgradeNote,
)
from noetl.control.rollback import plan_rollback
from noetl.errors import NotFound
from noetl.ports import PlaybookVersion
from noetl.server.access import check_playbook, check_written
from noetl.server.errors import ApiError
from noetl.server.params import (
    OF_LIST,
    OF_NAME,
    OF_PLAYBOOK,
    PAGE,
    PAGE_MAX,
    READ,
    TEXT_CHARS_MAX,
    WRITE,
    CallerParam,
    ContextParam,
    Limit,
    PlaybookPath,
    ServicesParam,
    VersionParam,
    clean_text,
    response,
    route,
)
from noetl.server.playbook_body import (
    PLAYBOOK_BODY_MAX,
    TextOperation,
    read_text,
    readable_text,
    record_registration,
    registered_text,
    valid_text,
)
from noetl.server.playbook_history import COLUMNS, COLUMNS_MAX
from noetl.server.playbook_overviews import OVERVIEWS_MAX
from noetl.views.documents import problem_document
from noetl.views.log import instant

DIFF_LINES_MAX: Final = 20_000  # of each of the two texts
_REGISTERED: Final = {
    200: response(RegisterResponse, "It was registered before"),
    201: response(RegisterResponse, "It is a new version"),
}


@route(
    post,
    WRITE | OF_PLAYBOOK,
    "playbooks",
    "/playbooks",
    "Register a playbook",
    404,
    422,
    operation_class=TextOperation,
    request_max_body_size=PLAYBOOK_BODY_MAX,
    success=_REGISTERED,
)
async def register(
    request: Request[Any, Any, Any], context: ContextParam, caller: CallerParam
) -> Response[RegisterResponse]:
    """The same text is the same version. A text with errors is rejected; the response lists all problems."""
    services = context.services
    upgraded = await valid_text(context, await read_text(request), caller)
    playbook = upgraded.checked.playbook
    assert playbook is not None, "it has no errors"
    known = {each.digest for each in await _versions(services, playbook.path)}
    digest = await services.playbooks.add(upgraded.text, None, upgraded.checked)
    await services.triggers.declare(digest)
    version = await record_registration(context, caller, playbook.path, digest)
    notes = tuple(
        UpgradeNote(code=note.code, message=note.message, line=note.at.line, column=note.at.column)
        for note in upgraded.notes
    )
    response = RegisterResponse(
        path=version.path,
        version=version.version,
        digest=digest,
        created=digest not in known,
        problems=tuple(map(problem_document, upgraded.checked.problems)),
        notes=notes or UNSET,
    )
    return Response(response, status_code=201 if response.created else 200)


async def _versions(services: ServicesParam, path: str) -> list[PlaybookVersion]:
    try:
        return await services.catalog.versions(path)
    except NotFound:
        return []


@route(get, READ | OF_LIST, "playbooks", "/playbooks", "List playbooks, by path")
async def playbooks(
    services: ServicesParam,
    caller: CallerParam,
    after: Annotated[str, QueryParameter(description="only after this path", max_length=TEXT_CHARS_MAX)] = "",
    limit: Limit = PAGE,
    archived: Annotated[bool, QueryParameter(description="include archived playbooks")] = False,
) -> PlaybookVersionsPage:
    found = await _visible(services, caller, clean_text(after, "after"), limit, archived=archived)
    more = found[-1].path if len(found) == limit else None
    return PlaybookVersionsPage(items=tuple(map(PlaybookVersionItem.from_version, found)), next=more)


async def _visible(
    services: ServicesParam, caller: CallerParam, after: str, limit: int, *, archived: bool
) -> list[PlaybookVersion]:
    """A page of the playbooks within the caller's paths."""
    if caller.paths("read") is None:
        return await services.catalog.list(after=after, limit=limit, archived=archived)
    found: list[PlaybookVersion] = []
    while len(found) < limit and (page := await services.catalog.list(after=after, limit=PAGE_MAX, archived=archived)):
        found += [each for each in page if caller.may("read", each.path)]
        after = page[-1].path
    return found[:limit]


@route(get, READ | OF_LIST, "playbooks", "/playbooks/overviews", "What playbooks declare, and their last executions")
async def playbook_overviews(
    context: ContextParam,
    caller: CallerParam,
    path: Annotated[list[str], QueryParameter(description="paths of playbooks, at most 100", max_length=OVERVIEWS_MAX)],
) -> PlaybookOverviewList:
    """Unknown paths are left out."""
    visible = [clean_text(each, "path") for each in path if caller.may("read", each)]
    return PlaybookOverviewList(items=await context.overviews.read(visible))


@route(get, READ | OF_LIST, "playbooks", "/playbooks/uses", "The playbooks whose keychain names a credential")
async def credential_uses(
    context: ContextParam,
    caller: CallerParam,
    credential: Annotated[str, QueryParameter(description="name of the credential", max_length=TEXT_CHARS_MAX)],
) -> CredentialUses:
    """Only current versions, of the first 1,000 playbooks by path."""
    return await context.overviews.uses(credential, caller)


@route(get, READ | OF_NAME, "playbooks", "/playbooks/one", "One version with its text", 404)
async def playbook(
    services: ServicesParam, caller: CallerParam, path: PlaybookPath, version: VersionParam = None
) -> PlaybookDetails:
    check_playbook(caller, "read", path)
    for each in await services.catalog.versions(clean_text(path, "path")):
        if each.current if version is None else each.version == version:
            text = (await services.catalog.get(each.digest)).text
            return PlaybookDetails(**{**each._asdict(), "at": instant(each.at), "text": text})
    raise NotFound(f'"{path}" has no version {version}')


@route(get, READ | OF_NAME, "playbooks", "/playbooks/versions", "All versions, newest first", 404)
async def versions(services: ServicesParam, caller: CallerParam, path: PlaybookPath) -> PlaybookVersionsPage:
    check_playbook(caller, "read", path)
    found = await services.catalog.versions(clean_text(path, "path"))
    return PlaybookVersionsPage(items=tuple(map(PlaybookVersionItem.from_version, found)))


@route(get, READ | OF_NAME, "playbooks", "/playbooks/diff", "Compare two versions", 404, 422)
async def diff(
    context: ContextParam,
    caller: CallerParam,
    path: PlaybookPath,
    first: Annotated[int, QueryParameter(name="from", ge=1, le=VERSION_MAX)],
    second: Annotated[int, QueryParameter(name="to", ge=1, le=VERSION_MAX)],
) -> PlaybookDiff:
    check_playbook(caller, "read", path)
    services = context.services
    before = (await registered_text(services, path, first)).splitlines(keepends=True)
    after = (await registered_text(services, path, second)).splitlines(keepends=True)
    if max(len(before), len(after)) > DIFF_LINES_MAX:
        detail = f"a text has more than {DIFF_LINES_MAX:,} lines, which is too large to compare"
        raise ApiError(422, "too-large", detail)
    names = f"{path}@{first}", f"{path}@{second}"
    return PlaybookDiff(diff=await context.cpu_pool.run(_unified_diff, before, after, *names))


def _unified_diff(before: list[str], after: list[str], name_before: str, name_after: str) -> str:
    lines = difflib.unified_diff(before, after, name_before, name_after)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ no line break at the end\n" for line in lines)


@route(get, READ | OF_NAME, "playbooks", "/playbooks/history", "Compare the newest executions of a playbook", 404)
async def playbook_history(
    context: ContextParam,
    caller: CallerParam,
    path: PlaybookPath,
    limit: Annotated[int, QueryParameter(description="executions", ge=1, le=COLUMNS_MAX)] = COLUMNS,
) -> PlaybookHistory:
    """The status and the duration of each step in each of them, with percentiles.

    The steps of an execution with more than 20,000 events are left out. One request reads at most 100,000 events, the
    newest executions first; what it has read is kept, so a repeated request shows more.
    """
    check_playbook(caller, "read", path)
    return await context.histories.read(clean_text(path, "path"), limit)


@route(
    post,
    WRITE | OF_PLAYBOOK,
    "playbooks",
    "/playbooks/rollback",
    "Make an older version the current one again",
    404,
    409,
    422,
    status_code=200,
)
async def rollback(context: ContextParam, caller: CallerParam, data: JSONBody[RollbackRequest]) -> RollbackResponse:
    """New executions use the older version, which keeps its number. Its triggers replace those of the current version.

    Running executions continue with their own version. `dry_run` returns the plan alone.
    """
    check_playbook(caller, "write", data.path)
    services, path = context.services, clean_text(data.path, "path")
    plan = await plan_rollback(services.catalog, services.playbooks.by_digest, path, data.version)
    await check_written(services, caller, await services.playbooks.by_digest(plan.wanted.digest))
    if not data.dry_run:
        await services.playbooks.add(plan.text.text, plan.text.origin)
        await services.triggers.declare(plan.wanted.digest)
        target = f"{data.path}@{data.version}"
        await context.audit.record(caller, "register", "rollback", target, f"from version {plan.current.version}")
    return RollbackResponse(
        path=data.path,
        version=data.version,
        replaces=plan.current.version,
        digest=plan.wanted.digest,
        triggers=plan.triggers,
        stopped=plan.stopped,
        done=not data.dry_run,
    )


@route(
    post,
    WRITE | OF_NAME,
    "playbooks",
    "/playbooks/archive",
    "Archive a path: no new executions start from it",
    404,
    status_code=204,
)
async def archive(context: ContextParam, caller: CallerParam, path: PlaybookPath) -> None:
    """Running executions continue. Registering a text under the path makes it active again."""
    check_playbook(caller, "write", path)
    await context.services.catalog.archive(clean_text(path, "path"))
    await context.audit.record(caller, "register", "archive", path)


@route(get, READ | OF_NAME, "playbooks", "/texts/{digest:str}", "A text by its digest", 404)
async def text(
    services: ServicesParam,
    caller: CallerParam,
    digest: Annotated[str, PathParameter(description="sha256 of the text, in hex")],
) -> PlaybookTextResponse:
    found = await readable_text(services, caller, digest)
    return PlaybookTextResponse(digest=found.digest, path=found.path, text=found.text)


ROUTES = [
    register,
    playbooks,
    playbook_overviews,
    credential_uses,
    playbook,
    versions,
    diff,
    playbook_history,
    rollback,
    archive,
    text,
]
