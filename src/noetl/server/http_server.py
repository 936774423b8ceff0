"""The application on a socket, served by uvicorn, with time limits for slow clients."""

from __future__ import annotations

import asyncio
import re
import resource
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

RESERVED_FILES: Final = 128  # descriptors for everything except connections
CONNECTIONS_MAX: Final = 10_000
CONNECTIONS_MIN: Final = 32
_BARE_LF: Final = re.compile(rb"(?<!\r)\n")
_FOLDED: Final = re.compile(rb"\n[ \t]")
_END_OF_HEADERS: Final = re.compile(rb"\r?\n\r?\n")


class StrictConnection(h11.Connection):
    """Refuses requests that a proxy may read differently: such a request can hide another one (smuggling)."""

    def next_event(self) -> Any:
        if self.their_state is h11.IDLE:
            data = self.trailing_data[0]
            end = _END_OF_HEADERS.search(data)
            head = data[: end.end()] if end else data
            if _BARE_LF.search(head):
                raise h11.RemoteProtocolError("a line of the headers does not end with CR LF")
            if _FOLDED.search(head):
                raise h11.RemoteProtocolError("a header continues on a second line")
        event = super().next_event()
        if isinstance(event, h11.Request):
            names = {name for name, _ in event.headers}
            if b"transfer-encoding" in names and b"content-length" in names:
                raise h11.RemoteProtocolError("a request has Content-Length or Transfer-Encoding, not both")
        return event


class OpenConnections:
    """The connections of a server. If there are too many, one is closed, first of the address that has the most.

    It is the longest idle one of that address; if none is idle and the address has more than half of all, its newest
    one; otherwise the longest idle one of all, or the new connection.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._of: dict[str, dict[SlowClientProtocol, None]] = {}  # by address, the oldest first
        self._idle: dict[SlowClientProtocol, None] = {}  # without a request, the longest first

    def add(self, connection: SlowClientProtocol) -> None:
        self._of.setdefault(connection.address, {})[connection] = None
        self._count += 1
        if self._count > self._most:
            victim = self._victim(connection)
            self.remove(victim)
            victim.transport.abort()

    def set_idle(self, connection: SlowClientProtocol, *, idle: bool) -> None:
        if not idle:
            self._idle.pop(connection, None)
        elif connection in self._of.get(connection.address, ()):
            self._idle.setdefault(connection)

    def remove(self, connection: SlowClientProtocol) -> None:
        own = self._of.get(connection.address, {})
        if connection in own:
            del own[connection]
            self._count -= 1
            if not own:
                del self._of[connection.address]
        self._idle.pop(connection, None)

    def _victim(self, new: SlowClientProtocol) -> SlowClientProtocol:
        most = max(self._of.values(), key=len)
        if (idle := next((each for each in self._idle if each in most), None)) is not None:
            return idle
        if 2 * len(most) > self._most:
            return next(reversed(most))
        return next(iter(self._idle), new)


def connections_max() -> int:
    """As many as the limit of open files permits."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    most = CONNECTIONS_MAX if files == resource.RLIM_INFINITY else files - RESERVED_FILES
    return max(CONNECTIONS_MIN, min(CONNECTIONS_MAX, most))


class SlowClientProtocol(H11Protocol):
    """One connection."""

    headers_s = HEADERS_S
    open_connections = OpenConnections(CONNECTIONS_MAX)
    _timer: asyncio.TimerHandle | None = None
    _in_headers = True  # the data belongs to a request line or to headers
    address = ""  # of the client

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self.conn = StrictConnection(h11.SERVER, HEADERS_BYTES_MAX)
        self.open_connections.add(self)
        self.open_connections.set_idle(self, idle=True)
        self._start_timer()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.open_connections.set_idle(self, idle=self.conn.their_state is h11.IDLE)

    def data_received(self, data: bytes) -> None:
        # h11 measures only incomplete headers, so it first gets no more data than headers may have.
        size = HEADERS_BYTES_MAX + 1 if self.conn.their_state is h11.IDLE else len(data)
        for piece in (data[:size], data[size:]):
            if piece and not self.transport.is_closing():
                self._in_headers = self.conn.their_state is h11.IDLE
                super().data_received(piece)
        self.open_connections.set_idle(self, idle=self.conn.their_state is h11.IDLE)
        if self.conn.their_state is not h11.IDLE:
            self._stop_timer()
        elif self._timer is None:
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self.open_connections.remove(self)
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


def protocol_of(headers_s: float, connections: int) -> type[SlowClientProtocol]:
    """The protocol class of a server: `headers_s` for the headers of a request, and a number of connections."""
    attributes = {"headers_s": headers_s, "open_connections": OpenConnections(connections)}
    return type("ServerProtocol", (SlowClientProtocol,), attributes)


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
            http=protocol_of(
                settings.headers_s, settings.connections or connections_max()
            ),  # h11: uvicorn's httptools has no header limit
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
