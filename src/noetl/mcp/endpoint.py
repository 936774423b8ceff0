"""The tools for agents on a server: streamable HTTP, without state between requests.

Each request has a session of its own that sends requests to the server in the same process, with the caller's token:
the routes check scopes, roles and limits, and write the audit trail. Tests and what-ifs run in the processes that the
server has for them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from noetl.client.app import AppTransport, AsgiApp
from noetl.session.remote import RemoteSession

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from noetl.mcp.context import VerbContext

BODY_BYTES_MAX: Final = 2 << 20
THREADS: Final = 2  # as many as all other routes have for their computations


def is_installed() -> bool:
    return find_spec("mcp") is not None


class McpEndpoint:
    """An ASGI application. The SDK is imported by the first request."""

    def __init__(self, app: AsgiApp) -> None:
        self._app = app
        self._threads = asyncio.Semaphore(THREADS)
        self._closing = asyncio.Event()
        self._ready: asyncio.Future[StreamableHTTPSessionManager] | None = None
        self._task: asyncio.Task[None] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._ready is None:
            self._ready = asyncio.get_running_loop().create_future()
            self._task = asyncio.create_task(self._run(self._ready))
        transport = await asyncio.shield(self._ready)
        await transport.handle_request(scope, receive, send)

    async def close(self) -> None:
        """End all requests."""
        self._closing.set()
        if self._task is not None:
            await self._task

    async def _run(self, ready: asyncio.Future[StreamableHTTPSessionManager]) -> None:
        """The transport must be opened and closed by one task."""
        transport = await asyncio.to_thread(self._make)
        async with transport.run():
            ready.set_result(transport)
            await self._closing.wait()

    def _make(self) -> StreamableHTTPSessionManager:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from noetl.mcp.context import installed
        from noetl.mcp.server import McpServer

        installed()  # the texts about the language are made once
        logging.getLogger("mcp").setLevel(logging.WARNING)  # it logs the life of each request
        protocol = McpServer(self._context).protocol
        return StreamableHTTPSessionManager(protocol, stateless=True, max_request_body_size=BODY_BYTES_MAX)

    @asynccontextmanager
    async def _context(self, request: Any) -> AsyncIterator[VerbContext]:
        from noetl.mcp.context import VerbContext, installed
        from noetl.mcp.trials import ServerTrials

        http = request.request
        scheme, _, token = http.headers.get("authorization", "").partition(" ")
        requests = AppTransport(
            self._app,
            token if scheme.lower() == "bearer" and token else None,
            address=http.client.host if http.client is not None else "?",
        )
        async with RemoteSession(requests) as session:
            yield VerbContext(session, installed(), threads=self._threads, trials=ServerTrials(requests))
