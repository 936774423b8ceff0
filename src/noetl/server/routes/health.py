"""Health, readiness and metrics of the server, and the identity of the caller."""

from __future__ import annotations

from litestar import Response, get
from litestar.openapi.datastructures import ResponseSpec

from noetl import __version__
from noetl.api.admin import HealthResponse, WhoamiResponse
from noetl.server.auth import PUBLIC, SCOPE
from noetl.server.errors import ApiError
from noetl.server.params import READ, CallerParam, ContextParam, error_responses

_PUBLIC = {SCOPE: PUBLIC}


@get(
    "/health",
    opt=_PUBLIC,
    tags=["server"],
    summary="Whether the process responds",
    security=[{}],
    responses=error_responses(),
)
async def health() -> HealthResponse:
    return HealthResponse(status="ok", version=__version__)


@get(
    "/ready",
    opt=_PUBLIC,
    tags=["server"],
    summary="Whether the server can process requests",
    security=[{}],
    responses=error_responses(),
)
async def ready(context: ContextParam) -> HealthResponse:
    if not context.services.is_ready():
        detail = "a service that the server needs does not respond yet"
        raise ApiError(503, "not-ready", detail, {"Retry-After": "1"})
    return HealthResponse(status="ready", version=__version__)


@get(
    "/metrics",
    opt=READ,
    tags=["server"],
    summary="Metrics in the format of Prometheus",
    media_type="text/plain",
    responses={
        200: ResponseSpec(str, generate_examples=False, description="The metrics", media_type="text/plain"),
        **error_responses(),
    },
)
async def metrics(context: ContextParam) -> Response[bytes]:
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

    registry = context.settings.registry
    body = b"" if registry is None else generate_latest(registry)
    return Response(body, media_type=CONTENT_TYPE_LATEST.removesuffix("; charset=utf-8"))


@get(
    "/whoami",
    opt=READ,
    tags=["server"],
    summary="The name and the scopes of the caller's token",
    responses=error_responses(),
)
async def whoami(context: ContextParam, caller: CallerParam) -> WhoamiResponse:
    return WhoamiResponse(name=caller.name, scopes=tuple(sorted(caller.scopes)), open=context.settings.open)


ROUTES = [health, ready, metrics, whoami]
