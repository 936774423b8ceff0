"""Requests to an application in the same process, without a socket: it checks them like any other request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import unquote, urlencode

import aiohttp
from aiohttp.base_protocol import BaseProtocol

from noetl.client.http import HttpTransport, OpenResponse, OutgoingRequest, ServerResponse
from noetl.clock import Clock
from noetl.errors import Unavailable
from noetl.secret import Secret

AsgiApp: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]
URL: Final = "http://127.0.0.1"  # of the host header, and in messages
BUFFER_BYTES: Final = 1 << 16


class AppResponse(NamedTuple):
    """The beginning of a response."""

    status: int
    headers: Mapping[str, str]
    content: aiohttp.StreamReader


class AppTransport(HttpTransport):
    """Sends requests to an application on the event loop where this was made, also from other threads."""

    def __init__(
        self, app: AsgiApp, token: str | Secret | None = None, *, address: str = "127.0.0.1", clock: Clock | None = None
    ) -> None:
        """`address`: of the caller for whom the requests are made."""
        super().__init__(URL, token, clock)
        self._app = app
        self._address = address
        self._home = asyncio.get_running_loop()

    async def request(self, *arguments: Any, **options: Any) -> ServerResponse:
        """As that of the base class."""
        work = super().request(*arguments, **options)
        if asyncio.get_running_loop() is self._home:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._home))

    @asynccontextmanager
    async def open(
        self, request: OutgoingRequest, timeout_s: float | None, file: str = "playbook", silence_s: float | None = None
    ) -> AsyncIterator[OpenResponse]:
        del silence_s  # the application is here
        exchange = _Exchange(request.body or b"", self._home)
        task = asyncio.ensure_future(self._app(self._scope(request), exchange.receive, exchange.send))
        task.add_done_callback(exchange.end)
        try:
            async with asyncio.timeout(timeout_s) as deadline:
                response = await exchange.started
                if not 200 <= response.status < 300:
                    await self.raise_error(response, file)
                yield response
        except TimeoutError as error:
            if not deadline.expired():
                raise
            raise Unavailable("the server did not respond in time") from error
        finally:
            exchange.gone.set()
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task

    def _scope(self, request: OutgoingRequest) -> dict[str, Any]:
        headers = {"host": "127.0.0.1", **self.default_headers(), **request.headers}
        if request.body is not None:
            headers |= {"content-type": "application/json", "content-length": str(len(request.body))}
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "server": ("127.0.0.1", 80),
            "client": (self._address, 0),
            "scheme": "http",
            "method": request.method,
            "root_path": "",
            "path": unquote(request.path),
            "raw_path": request.path.encode(),
            "query_string": urlencode(request.params).encode(),
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()],
            "state": {},
        }


class _Exchange:
    """One request and its response."""

    def __init__(self, body: bytes, loop: asyncio.AbstractEventLoop) -> None:
        self.started: asyncio.Future[AppResponse] = loop.create_future()
        self.gone = asyncio.Event()  # the client no longer reads the response
        self._body: bytes | None = body
        connection = BaseProtocol(loop)
        connection.connection_made(asyncio.Transport())  # a reader waits for data only while it is connected
        self._content = aiohttp.StreamReader(connection, BUFFER_BYTES, loop=loop)

    async def receive(self) -> dict[str, Any]:
        if self._body is None:
            await self.gone.wait()
            return {"type": "http.disconnect"}
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = {name.decode("latin-1").title(): value.decode("latin-1") for name, value in message["headers"]}
            self.started.set_result(AppResponse(message["status"], headers, self._content))
        elif message["type"] == "http.response.body":
            self._content.feed_data(message.get("body", b""))
            if not message.get("more_body", False):
                self._content.feed_eof()

    def end(self, task: asyncio.Future[None]) -> None:
        if not self.started.done():
            reason = None if task.cancelled() else task.exception()
            error = Unavailable("the server did not answer")
            error.__cause__ = reason
            self.started.set_exception(error)
        elif not self._content.is_eof():
            self._content.feed_eof()
