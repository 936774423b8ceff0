"""A TCP proxy that can stop one direction of its connections, as a firewall or a broken link does.

The bytes of that direction, and the end of the connection, arrive when the direction works again.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Literal, TypeAlias

Direction: TypeAlias = Literal["to", "from"]  # the service
CHUNK_BYTES = 65_536


class HalfOpenProxy:
    """`port` leads to the service on `target`, both on this machine."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._works: dict[Direction, Event] = {"to": Event(), "from": Event()}
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.restore()
        Thread(target=self._accept, daemon=True).start()

    def cut(self, direction: Direction) -> None:
        self._works[direction].clear()

    def restore(self) -> None:
        for each in self._works.values():
            each.set()

    def close(self) -> None:
        self.restore()
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # it was closed
            while True:
                client, _ = self._listener.accept()
                Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        with client, suppress(OSError), socket.create_connection(("127.0.0.1", self._target)) as service:
            back = Thread(target=self._copy, args=("from", service, client), daemon=True)
            back.start()
            self._copy("to", client, service)
            back.join()

    def _copy(self, direction: Direction, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):  # one side has closed the connection
            while data := source.recv(CHUNK_BYTES):
                self._works[direction].wait()
                target.sendall(data)
        self._works[direction].wait()
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)


@contextmanager
def half_open_proxy(target: int) -> Iterator[HalfOpenProxy]:
    proxy = HalfOpenProxy(target)
    try:
        yield proxy
    finally:
        proxy.close()
