"""A server on its socket: an address in use, no open server beyond loopback, an orderly shutdown."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import sys
from pathlib import Path

import pytest

from noetl.errors import Rejected, Unavailable
from noetl.server.app import context_of
from noetl.server.http_protocol import CHUNKED_BYTES_PER_TURN
from noetl.server.http_server import HttpServer
from noetl.server.services import ServerSettings
from noetl.slices import turn
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
        HEAD.replace(b"GET /health", b"CONNECT localhost:80") + b"\r\n",
    ],
    ids=["bare LF", "one bare LF", "folded", "folded by a tab", "two lengths", "CONNECT"],
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


BODY = b'{"path": "absent"}'
POST = b"POST /executions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
SIZED = POST + b"Content-Length: 18\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
CHUNK = b"12\r\n" + BODY + b"\r\n"
LAST = b"0\r\n\r\n"
END = HEAD + b"Connection: close\r\n\r\n"
OK, ABSENT, REFUSED = b"200", b"404", b"400"  # ABSENT: the whole body was read, and names no playbook

REQUESTS: dict[str, tuple[bytes, bytes]] = {
    "plain": (HEAD + b"\r\n", OK),
    "with a body": (SIZED + b"\r\n" + BODY, ABSENT),
    "a GET with a body": (HEAD + b"Content-Length: 18\r\n\r\n" + END[:18], OK),
    "spaces around a value": (POST + b"Content-Length: \t 18 \t\r\n\r\n" + BODY, ABSENT),
    "an encoded path": (HEAD.replace(b"/health", b"/%68ealth?a=%00") + b"\r\n", OK),
    "an empty line before": (b"\r\n" + HEAD + b"\r\n", REFUSED),
    "a space before": (b" " + HEAD + b"\r\n", REFUSED),
    "TLS": (b"\x16\x03\x01\x02\x00\x01", REFUSED),
    # the request line
    "a bare LF after it": (b"GET /health HTTP/1.1\nHost: localhost\r\n\r\n", REFUSED),
    "two spaces": (HEAD.replace(b"/health", b" /health") + b"\r\n", REFUSED),
    "a space after it": (HEAD.replace(b"1.1", b"1.1 ") + b"\r\n", REFUSED),
    "a tab": (HEAD.replace(b" /", b"\t/") + b"\r\n", REFUSED),
    "NUL in the path": (HEAD.replace(b"/health", b"/health\0") + b"\r\n", REFUSED),
    "no ASCII in the path": (HEAD.replace(b"/health", b"/health\xff") + b"\r\n", REFUSED),
    "an absolute target": (HEAD.replace(b"/health", b"http://localhost/health") + b"\r\n", REFUSED),
    "a target without a slash": (HEAD.replace(b"/health", b"health") + b"\r\n", REFUSED),
    "an asterisk": (HEAD.replace(b"GET /health", b"OPTIONS *") + b"\r\n", ABSENT),
    "CONNECT": (HEAD.replace(b"GET /health", b"CONNECT localhost:80") + b"\r\n", REFUSED),
    "HTTP/0.9": (b"GET /health\r\n\r\n", REFUSED),
    "HTTP/1.2": (HEAD.replace(b"1.1", b"1.2") + b"\r\n", REFUSED),
    "HTTP/2": (HEAD.replace(b"1.1", b"2.0") + b"\r\n", REFUSED),
    "the preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", REFUSED),
    "RTSP": (HEAD.replace(b"HTTP", b"RTSP") + b"\r\n", REFUSED),
    "a method of RTSP": (HEAD.replace(b"GET", b"DESCRIBE") + b"\r\n", REFUSED),
    "ICE": (b"SOURCE /health ICE/1.0\r\n\r\n", REFUSED),
    "a method of WebDAV": (HEAD.replace(b"GET", b"PROPFIND") + b"\r\n", b"405"),
    "an unknown method": (HEAD.replace(b"GET", b"STEAL") + b"\r\n", REFUSED),
    "a method in lower case": (HEAD.replace(b"GET", b"get") + b"\r\n", REFUSED),
    # headers
    "a bare CR": (HEAD + b"X-A: 1\rX-B: 2\r\n\r\n", REFUSED),
    "a bare LF at the end": (HEAD + b"X-A: 1\r\n\n", REFUSED),
    "a fold without a value": (HEAD + b"X-A:\r\n 1\r\n\r\n", REFUSED),
    "a fold before headers": (HEAD.replace(b"\r\n", b"\r\n ", 1) + b"\r\n", REFUSED),
    "a space before a colon": (SIZED.replace(b"Length:", b"Length :") + b"\r\n" + BODY, REFUSED),
    "no name": (HEAD + b": 1\r\n\r\n", REFUSED),
    "no colon": (HEAD + b"X-A\r\n\r\n", REFUSED),
    "NUL in a value": (HEAD + b"X-A: a\0b\r\n\r\n", REFUSED),
    "a control character in a value": (HEAD + b"X-A: a\x01b\r\n\r\n", REFUSED),
    "DEL in a value": (HEAD + b"X-A: a\x7fb\r\n\r\n", REFUSED),
    "no ASCII in a value": (HEAD + b"X-A: \xc3\xa4\r\n\r\n", OK),
    "no ASCII in a name": (HEAD + b"X-\xff: 1\r\n\r\n", REFUSED),
    "no Host": (b"GET /health HTTP/1.1\r\n\r\n", REFUSED),
    "two Hosts": (HEAD + b"Host: localhost\r\n\r\n", REFUSED),
    # the length
    "a length with a sign": (POST + b"Content-Length: +18\r\n\r\n" + BODY, REFUSED),
    "a negative length": (POST + b"Content-Length: -18\r\n\r\n" + BODY, REFUSED),
    "a hexadecimal length": (POST + b"Content-Length: 0x12\r\n\r\n" + BODY, REFUSED),
    "an empty length": (POST + b"Content-Length:\r\n\r\n" + BODY, REFUSED),
    "a huge length": (POST + b"Content-Length: 99999999999999999999\r\n\r\n" + BODY, REFUSED),
    "a list of lengths": (POST + b"Content-Length: 18, 18\r\n\r\n" + BODY, REFUSED),
    "two equal lengths": (SIZED + b"Content-Length: 18\r\n\r\n" + BODY, REFUSED),
    "two different lengths": (SIZED + b"Content-Length: 0\r\n\r\n" + BODY, REFUSED),
    "a length after chunked": (POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n" + LAST, REFUSED),
    "identity": (POST + b"Transfer-Encoding: identity\r\n\r\n" + LAST, REFUSED),
    "gzip": (POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + LAST, REFUSED),
    "chunked not last": (POST + b"Transfer-Encoding: chunked, identity\r\n\r\n" + LAST, REFUSED),
    "chunked twice": (POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n" + LAST, REFUSED),
    "two encodings": (CHUNKED[:-2] + b"Transfer-Encoding: identity\r\n\r\n" + LAST, REFUSED),
    "nearly chunked": (POST + b"Transfer-Encoding: xchunked\r\n\r\n" + LAST, REFUSED),
    "chunked after a control character": (POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n" + LAST, REFUSED),
    "chunked in HTTP/1.0": (CHUNKED.replace(b"1.1", b"1.0") + CHUNK + LAST, REFUSED),
    # chunks
    "chunks": (CHUNKED + b"5\r\n" + BODY[:5] + b"\r\nD\r\n" + BODY[5:] + b"\r\n" + LAST, ABSENT),
    "chunked in upper case": (CHUNKED.replace(b"chunked", b"CHUNKED") + CHUNK + LAST, ABSENT),
    "ends of lines in a chunk": (CHUNKED + CHUNK + b"8\r\n\r\n\r\n\r\n\r\n\r\n" + LAST, ABSENT),
    "an extension": (CHUNKED + CHUNK.replace(b"12", b'12;a=b;c="d"') + LAST, ABSENT),
    "an extension with a bare LF": (CHUNKED + CHUNK.replace(b"12\r\n", b"12;a\n") + LAST, REFUSED),
    "an extension with NUL": (CHUNKED + CHUNK.replace(b"12", b"12;a\0") + LAST, REFUSED),
    "a large extension": (CHUNKED + CHUNK.replace(b"12", b"12;" + b"a" * 20_000) + LAST, ABSENT),
    "an endless extension": (CHUNKED + b"12;" + b"a" * 300_000, REFUSED),
    "a size with a space": (CHUNKED + CHUNK.replace(b"12", b"12 ") + LAST, REFUSED),
    "a size with a prefix": (CHUNKED + CHUNK.replace(b"12", b"0x12") + LAST, REFUSED),
    "a huge size": (CHUNKED + CHUNK.replace(b"12", b"10000000000000012") + LAST, REFUSED),
    "a bare LF after a size": (CHUNKED + CHUNK.replace(b"12\r\n", b"12\n") + LAST, REFUSED),
    "a bare LF after a chunk": (CHUNKED + CHUNK[:-2] + b"\n" + LAST, REFUSED),
    "a chunk longer than its size": (CHUNKED + CHUNK.replace(b"12", b"11") + LAST, REFUSED),
    "trailers": (CHUNKED + CHUNK + b"0\r\nHost: evil.example\r\nX-A: 1\r\n\r\n", ABSENT),
    "a trailer with a bare LF": (CHUNKED + CHUNK + b"0\r\nX-A: 1\n\r\n", REFUSED),
    "a length as a trailer": (CHUNKED + CHUNK + b"0\r\nContent-Length: 5\r\n\r\n", REFUSED),
    "endless trailers": (CHUNKED + CHUNK + b"0\r\nX-A: " + b"a" * 300_000, REFUSED),
    # other protocols
    "an upgrade": (HEAD + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", OK),
    "an upgrade with a body": (SIZED + b"Connection: Upgrade\r\nUPGRADE: h2c\r\n\r\n" + BODY, ABSENT),
    "an upgrade with chunks": (CHUNKED[:-2] + b"Connection: upgrade\r\nupgrade: h2c\r\n\r\n" + CHUNK + LAST, ABSENT),
}  # fmt: skip


async def statuses(server: ApiServer, sent: bytes, piece: int = 1 << 20) -> list[bytes]:
    """The statuses of all responses to what is sent in pieces, until the server ends the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.server.port)
    answers = asyncio.ensure_future(reader.read())
    for start in range(0, len(sent), piece):
        if answers.done():
            break
        writer.write(sent[start : start + piece])
        await turn()
    try:
        return re.findall(rb"HTTP/1\.1 (\d+)", await answers)
    except ConnectionResetError:  # the server has refused the request before all of it arrived
        return [REFUSED]
    finally:
        writer.close()


