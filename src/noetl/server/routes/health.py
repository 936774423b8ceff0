"""Is it there, is it ready, what does it measure, and who am I."""

from __future__ import annotations

from litestar import Response, get
from litestar.openapi.datastructures import ResponseSpec
from msgspec import Struct

from noetl import __version__
from noetl.server.auth import PUBLIC, SCOPE
from noetl.server.errors import Refused
from noetl.server.params import READ, CallerGiven, RoomGiven, refusals

_OPEN = {SCOPE: PUBLIC}


class Health(Struct, frozen=True, kw_only=True):
    status: str
    version: str


class Whoami(Struct, frozen=True, kw_only=True):
    """Whose token it is, and what it may."""

    name: str
    scopes: tuple[str, ...]
    open: bool  # the server asks for no token


@get(
    "/health",
    opt=_OPEN,
    tags=["server"],
    summary="Does the process answer?",
    security=[{}],
    responses=refusals(),
)
async def health() -> Health:
    return Health(status="ok", version=__version__)


@get(
    "/ready",
    opt=_OPEN,
    tags=["server"],
    summary="Can it do its work?",
    security=[{}],
    responses=refusals(),
)
async def ready(room: RoomGiven) -> Health:
    if not room.desk.is_ready():
        raise Refused(503, "not-ready", "what it needs does not answer yet", {"Retry-After": "1"})
    return Health(status="ready", version=__version__)


@get(
    "/metrics",
    opt=READ,
    tags=["server"],
    summary="Figures, as Prometheus reads them",
    media_type="text/plain",
    responses={
        200: ResponseSpec(str, generate_examples=False, description="Figures", media_type="text/plain"),
        **refusals(),
    },
)
async def metrics(room: RoomGiven) -> Response[bytes]:
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

    registry = room.settings.registry
    body = b"" if registry is None else generate_latest(registry)
    return Response(body, media_type=CONTENT_TYPE_LATEST.removesuffix("; charset=utf-8"))


@get("/whoami", opt=READ, tags=["server"], summary="Whose token is this?", responses=refusals())
async def whoami(room: RoomGiven, caller: CallerGiven) -> Whoami:
    return Whoami(name=caller.name, scopes=tuple(sorted(caller.scopes)), open=room.settings.open)


ROUTES = [health, ready, metrics, whoami]
