"""A server on its socket: an address in use, no open server beyond loopback, an orderly shutdown."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from pathlib import Path

import pytest

from noetl.errors import Rejected, Unavailable
from noetl.server.app import context_of
from noetl.server.http_server import HttpServer
from noetl.server.services import ServerSettings
from tests.api.servers import WAITING, ApiServer, serve


def test_an_address_in_use_is_reported(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        with pytest.raises(Unavailable, match=r"cannot listen on 127\.0\.0\.1:\d+: address already in use"):
            HttpServer(server.app, port=server.server.port)
        with pytest.raises(Unavailable, match="not an address of this machine"):
            HttpServer(server.app, host="no.such.host.invalid")

    serve(tmp_path, work)


def test_without_tokens_a_server_listens_on_loopback_only(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        with pytest.raises(Rejected, match="open-door"):
            HttpServer(server.app, host="0.0.0.0")

    serve(tmp_path, work)


def test_with_tokens_a_server_listens_anywhere(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        other = HttpServer(server.app, host="0.0.0.0")
        assert (other.host, other.port > 0) == ("0.0.0.0", True)
        await other.stop()

    serve(tmp_path, work, ServerSettings())


@pytest.mark.skipif(not socket.has_ipv6, reason="Python has no IPv6 here: run it where ::1 is")
def test_an_ipv6_address_has_brackets(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        try:
            other = HttpServer(server.app, host="::1")
        except Unavailable:
            return  # this machine has no IPv6 loopback
        assert other.url == f"http://[::1]:{other.port}"
        await other.stop()

    serve(tmp_path, work)


def test_the_http_server_installs_no_signal_handlers(tmp_path: Path) -> None:
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]

    async def work(server: ApiServer) -> None:
        await server.api.get("/health")
        # asyncio.run installs a handler for SIGINT; uvicorn must not replace it.
        assert "uvicorn" not in str([signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)])

    serve(tmp_path, work)
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before


def test_waiting_requests_return_when_the_server_stops(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(WAITING)
        waits = asyncio.ensure_future(server.api.ask("POST", "/executions", {"path": "waiting"}, wait=300))
        while not context_of(server.app).waiters._subscriptions:
            await server.api.get("/health")
        await server.server.stop()
        assert (await waits).status == 202

    serve(tmp_path, work)


needs_addresses = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all of 127.0.0.0/8")
HEAD = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /health HTTP/1.1\nHost: localhost\n\n",
        HEAD + b"X-A: 1\nX-B: 2\r\n\r\n",
        HEAD + b"X-Folded: one\r\n two\r\n\r\n",
        HEAD + b"X-Folded: one\r\n\ttwo\r\n\r\n",
        HEAD + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
    ids=["bare LF", "one bare LF", "folded", "folded by a tab", "two lengths"],
)
@pytest.mark.parametrize("before", [b"", HEAD + b"\r\n"], ids=["first", "pipelined"])
def test_ambiguous_requests_are_refused_and_end_the_connection(
    tmp_path: Path, request_bytes: bytes, before: bytes
) -> None:
    async def work(server: ApiServer) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.server.port)
        writer.write(before + request_bytes)
        answers = await reader.read()  # to the end of the connection
        writer.close()
        assert answers.count(b"HTTP/1.1 200") == bool(before)
        assert answers.count(b"HTTP/1.1 400") == 1

    serve(tmp_path, work)


def test_idle_connections_do_not_keep_others_out(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        idle = [await asyncio.open_connection("127.0.0.1", server.server.port) for _ in range(40)]
        assert (await server.api.ask("GET", "/health")).status == 200
        assert await idle[0][0].read() == b""  # the longest idle one was closed
        for _, writer in idle:
            writer.close()

    serve(tmp_path, work, ServerSettings(open=True, connections=32))


async def connected(server: ApiServer, address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", server.server.port, local_addr=(address, 0))


async def status_on(connection: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> bytes:
    reader, writer = connection
    writer.write(HEAD + b"\r\n")
    return (await reader.read(1_000))[:12]


@needs_addresses
def test_an_address_with_many_connections_closes_none_of_another_address(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        honest = await connected(server, "127.0.0.2")
        assert await status_on(honest) == b"HTTP/1.1 200"
        idle = [await connected(server, "127.0.0.1") for _ in range(60)]
        assert await idle[0][0].read() == b""
        assert await status_on(honest) == b"HTTP/1.1 200", "it is the longest idle one, of another address"
        for _, writer in (honest, *idle):
            writer.close()

    serve(tmp_path, work, ServerSettings(open=True, connections=32))


@needs_addresses
def test_an_address_with_busy_connections_does_not_keep_others_out(tmp_path: Path) -> None:
    """A request without its body makes a connection busy."""

    async def work(server: ApiServer) -> None:
        begun = HEAD.replace(b"GET /health", b"POST /playbooks/check") + b"Content-Length: 9\r\n"
        busy = [await connected(server, "127.0.0.1") for _ in range(32)]
        for _, writer in busy:
            writer.write(begun + b"Content-Type: application/json\r\nExpect: 100-continue\r\n\r\n")
        for reader, _ in busy:
            assert (await reader.readline()).startswith(b"HTTP/1.1 100")  # it waits for the body
        honest = await connected(server, "127.0.0.2")
        assert await status_on(honest) == b"HTTP/1.1 200"
        assert await busy[-1][0].read() == b"\r\n"  # the newest one is closed
        refused = await connected(server, "127.0.0.1")
        assert await refused[0].read() == b"", "the new connection is the newest one of its address"
        assert await status_on(honest) == b"HTTP/1.1 200", "it is idle, but of another address"
        for _, writer in (honest, refused, *busy):
            writer.close()

    serve(tmp_path, work, ServerSettings(open=True, connections=32))
