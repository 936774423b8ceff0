"""The application on a socket, by uvicorn, inside of the loop that runs everything else.

It hears no signals of its own: whoever started it stops it, and whoever follows or waits is told.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any, Final

import uvicorn
from litestar import Litestar

from noetl.errors import Rejected, Unavailable
from noetl.server.app import room_of
from noetl.server.middleware import HEADERS_BYTES_MAX
from noetl.server.slow_clients import patient

KEEP_ALIVE_S: Final = 75  # longer than proxies keep theirs, so that it is not us who hang up
BACKLOG: Final = 2_048
GRACE_S: Final = 10  # for requests that run when it stops


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Serving:
    """`start()`, and `stop()` in the end."""

    def __init__(
        self,
        app: Litestar,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        around: Callable[[Any], Any] = lambda app: app,
    ) -> None:
        """`around`: what stands outside of everything, to see all requests.

        Raises Rejected when everyone may do everything and others reach the address; or Unavailable.
        """
        self._app = app
        self._socket = _bound(host, port)
        if room_of(app).settings.open and not _is_here(self._socket):
            self._socket.close()
            words = f"{host} can be reached by others: without tokens a server listens on loopback only"
            raise Rejected("open-door", words)
        self.host, self.port = self._socket.getsockname()[:2]
        config = uvicorn.Config(
            around(app),
            http=patient(room_of(app).settings.headers_s),  # h11: the others know no limit of headers
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
        """Connections wait in the socket until it serves, so nobody has to wait for that."""
        self._socket.listen(BACKLOG)
        self._task = asyncio.ensure_future(self._server.serve(sockets=[self._socket]))

    async def stop(self) -> None:
        """Requests that run have some seconds; followers are told to come back."""
        self._server.should_exit = True
        await room_of(self._app).close()
        if self._task is not None:
            await self._task
        self._socket.close()


def _is_here(bound: socket.socket) -> bool:
    return ip_address(str(bound.getsockname()[0]).partition("%")[0]).is_loopback


def _bound(host: str, port: int) -> socket.socket:
    """Raises Unavailable, with words."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, proto)
    except OSError as error:
        raise Unavailable(f"{host}: no address of this machine: {error.strerror}") from error
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
    except OSError as error:
        made.close()
        words = (error.strerror or str(error)).lower()
        raise Unavailable(f"{host}:{port} can not be served: {words}; another port?") from error
    made.setblocking(False)
    return made
