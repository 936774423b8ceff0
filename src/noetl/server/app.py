"""The API as one application: routes, middleware, errors, and its OpenAPI description."""

from __future__ import annotations

from typing import Any, Final

from litestar import Litestar, Request, Response, Router
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme, Tag
from litestar.status_codes import HTTP_404_NOT_FOUND

from noetl import __version__
from noetl.api.admin import CredentialValue, TokenRequest
from noetl.api.bulk import BulkRequest, BulkTarget, ListFilter
from noetl.api.debugging import BreakpointRequest, ChangeRequest, ContinueRequest, EvaluateRequest, StepRequest
from noetl.api.executions import CancelRequest, EmptyRequest, ForkRequest, RetryRequest, SignalRequest, StartRequest
from noetl.api.playbooks import RollbackRequest
from noetl.api.saved import SavedRequest
from noetl.api.trials import TestsRequest, WhatIfRequest
from noetl.server import static
from noetl.server.access import CONTEXT, FILTERED, LIMIT, Hidden, guard
from noetl.server.auth import CALLER, SCOPE, Caller
from noetl.server.errors import ApiError, error_response, handle_exception
from noetl.server.middleware import RateLimiter, RequestMiddleware
from noetl.server.params import AppContext, caller_of, dependencies
from noetl.server.routes import (
    admin,
    agents,
    bulk,
    call_logs,
    check,
    compare,
    debug,
    executions,
    health_history,
    hooks,
    iterations,
    limits,
    logs,
    playbooks,
    results,
    rows,
    run,
    saved,
    sessions,
    trials,
    triggers,
)
from noetl.server.services import ServerSettings, Services

# Request bodies reject unknown fields, which the framework does not put into the document.
_BODIES: Final = (
    StartRequest, CancelRequest, ForkRequest, RetryRequest, SignalRequest, EmptyRequest, CredentialValue, TokenRequest,
    SavedRequest, BreakpointRequest, ContinueRequest, StepRequest, ChangeRequest, EvaluateRequest,
    BulkRequest, BulkTarget, ListFilter, RollbackRequest, TestsRequest, WhatIfRequest,
)  # fmt: skip
_TAGS: Final = {
    "playbooks": "The catalog, and checking, explaining and drawing playbooks",
    "executions": "Start executions and read their logs",
    "commands": "Commands to an execution",
    "triggers": "Schedules, webhooks and messages that start executions automatically",
    "streams": "Live events, as server-sent events",
    "results": "Large results",
    "saved": "Values that outlive executions",
    "credentials": "Stored secrets, write-only",
    "tools": "Kinds of tools",
    "workers": "Workers and pools",
    "limits": "Limits by key that executions share",
    "tokens": "API tokens and their scopes",
    "sessions": "Sessions of the web UI",
    "audit": "The audit trail",
    "server": "The server itself",
}


class _JsonDocument(JsonRenderPlugin):
    """The document of all routes, with the registered playbooks that have typed inputs."""

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        for body in _BODIES:
            openapi_schema["components"]["schemas"][body.__name__]["additionalProperties"] = False
        paths = {**openapi_schema["paths"], **request.state[_PLAYBOOKS]}
        return super().render(request, {**openapi_schema, "paths": paths})


async def _load_playbooks(request: Request[Any, Any, Any]) -> None:
    request.state[_PLAYBOOKS] = await context_of(request.app).run_schemas.paths(caller_of(request))


async def _replace_not_found_page(response: Response[Any]) -> Response[Any]:
    """The framework has an HTML page of its own for unknown paths below /schema."""
    if response.status_code != HTTP_404_NOT_FOUND:
        return response
    detail = "the only document below /schema is /schema/openapi.json"
    return error_response(ApiError(404, "no-such-route", detail))


def openapi_config() -> OpenAPIConfig:
    bearer = SecurityScheme(
        type="http", scheme="bearer", description="`noetl token create` creates a token: noetl_<id>_<secret>"
    )
    return OpenAPIConfig(
        title="NoETL",
        version=__version__,
        description="Playbooks and their executions. Every error is application/problem+json.",
        path="/schema",
        openapi_router=Router(
            "/schema",
            route_handlers=[],
            include_in_schema=False,
            opt={SCOPE: "read", LIMIT: FILTERED},
            before_request=_load_playbooks,
            after_request=_replace_not_found_page,
        ),
        render_plugins=[_JsonDocument(path="/openapi.json")],
        components=Components(security_schemes={"token": bearer}),
        security=[{"token": []}],
        tags=[Tag(name=name, description=description) for name, description in _TAGS.items()],
        use_handler_docstrings=True,
        operation_id_creator=lambda handler, _method, _path: handler.handler_name,
    )


BODY_MAX: Final = 2 << 20
_PLAYBOOKS: Final = "playbooks"  # the key of their path items in the state of a request

_ROUTES: Final = (
    admin,
    health_history,
    sessions,
    playbooks,
    check,
    executions,
    bulk,
    run,
    debug,
    logs,
    call_logs,
    results,
    rows,
    compare,
    iterations,
    limits,
    saved,
    triggers,
    hooks,
    agents,
    trials,
    static,
)


class _Request(Request[Any, Any, Any]):
    async def json(self) -> Any:
        """A body that is nested too deep to be parsed is an error of the caller, not of the server."""
        try:
            return await super().json()
        except RecursionError as error:
            raise ApiError(400, "bad-json", "the body cannot be parsed: it is nested too deeply") from error


def _handle_exception(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    """The response to an exception. A denied request is part of the audit trail: its route, without its values."""
    response = handle_exception(request, error)
    if response.status_code in (401, 403) or isinstance(error, Hidden):
        caller = request.scope["state"].get(CALLER)
        what = f"{request.method} {request.scope.get('path_template', '')}"
        address = (request.scope.get("client") or ("?", 0))[0]
        code = error.details.code if isinstance(error, ApiError) else "outside-paths"
        context_of(request.app).audit.deny(caller if isinstance(caller, Caller) else None, address, what, code)
    return response


def make_app(services: Services, settings: ServerSettings) -> Litestar:
    """`settings.open` is only safe for an address that no other machine can reach."""
    context = AppContext(services, settings)
    app = Litestar(
        route_handlers=[route for module in _ROUTES for route in module.ROUTES],
        dependencies=dependencies(context),
        guards=[guard],
        exception_handlers={Exception: _handle_exception},
        request_class=_Request,
        request_max_body_size=BODY_MAX,
        openapi_config=openapi_config(),
        logging_config=None,
        debug=False,
    )
    app.state[CONTEXT] = context
    if settings.agents is not None:
        context.agents = settings.agents(app)
    limiter = RateLimiter(services.clock, settings.requests_per_s, settings.requests_burst)
    # The framework's own middleware runs only for paths that have a route. This one sees every request.
    app.asgi_handler = RequestMiddleware(app.asgi_handler, context.authenticator, context.sessions, limiter, settings)
    return app


def context_of(app: Litestar) -> AppContext:
    context = app.state[CONTEXT]
    assert isinstance(context, AppContext)
    return context
