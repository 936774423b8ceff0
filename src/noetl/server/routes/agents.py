"""The tools for agents over HTTP: the Model Context Protocol at `/mcp`, with the tokens and roles of the server."""

from __future__ import annotations

from typing import Final

from litestar import asgi
from litestar.types import Receive, Scope, Send

from noetl.errors import install_hint
from noetl.server.access import CONTEXT
from noetl.server.errors import ApiError
from noetl.server.params import OF_LIST, READ

PATH: Final = "/mcp"


@asgi(PATH, opt=READ | OF_LIST, copy_scope=True)
async def agents(scope: Scope, receive: Receive, send: Send) -> None:
    """Each call of a tool becomes requests to other routes, which check the rights of the caller."""
    endpoint = scope["litestar_app"].state[CONTEXT].agents
    if endpoint is None:
        detail = f"this server has no tools for agents: {install_hint('mcp')}, and start it again"
        raise ApiError(501, "not-installed", detail)
    await endpoint(scope, receive, send)


ROUTES: Final = [agents]
