"""The API as one application: routes, the guard before them, errors as problem+json, its description."""

from __future__ import annotations

from typing import Any, Final

from litestar import Litestar, Request

from noetl.server import static
from noetl.server.auth import guard
from noetl.server.errors import Refused, handle
from noetl.server.middleware import RequestGuard
from noetl.server.openapi import description
from noetl.server.params import RequestContext, dependencies
from noetl.server.rate_limit import RateLimiter
from noetl.server.routes import (
    check,
    commands,
    credentials,
    executions,
    health,
    logs,
    playbooks,
    results,
    schema,
    streams,
    timeline,
    tokens,
    tools,
)
from noetl.server.services import ServerSettings, Services

BODY_MAX: Final = 2 << 20
ROOM: Final = "room"  # under this an application's state holds what its routes share

_AREAS: Final = (
    health, playbooks, check, schema, executions, logs, commands, streams, results, credentials,
    tools, tokens, timeline, static,
)  # fmt: skip


class _Request(Request[Any, Any, Any]):
    async def json(self) -> Any:
        """What is nested deeper than anyone can read is no bug of ours."""
        try:
            return await super().json()
        except RecursionError as error:
            raise Refused(400, "bad-json", "the body can not be read: it is nested too deep") from error


def make_app(desk: Services, settings: ServerSettings) -> Litestar:
    """`settings.open` is for whoever knows that no other machine reaches the address."""
    room = RequestContext(desk, settings)
    app = Litestar(
        route_handlers=[route for area in _AREAS for route in area.ROUTES],
        dependencies=dependencies(room),
        guards=[guard],
        exception_handlers={Exception: handle},
        request_class=_Request,
        request_max_body_size=BODY_MAX,
        openapi_config=description(),
        logging_config=None,
        debug=False,
    )
    app.state[ROOM] = room
    rates = RateLimiter(desk.clock, settings.requests_per_s, settings.requests_burst)
    # Around everything, also around what is no route: the framework's own middleware is not.
    app.asgi_handler = RequestGuard(app.asgi_handler, room.keeper, rates, settings)
    return app


def room_of(app: Litestar) -> RequestContext:
    room = app.state[ROOM]
    assert isinstance(room, RequestContext)
    return room
