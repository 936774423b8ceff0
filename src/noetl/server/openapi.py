"""The description of the API (OpenAPI 3.1), as data: nothing is fetched from anywhere to look at it."""

from __future__ import annotations

from typing import Any, Final

from litestar import Request, Response, Router
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme, Tag
from litestar.status_codes import HTTP_404_NOT_FOUND

from noetl import __version__
from noetl.server.auth import PUBLIC, SCOPE
from noetl.server.errors import Refused, answer
from noetl.server.routes.commands import CancelAsked, Nothing, RetryAsked, SignalAsked
from noetl.server.routes.credentials import ValueGiven
from noetl.server.routes.tokens import TokenAsked
from noetl.server.start_request import StartAsked

# Bodies of requests: a key that nobody reads is refused, and the framework does not say so by itself.
_BODIES: Final = (StartAsked, CancelAsked, RetryAsked, SignalAsked, Nothing, ValueGiven, TokenAsked)
_TAGS: Final = {
    "playbooks": "The catalog, and looking at playbooks before they run",
    "executions": "Starting executions, and reading what is on record of them",
    "commands": "A word to an execution",
    "streams": "Live, as server-sent events",
    "results": "Large results",
    "credentials": "Stored secrets, write-only",
    "tools": "Kinds of tools",
    "workers": "Workers and pools",
    "tokens": "Who may ask for what",
    "server": "The server itself",
}


class _Described(JsonRenderPlugin):
    """The document, encoded once."""

    _body = b""

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        if not self._body:
            for each in _BODIES:
                openapi_schema["components"]["schemas"][each.__name__]["additionalProperties"] = False
            self._body = super().render(request, openapi_schema)
        return self._body


async def _no_page(response: Response[Any]) -> Response[Any]:
    """The framework has a page of its own for what is not there."""
    if response.status_code != HTTP_404_NOT_FOUND:
        return response
    return answer(Refused(404, "no-such-route", "there is /schema/openapi.json, and nothing else"))


def description() -> OpenAPIConfig:
    bearer = SecurityScheme(
        type="http", scheme="bearer", description="`noetl token create` makes a token: noetl_<id>_<secret>"
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
            opt={SCOPE: PUBLIC},
            after_request=_no_page,
        ),
        render_plugins=[_Described(path="/openapi.json")],
        components=Components(security_schemes={"token": bearer}),
        security=[{"token": []}],
        tags=[Tag(name=name, description=words) for name, words in _TAGS.items()],
        use_handler_docstrings=True,
        operation_id_creator=lambda handler, _method, _path: handler.handler_name,
    )
