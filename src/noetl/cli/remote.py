"""A server in the place of a file: the same parts under the same names, each asked over HTTP.

Commands that look fold the facts themselves, so they say of a server exactly what they say of a file.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple, NoReturn

from noetl.cli.contexts import Server
from noetl.cli.exits import Usage
from noetl.client import Client, RemoteCatalog, RemoteListing, RemoteResults, RemoteStore, fact_of
from noetl.client.stream import Streamed
from noetl.clock import Clock
from noetl.engine import Event
from noetl.ports import LogRow
from noetl.views.envelopes import Envelope


class NoFile(NamedTuple):
    """What is asked of a database besides its parts: a server's is its own affair."""

    clock: Clock

    def fetch(self, query: str, values: tuple[str | int, ...] = ()) -> list[tuple[str]]:
        """Nothing: a check of the file itself is for whoever has it."""
        del query, values
        return []


class ResultsThere:
    """What can be read of a server's results. Whatever else is asked of a store is for whoever has it."""

    def __init__(self, results: RemoteResults) -> None:
        self.get = results.get
        self.read = results.read

    def __getattr__(self, name: str) -> NoReturn:
        raise Usage("this works on the stores themselves, and not through a server: --db PATH names a file")


class ServerDisk(NamedTuple):
    """What commands read of a server."""

    client: Client
    store: RemoteStore
    listing: RemoteListing
    catalog: RemoteCatalog
    results: ResultsThere
    database: NoFile
    flag: str = ""

    @classmethod
    def of(cls, server: Server) -> ServerDisk:
        """Nobody is asked yet; the session ends with the loop in which it is first used."""
        client = Client(server.url, server.token)
        parts = client.store, client.listing, client.catalog, ResultsThere(client.results)
        return cls(client, *parts, NoFile(client.clock), server.flag)


async def grown(disk: ServerDisk, execution_id: str, seq: int) -> AsyncIterator[list[LogRow]]:
    """The facts behind `seq`, as they are recorded, until the execution has ended."""
    async for each in disk.client.stream(execution_id, seq):
        if (event := event_of(each)) is not None:
            yield [LogRow(event.seq, event.at, (event.fact,))]


def event_of(streamed: Streamed) -> Event | None:
    return fact_of(streamed) if isinstance(streamed, Envelope) else None
