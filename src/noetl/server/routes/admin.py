"""The server itself, its tools, workers, stored secrets and API tokens."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Annotated, Final

from litestar import Response, delete, get, post, put
from litestar.params import JSONBody, PathParameter, QueryParameter
from msgspec import UNSET
from msgspec.structs import asdict

from noetl import __version__
from noetl.api.admin import (
    ApiTokenItem,
    AuditAction,
    AuditItem,
    AuditPage,
    CredentialItem,
    CredentialList,
    CredentialStored,
    CredentialValue,
    HealthResponse,
    PoolItem,
    RunningFrame,
    TokenCreated,
    TokenList,
    TokenRequest,
    WhoamiResponse,
    WorkerItem,
    WorkersResponse,
)
from noetl.api.analysis import ToolDetails, ToolList, ToolSummary
from noetl.control.api_tokens import digest_of, new_token, rights_of
from noetl.errors import NotFound
from noetl.ports import PoolBacklog, WorkerInfo
from noetl.server.access import check_readable, low_scope, outside
from noetl.server.auth import PUBLIC, SCOPE, Caller
from noetl.server.errors import ApiError
from noetl.server.params import (
    ADMIN,
    OF_ALL,
    OF_LIST,
    OF_NAME,
    OF_NOTHING,
    PAGE,
    READ,
    SEQ_MAX,
    WRITE,
    AppContext,
    CallerParam,
    ContextParam,
    Limit,
    ServicesParam,
    clean_text,
    response,
    route,
)
from noetl.views.log import instant
from noetl.views.tool_kinds import kind_document, summary_of, unfolded

_PUBLIC = {SCOPE: PUBLIC}
_METRICS: Final = {200: response(str, "The metrics", "text/plain")}


@route(get, _PUBLIC, "server", "/health", "Whether the process responds", security=[{}])
async def health() -> HealthResponse:
    return HealthResponse(status="ok", version=__version__)


@route(get, _PUBLIC, "server", "/ready", "Whether the server can process requests", security=[{}])
async def ready(context: ContextParam) -> HealthResponse:
    if not context.services.is_ready():
        detail = "a service that the server needs does not respond yet"
        raise ApiError(503, "not-ready", detail, {"Retry-After": "1"})
    return HealthResponse(status="ready", version=__version__)


@route(
    get,
    READ | OF_ALL,
    "server",
    "/metrics",
    "Metrics in the format of Prometheus",
    media_type="text/plain",
    success=_METRICS,
)
async def metrics(context: ContextParam) -> Response[bytes]:
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

    registry = context.settings.registry
    body = b"" if registry is None else generate_latest(registry)
    return Response(body, media_type=CONTENT_TYPE_LATEST.removesuffix("; charset=utf-8"))


@route(get, READ | OF_NOTHING, "server", "/whoami", "The name and the scopes of the caller's token")
async def whoami(context: ContextParam, caller: CallerParam) -> WhoamiResponse:
    return whoami_of(context, caller)


def whoami_of(context: AppContext, caller: Caller) -> WhoamiResponse:
    scopes, roles = tuple(sorted(caller.scopes)), caller.roles or UNSET
    return WhoamiResponse(name=caller.name, scopes=scopes, open=context.settings.open, roles=roles)


# Stored secrets: no route returns a value


CredentialName = Annotated[str, PathParameter(description="the name that playbooks use")]


@route(get, READ | OF_LIST, "credentials", "/credentials", "List names and versions of secrets")
async def credentials(services: ServicesParam, caller: CallerParam) -> CredentialList:
    """A role with limits sees the names that match its paths."""
    found = [each for each in await services.secrets.list() if caller.may("read", each.name)]
    return CredentialList(items=tuple(map(CredentialItem.from_info, found)))


@route(put, WRITE | OF_NAME, "credentials", "/credentials/{name:path}", "Set a value", 422)
async def set_credential(
    context: ContextParam, caller: CallerParam, name: CredentialName, data: JSONBody[CredentialValue]
) -> CredentialStored:
    """The value is encrypted and never returned. Tasks use it through `auth` or `keychain`."""
    known = clean_text(name.removeprefix("/"), "name")
    if not caller.may("write", known):
        raise outside(caller, f'a secret with the name "{known}"')
    version = await context.services.secrets.set(known, data.value)
    await context.audit.record(caller, "secret", "set", known, f"version {version}")
    return CredentialStored(name=known, version=version)


@route(delete, WRITE | OF_NAME, "credentials", "/credentials/{name:path}", "Remove a value", 404)
async def remove_credential(context: ContextParam, caller: CallerParam, name: CredentialName) -> None:
    known = clean_text(name.removeprefix("/"), "name")
    if not caller.may("write", known):
        check_readable(caller, known, f'no secret "{known}" is stored')
        raise low_scope(caller, "write", known)
    await context.services.secrets.remove(known)
    await context.audit.record(caller, "secret", "remove", known)


# Tools and workers


@route(get, READ | OF_NOTHING, "tools", "/tools", "List the kinds of tools")
async def tools(services: ServicesParam) -> ToolList:
    return ToolList(
        items=tuple(
            ToolSummary(kind=name, summary=summary_of(unfolded(kind.doc)), pure=kind.pure, free_input=kind.free_input)
            for name, kind in services.kinds.items()
        )
    )


@route(get, READ | OF_NOTHING, "tools", "/tools/{kind:str}", "Describe one kind", 404)
async def tool(
    services: ServicesParam, kind: Annotated[str, PathParameter(description="as playbooks name it")]
) -> ToolDetails:
    known = services.kinds.get(kind)
    if known is None:
        near = get_close_matches(kind[:100], services.kinds, n=1)
        hint = f'did you mean "{near[0]}"?' if near else f"the kinds are {', '.join(services.kinds)}"
        raise NotFound(f'no tool of kind "{kind[:100]}" is installed; {hint}')
    description = kind_document(known, str(getattr(services.tools.make(kind), "example", "")))
    return ToolDetails(pure=known.pure, free_input=known.free_input, **asdict(description))


@route(get, READ | OF_LIST, "workers", "/workers", "List workers and pools")
async def workers(services: ServicesParam, caller: CallerParam) -> WorkersResponse:
    """What workers run, and what waits for them, is of the executions of all servers that answer within 2 seconds."""
    visible = caller.pools("read")
    work, now = await services.current_work(), services.clock.now()
    known = [each for each in services.workers.workers() if visible is None or each.pool in visible]
    found = sorted(known, key=lambda each: (each.pool, each.name))
    running: dict[str, list[RunningFrame]] = {}
    for frame in sorted(work.frames, key=lambda each: -each.since_s):
        if caller.may("read", frame.path):
            since = instant(now - timedelta(seconds=frame.since_s))
            running.setdefault(frame.worker, []).append(
                RunningFrame(
                    execution_id=frame.execution_id, path=frame.path, frame=frame.frame, task=frame.task, since=since
                )
            )
    pools = dict.fromkeys([*(each.pool for each in found), *work.backlog])
    return WorkersResponse(
        workers=tuple(WorkerItem.from_info(each, tuple(running.get(each.name, ()))) for each in found),
        pools=tuple(
            _pool(pool, [each for each in found if each.pool == pool], work.backlog.get(pool), services.share_of(pool))
            for pool in pools
            if visible is None or pool in visible
        ),
        complete=work.complete,
    )


def _pool(pool: str, members: list[WorkerInfo], backlog: PoolBacklog | None, share: int) -> PoolItem:
    slots, busy = sum(each.slots for each in members), sum(each.busy for each in members)
    waits = backlog or PoolBacklog()
    return PoolItem(
        pool=pool,
        workers=len(members),
        slots=slots,
        busy=busy,
        waiting=waits.waiting,
        oldest_s=waits.oldest_s,
        share=min(share, slots),
    )


# API tokens: the text of a token is returned only once, when it is created


@route(get, ADMIN | OF_LIST, "tokens", "/tokens", "List all tokens, without their secrets")
async def tokens(services: ServicesParam, caller: CallerParam) -> TokenList:
    """An admin with limits sees the tokens whose limits are within its own."""
    found = [each for each in await services.tokens.list() if caller.may_grant(each.roles)]
    return TokenList(items=tuple(map(ApiTokenItem.from_token, found)))


@route(post, ADMIN | OF_NAME, "tokens", "/tokens", "Create a token", 409, 422)
async def add_token(context: ContextParam, caller: CallerParam, data: JSONBody[TokenRequest]) -> TokenCreated:
    """Give either `scopes` or `roles`. An admin with limits gives roles within its own limits."""
    if not caller.may_grant(data.roles):
        raise outside(caller, "a token with these roles: give roles within its own paths and pools")
    services, expires_in_s = context.services, data.expires_in_s
    expires_at = None if expires_in_s is None else services.clock.now() + timedelta(seconds=expires_in_s)
    token, text = new_token(data.name, data.scopes, expires_at, services.clock, os.urandom, roles=data.roles)
    await services.tokens.add(token, digest_of(text))
    await context.audit.record(caller, "token", "create", token.id, f"{token.name}: {rights_of(token)}")
    return TokenCreated(id=token.id, token=text)


@route(delete, ADMIN | OF_NAME, "tokens", "/tokens/{id:str}", "Revoke a token", 404)
async def remove_token(
    context: ContextParam,
    caller: CallerParam,
    id: Annotated[str, PathParameter(description="the id of a token, not the token")],
) -> None:
    """This server rejects the token at once, other servers within 5 s."""
    services, id = context.services, clean_text(id, "id")
    if not caller.may_everywhere("admin"):
        known = {each.id: each for each in await services.tokens.list()}
        if id not in known or not caller.may_grant(known[id].roles):
            raise NotFound(f"no token {id!a}: see noetl token list")
    await services.tokens.remove(id)
    context.authenticator.clear_cache()
    await context.audit.record(caller, "token", "revoke", id)


# The audit trail


@route(get, ADMIN | OF_ALL, "audit", "/audit", "Who did what, the newest first")
async def audit(
    context: ContextParam,
    *,
    since: Annotated[datetime | None, QueryParameter(description="only at this time or later, RFC 3339")] = None,
    action: Annotated[AuditAction | None, QueryParameter(description="only this kind of action")] = None,
    who: Annotated[str | None, QueryParameter(description="only this name of a token", max_length=200)] = None,
    before: Annotated[int | None, QueryParameter(description="`next` of the previous page", ge=1, le=SEQ_MAX)] = None,
    limit: Limit = PAGE,
) -> AuditPage:
    """Contains names and ids, never values. Equal denied requests within a minute are one entry."""
    await context.audit.flush(denied=True)
    if since is not None and since.tzinfo is None:
        raise ApiError(400, "bad-request", "since: add a time zone, as in 2026-01-31T12:00:00Z")
    name = None if who is None else clean_text(who, "who")
    found = await context.services.audit.read(limit, before=before, since=since, action=action, who=name)
    more = found[-1].id if len(found) == limit else None
    return AuditPage(items=tuple(map(AuditItem.from_record, found)), next=more)


ROUTES = [
    health, ready, metrics, whoami, credentials, set_credential, remove_credential, tools, tool, workers,
    tokens, add_token, remove_token, audit,
]  # fmt: skip
