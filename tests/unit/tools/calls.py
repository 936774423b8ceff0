"""Helpers for tests of tools: a call as a worker makes it, and a server on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from ssl import SSLContext
from types import MappingProxyType
from typing import TypeAlias

from aiohttp import web

from noetl.adapters.memory import MemoryResults
from noetl.output import JSON
from noetl.ports import ResultStore
from noetl.tool import Call

NO_LIBS: Mapping[str, str] = MappingProxyType({})
Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


def call(
    arguments: dict[str, JSON] | None = None,
    *,
    prev: JSON = None,
    spec: dict[str, JSON] | None = None,
    results: ResultStore | None = None,
    folder: str | None = None,
    libs: Mapping[str, str] = NO_LIBS,
) -> Call:
    made = Call("e1/fetch#1/1", 1, "e1", arguments or {}, prev, spec or {}, results or MemoryResults(), folder)
    return made._replace(libs=libs)


@asynccontextmanager
async def server(handler: Handler, host: str = "127.0.0.1", *, context: SSLContext | None = None) -> AsyncIterator[str]:
    """A server with one handler for all paths; yields its address without a slash at the end."""
    application = web.Application(client_max_size=1 << 24)
    application.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, host, 0, ssl_context=context)
    await site.start()
    try:
        scheme = "http" if context is None else "https"
        yield f"{scheme}://{host}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def raw_server(answer: bytes) -> AsyncIterator[str]:
    """A server that reads the head of a request, writes these bytes and closes the connection."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    listening = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
