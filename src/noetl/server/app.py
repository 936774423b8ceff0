"""The API as one application: routes, authorization, errors as problem+json, and the OpenAPI document."""

from __future__ import annotations

from typing import Any, Final

from litestar import Litestar, Request

from noetl.server import static
from noetl.server.auth import guard
from noetl.server.errors import ApiError, handle_exception
from noetl.server.middleware import RequestMiddleware
from noetl.server.openapi import openapi_config
from noetl.server.params import AppContext, dependencies
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
    streams,
    timeline,
    tokens,
    tools,
)
from noetl.server.services import ServerSettings, Services

BODY_MAX: Final = 2 << 20
_CONTEXT: Final = "context"  # the key of the AppContext in the state of the application

_ROUTES: Final = (
    health, playbooks, check, executions, logs, commands, streams, results, credentials, tools, tokens,
    timeline, static,
)  # fmt: skip


class _Request(Request[Any, Any, Any]):
    async def json(self) -> Any:
        """A body that is nested too deep to be parsed is an error of the caller, not of the server."""
        try:
            return await super().json()
        except RecursionError as error:
            raise ApiError(400, "bad-json", "the body cannot be parsed: it is nested too deep") from error


def make_app(services: Services, settings: ServerSettings) -> Litestar:
    """`settings.open` is only safe for an address that no other machine can reach."""
    context = AppContext(services, settings)
    app = Litestar(
        route_handlers=[route for module in _ROUTES for route in module.ROUTES],
        dependencies=dependencies(context),
        guards=[guard],
        exception_handlers={Exception: handle_exception},
        request_class=_Request,
        request_max_body_size=BODY_MAX,
        openapi_config=openapi_config(),
        logging_config=None,
        debug=False,
    )
    app.state[_CONTEXT] = context
    limiter = RateLimiter(services.clock, settings.requests_per_s, settings.requests_burst)
    # The framework's own middleware runs only for paths that have a route. This one sees every request.
    app.asgi_handler = RequestMiddleware(app.asgi_handler, context.authenticator, limiter, settings)
    return app


def context_of(app: Litestar) -> AppContext:
    context = app.state[_CONTEXT]
    assert isinstance(context, AppContext)
    return context
