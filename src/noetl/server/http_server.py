"""The application on a socket, served by uvicorn, with time limits for slow clients."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any, Final

import h11
import msgspec
import uvicorn
from litestar import Litestar
from uvicorn.protocols.http.h11_impl import H11Protocol

from noetl.errors import Rejected, Unavailable
from noetl.server.app import context_of
from noetl.server.errors import MEDIA_TYPE
from noetl.server.middleware import HEADERS_BYTES_MAX, headers_too_large
from noetl.server.services import HEADERS_S


class SlowClientProtocol(H11Protocol):
    """One connection."""

    headers_s = HEADERS_S
    _timer: asyncio.TimerHandle | None = None
    _in_headers = True  # the data belongs to a request line or to headers

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        # h11 measures only incomplete headers, so it first gets no more data than headers may have.
        size = HEADERS_BYTES_MAX + 1 if self.conn.their_state is h11.IDLE else len(data)
        for piece in (data[:size], data[size:]):
            if piece and not self.transport.is_closing():
                self._in_headers = self.conn.their_state is h11.IDLE
                super().data_received(piece)
        if self.conn.their_state is not h11.IDLE:
            self._stop_timer()
        elif self._timer is None:
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """The response to a request that h11 cannot parse."""
        if not self._in_headers or len(self.conn.trailing_data[0]) <= HEADERS_BYTES_MAX:
            super().send_400_response(msg)
            return
        details = headers_too_large().details
        headers = [("content-type", MEDIA_TYPE), ("connection", "close")]
        response = h11.Response(status_code=details.status, headers=headers, reason=details.title.encode())
        for event in (response, h11.Data(data=msgspec.json.encode(details)), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(self.headers_s, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def protocol_with_timeout(headers_s: float) -> type[SlowClientProtocol]:
    """A protocol class that allows `headers_s` for the headers of a request."""
    return type("TimedProtocol", (SlowClientProtocol,), {"headers_s": headers_s})


KEEP_ALIVE_S: Final = 75  # longer than proxies keep connections, so that the server does not close first
BACKLOG: Final = 2_048
GRACE_S: Final = 10  # for running requests when the server stops


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class HttpServer:
    """`start()` it, and `stop()` it in the end."""

    def __init__(
        self, app: Litestar, host: str = "127.0.0.1", port: int = 0, *, wrap: Callable[[Any], Any] = lambda app: app
    ) -> None:
        """`wrap`: adds an outermost middleware, which sees all requests.

        Raises Rejected when the application needs no tokens and other machines can reach the address; or
        Unavailable.
        """
        self._app = app
        self._socket = _bind(host, port)
        settings = context_of(app).settings
        if settings.open and not _is_loopback(self._socket):
            self._socket.close()
            message = f"other machines can reach {host}: without tokens a server listens on loopback only"
            raise Rejected("open-door", message)
        self.host, self.port = self._socket.getsockname()[:2]
        config = uvicorn.Config(
            wrap(app),
            http=protocol_with_timeout(settings.headers_s),  # h11: uvicorn's httptools has no header limit
            ws="none",
            lifespan="off",
            loop="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            h11_max_incomplete_event_size=HEADERS_BYTES_MAX,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=GRACE_S,
        )
        self._server = _Server(config)
        self._task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def start(self) -> None:
        """Returns at once: connections wait in the backlog of the socket until the server accepts them."""
        self._socket.listen(BACKLOG)
        self._task = asyncio.ensure_future(self._server.serve(sockets=[self._socket]))

    async def stop(self) -> None:
        """Running requests have some seconds to finish; subscribers of streams are asked to reconnect."""
        self._server.should_exit = True
        await context_of(self._app).close()
        if self._task is not None:
            await self._task
        self._socket.close()


def _is_loopback(bound: socket.socket) -> bool:
    return ip_address(str(bound.getsockname()[0]).partition("%")[0]).is_loopback


def _bind(host: str, port: int) -> socket.socket:
    """Raises Unavailable."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, proto)
    except OSError as error:
        raise Unavailable(f"{host} is not an address of this machine: {error.strerror}") from error
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        reason = (error.strerror or str(error)).lower()
        raise Unavailable(f"cannot listen on {host}:{port}: {reason}; try another port") from error
    bound.setblocking(False)
    return bound