@pytest.mark.parametrize("before", [b"", HEAD + b"\r\n"], ids=["first", "pipelined"])
def test_a_request_hides_no_other_one(tmp_path: Path, before: bytes) -> None:
    """The next request gets a response of its own, or none if this one is refused."""
    expected = {name: [status] if status == REFUSED else [status, OK] for name, (_, status) in REQUESTS.items()}

    async def work(server: ApiServer) -> None:
        found = {name: await statuses(server, before + sent + END) for name, (sent, _) in REQUESTS.items()}
        assert {name: each[bool(before) :] or each for name, each in found.items()} == expected

    serve(tmp_path, work)


def test_pieces_of_requests_are_read_like_whole_ones(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        for name, (sent, status) in REQUESTS.items():
            if len(sent) < 1_000:
                found = await statuses(server, sent + END, piece=1)
                assert (name, found) == (name, [status] if status == REFUSED else [status, OK])

    serve(tmp_path, work)


def test_old_clients_get_one_response(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        for more in (b"", b"Host: localhost\r\nConnection: keep-alive\r\n"):
            found = await statuses(server, b"GET /health HTTP/1.0\r\n" + more + b"\r\n" + END)
            assert found == [OK if more else b"403"]  # a server without tokens needs to know the host

    serve(tmp_path, work)


def test_a_client_may_ask_whether_to_send_its_body(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.server.port)
        writer.write(SIZED + b"Expect: 100-continue\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(BODY)
        assert (await reader.readline()).startswith(b"HTTP/1.1 404")
        writer.close()

    serve(tmp_path, work)


def test_a_body_in_many_parts_lets_others_have_their_turns(tmp_path: Path) -> None:
    parts = b"\r\n\r\n" * (250 << 10)  # each could be the end of the body

    async def work(server: ApiServer) -> None:
        turns = 0
        sent = POST + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(parts) + parts + b"\r\n" + LAST + END
        answers = asyncio.ensure_future(statuses(server, sent))
        while not answers.done():
            await turn()
            turns += 1
        assert await answers == [REFUSED, OK]  # of the API: the body is not JSON
        assert turns > len(parts) // CHUNKED_BYTES_PER_TURN

    serve(tmp_path, work)


def test_chunks_after_the_response_are_not_parsed(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.server.port)
        writer.write(CHUNKED.replace(b"/executions", b"/absent") + b"5\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 404")  # the server sends nothing more on this connection
        writer.write(b"no chunk\r\n" * 10_000)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    serve(tmp_path, work)


def test_many_requests_at_once_are_answered_in_order(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        one = [HEAD + b"\r\n", SIZED + b"\r\n" + BODY, CHUNKED + CHUNK + LAST]
        assert await statuses(server, b"".join(one * 200) + END) == [OK, ABSENT, ABSENT] * 200 + [OK]

    serve(tmp_path, work)


def test_unfinished_bodies_do_not_keep_others_out(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        unfinished = [await asyncio.open_connection("127.0.0.1", server.server.port) for _ in range(32)]
        for reader, writer in unfinished:
            writer.write(b"POST /executions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
            assert (await reader.readline()).startswith(b"HTTP/1.1 415")
        assert (await server.api.ask("GET", "/health")).status == 200
        for _, writer in unfinished:
            writer.close()

    serve(tmp_path, work, ServerSettings(open=True, connections=32))


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
