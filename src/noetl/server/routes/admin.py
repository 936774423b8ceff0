"""The server itself, its tools, workers, stored secrets and API tokens."""

from __future__ import annotations

import os
from datetime import timedelta
from difflib import get_close_matches
from typing import Annotated, Final

from litestar import Response, delete, get, post, put
from litestar.params import JSONBody, PathParameter
from msgspec.structs import asdict

from noetl import __version__
from noetl.api.admin import (
    ApiTokenItem,
    CredentialItem,
    CredentialList,
    CredentialStored,
    CredentialValue,
    HealthResponse,
    PoolItem,
    TokenCreated,
    TokenList,
    TokenRequest,
    WhoamiResponse,
    WorkerItem,
    WorkersResponse,
)
from noetl.api.analysis import ToolDetails, ToolList, ToolSummary
from noetl.control.api_tokens import digest_of, new_token
from noetl.errors import NotFound
from noetl.ports import WorkerInfo
from noetl.server.auth import PUBLIC, SCOPE
from noetl.server.errors import ApiError
from noetl.server.params import (
    ADMIN,
    READ,
    WRITE,
    CallerParam,
    ContextParam,
    ServicesParam,
    clean_text,
    response,
    route,
)
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
    get, READ, "server", "/metrics", "Metrics in the format of Prometheus", media_type="text/plain", success=_METRICS
)
async def metrics(context: ContextParam) -> Response[bytes]:
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

    registry = context.settings.registry
    body = b"" if registry is None else generate_latest(registry)
    return Response(body, media_type=CONTENT_TYPE_LATEST.removesuffix("; charset=utf-8"))


@route(get, READ, "server", "/whoami", "The name and the scopes of the caller's token")
async def whoami(context: ContextParam, caller: CallerParam) -> WhoamiResponse:
    return WhoamiResponse(name=caller.name, scopes=tuple(sorted(caller.scopes)), open=context.settings.open)


# Stored secrets: no route returns a value


CredentialName = Annotated[str, PathParameter(description="the name that playbooks use")]


@route(get, READ, "credentials", "/credentials", "List names and versions of secrets")
async def credentials(services: ServicesParam) -> CredentialList:
    return CredentialList(items=tuple(map(CredentialItem.from_info, await services.secrets.list())))


@route(put, WRITE, "credentials", "/credentials/{name:path}", "Set a value", 422)
async def set_credential(
    services: ServicesParam, name: CredentialName, data: JSONBody[CredentialValue]
) -> CredentialStored:
    """The value is encrypted and never returned. Tasks use it through `auth` or `keychain`."""
    known = clean_text(name.removeprefix("/"), "name")
    return CredentialStored(name=known, version=await services.secrets.set(known, data.value))


@route(delete, WRITE, "credentials", "/credentials/{name:path}", "Remove a value", 404)
async def remove_credential(services: ServicesParam, name: CredentialName) -> None:
    await services.secrets.remove(clean_text(name.removeprefix("/"), "name"))


# Tools and workers


@route(get, READ, "tools", "/tools", "List the kinds of tools")
async def tools(services: ServicesParam) -> ToolList:
    return ToolList(
        items=tuple(
            ToolSummary(kind=name, summary=summary_of(unfolded(kind.doc)), pure=kind.pure, free_input=kind.free_input)
            for name, kind in services.kinds.items()
        )
    )


@route(get, READ, "tools", "/tools/{kind:str}", "Describe one kind", 404)
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


@route(get, READ, "workers", "/workers", "List workers and pools")
async def workers(services: ServicesParam) -> WorkersResponse:
    found = sorted(services.workers.workers(), key=lambda each: (each.pool, each.name))
    pools = dict.fromkeys(each.pool for each in found)
    return WorkersResponse(
        workers=tuple(map(WorkerItem.from_info, found)),
        pools=tuple(_pool(pool, [each for each in found if each.pool == pool]) for pool in pools),
    )


def _pool(pool: str, members: list[WorkerInfo]) -> PoolItem:
    slots, busy = sum(each.slots for each in members), sum(each.busy for each in members)
    return PoolItem(pool=pool, workers=len(members), slots=slots, busy=busy)


# API tokens: the text of a token is returned only once, when it is created


@route(get, ADMIN, "tokens", "/tokens", "List all tokens, without their secrets")
async def tokens(services: ServicesParam) -> TokenList:
    return TokenList(items=tuple(map(ApiTokenItem.from_token, await services.tokens.list())))


@route(post, ADMIN, "tokens", "/tokens", "Create a token", 409, 422)
async def add_token(services: ServicesParam, data: JSONBody[TokenRequest]) -> TokenCreated:
    expires_in_s = data.expires_in_s
    expires_at = None if expires_in_s is None else services.clock.now() + timedelta(seconds=expires_in_s)
    token, text = new_token(data.name, data.scopes, expires_at, services.clock, os.urandom)
    await services.tokens.add(token, digest_of(text))
    return TokenCreated(id=token.id, token=text)


@route(delete, ADMIN, "tokens", "/tokens/{id:str}", "Revoke a token", 404)
async def remove_token(
    context: ContextParam, id: Annotated[str, PathParameter(description="the id of a token, not the token")]
) -> None:
    """This server rejects the token at once, other servers within 5 s."""
    await context.services.tokens.remove(clean_text(id, "id"))
    context.authenticator.clear_cache()


ROUTES = [
    health, ready, metrics, whoami, credentials, set_credential, remove_credential, tools, tool, workers,
    tokens, add_token, remove_token,
]  # fmt: skip
