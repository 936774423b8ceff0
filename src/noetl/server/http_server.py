"""The application on a socket, served by uvicorn, with time limits for slow clients."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any, Final

import uvicorn
from litestar import Litestar

from noetl.errors import Rejected, Unavailable
from noetl.server.app import context_of
from noetl.server.http_protocol import CONNECTIONS_MAX, protocol_of

RESERVED_FILES: Final = 128  # descriptors for everything except connections
CONNECTIONS_MIN: Final = 32


def connections_max() -> int:
    """As many as the limit of open files permits."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    most = CONNECTIONS_MAX if files == resource.RLIM_INFINITY else files - RESERVED_FILES
    return max(CONNECTIONS_MIN, min(CONNECTIONS_MAX, most))


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
            http=protocol_of(settings.headers_s, settings.body_s, settings.connections or connections_max()),
            ws="none",
            lifespan="off",
            loop="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
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
