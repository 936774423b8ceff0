"""Hostile HTTP responses: a table of different cases, and a server that answers with one of them by its path."""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import product
from typing import NamedTuple

OK = b"HTTP/1.1 200 OK\r\n"
MB = 1024 * 1024


class Case(NamedTuple):
    name: str
    answer: bytes
    stall: bool = False  # keep the connection open after the answer, until the client closes it
    endless: bytes = b""  # repeat this after the answer, until the client closes the connection
    drip: bool = False  # send single bytes, with pauses
    reset: bool = False  # end the connection with RST


def framed(body: bytes, *headers: bytes, status: bytes = OK) -> bytes:
    lines = b"".join(header + b"\r\n" for header in (*headers, b"Content-Length: %d" % len(body)))
    return status + lines + b"\r\n" + body


def chunked(*chunks: bytes, head: bytes = b"", end: bytes = b"0\r\n\r\n") -> bytes:
    body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    return OK + head + b"Transfer-Encoding: chunked\r\n\r\n" + body + end


ENCODINGS = {
    "identity": lambda body: body,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "raw deflate": lambda body: zlib.compress(body)[2:-4],
    "gzip, cut": lambda body: gzip.compress(body)[:-9],
    "gzip, damaged": lambda body: gzip.compress(body)[:12] + b"\xff" * 20,
    "gzip that is none": lambda body: body,
    "gzip twice": lambda body: gzip.compress(gzip.compress(body)),
    "br": lambda body: body,
    "nonsense": lambda body: body,
}
BODIES = {
    "nothing": b"",
    "zeros": bytes(20 * MB),
    "a list of lists": b"[" + b"[]," * 2_000_000 + b"[]]",
    "deep lists": b"[" * 100_000 + b"]" * 100_000,
}
TYPES = (
    "application/json", "text/plain; charset=utf-7", "text/html; charset=idna", "text/plain; charset=zlib",
    "application/json; charset=utf-16", "text/plain; charset=" + "x" * 5_000, "; ; ;", "application/problem+json; a=\"",
    "multipart/mixed; boundary=", "text/event-stream",
)  # fmt: skip
JSON = {
    "deep mappings": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "a long number": b"1" * 1_000_000,
    "a large exponent": b"[1e400, -1e999999999]",
    "NaN": b"[NaN, Infinity]",
    "the same key": b"{" + b",".join(b'"a":1' for _ in range(100_000)) + b"}",
    "many keys": b"{" + b",".join(b'"k%d":1' % n for n in range(200_000)) + b"}",
    "a lone surrogate": b'"\\ud800"',
    "invalid UTF-8": b'"\xff\xfe\xfd"',
    "NUL": b'"a\\u0000b"',
    "a BOM": b"\xef\xbb\xbf[1]",
    "two values": b"[1][2]",
    "an open text": b'"' + b"a" * MB,
    "a Ref": b'{"ref":"noetl://execution/x","kind":"result","store":"files","meta":{}}',
    "templates": b'{"a":"{{ 1 / 0 }}","b":"{% raw %}"}',
    "bidi": '"\u202e\u2066\u200f"'.encode() * 1,
    "escapes": b'"' + b"\\u0041" * 100_000 + b'"',
}
STATUS_LINES = (
    b"", b"\r\n\r\n", b"\0" * 4_096, b"HTTP/0.9 200 OK\r\n\r\n", b"HTTP/1.1 200\r\n\r\n", b"HTTP/1.1 2OO OK\r\n\r\n",
    b"HTTP/1.1 99999 OK\r\n\r\n", b"HTTP/1.1 -1 OK\r\n\r\n", b"HTTP/1.1 000 OK\r\n\r\n", b"HTTP/9.9 200 OK\r\n\r\n",
    b"HTTP/1.1 200 " + b"x" * MB + b"\r\n\r\n", b"http/1.1 200 ok\r\n\r\n", b"SSH-2.0-OpenSSH_9.9\r\n",
    b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", b"HTTP/1.1 304 Not Modified\r\n\r\nhello",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nhello",
    b"HTTP/1.1 100 Continue\r\n\r\n" * 50_000, b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" * 10_000 + framed(b"1"),
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00", framed(b"1", status=b"HTTP/1.1 599 x\r\n"),
)  # fmt: skip
HEADERS = (
    b"X: " + b"a" * MB, b"\r\n".join(b"X-%d: y" % n for n in range(50_000)), b"X: a\0b", b"X: \xff\xfe", b"No colon",
    b": no name", b" folded: 1", b"X: 1\r\n continued", b"X : space", b"X: 1\rY: 2", b"X: 1\nY: 2", b"X\xe9: 1",
    b"\r\n".join(b"Set-Cookie: c%d=%s; Path=/" % (n, b"v" * 100) for n in range(2_000)),
    b"Set-Cookie: " + b"a=" + b"b" * 500_000, b"Set-Cookie: a=b; Expires=Thu, 99 Foo 99999 25:61:61 GMT; Max-Age=1e9",
    b"Set-Cookie: \"; Domain=.com; =; ;;", b"Retry-After: 1e999", b"Retry-After: -5", b"Date: " + b"9" * 10_000,
    b"X-Request-Id: " + b"\x1b[31m" * 1_000, b"Connection: " + b"close, " * 5_000, b"Content-Encoding: " + b"gzip, " * 500,
    b"Content-Type: a\r\nContent-Type: b", b"WWW-Authenticate: Digest " + b"a=\"" * 1_000, b"Link: <x>; rel=\"next\"" * 9_000,
)  # fmt: skip
FRAMINGS = (
    b"Content-Length: -1\r\n\r\nx", b"Content-Length: 99999999999999999999\r\n\r\nx", b"Content-Length: abc\r\n\r\nx",
    b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxy", b"Content-Length: 100\r\n\r\nx", b"Content-Length: 1\r\n\r\nxyz",
    b"Content-Length: +1\r\n\r\nx", b"Content-Length: 1_0\r\n\r\n0123456789", b"Content-Length: 0x1\r\n\r\nx",
    b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", b"Transfer-Encoding: identity\r\n\r\nx",
    b"Transfer-Encoding: chunked, chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", b"Transfer-Encoding: gzip\r\n\r\nx",
    b"Transfer-Encoding: \x0bchunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", b"\r\nx",
)  # fmt: skip
CHUNKS = (
    b"-1\r\nx\r\n", b"zz\r\nx\r\n", b"ffffffffffffffff\r\nx", b"1" * 100_000, b"1\nx\n0\n\n", b"0x1\r\nx\r\n0\r\n\r\n",
    b"1;" + b"a=b;" * 100_000 + b"\r\nx\r\n0\r\n\r\n", b"1;a=\"\0\"\r\nx\r\n0\r\n\r\n", b"1\r\nxyz\r\n0\r\n\r\n", b"1\r\nx\r\n",
    b"1\r\nx\r\n0\r\n" + b"T: 1\r\n" * 50_000 + b"\r\n", b"1\r\nx\r\n0\r\nContent-Length: 9\r\n\r\n", b"1 \r\nx\r\n0\r\n\r\n",
    b"1\r\nx\r\n" * 50_000 + b"0\r\n\r\n", b"\r\n\r\n",
)  # fmt: skip
LOCATIONS = (
    b"", b"/", b"//", b"///", b"http://", b"http://[", b"http://127.0.0.1:99999/", b"http://127.0.0.1:1/", b"file:///etc/passwd",
    b"ftp://127.0.0.1/", b"gopher://127.0.0.1/", b"data:text/plain,x", b"javascript:1", b"http://169.254.169.254/latest",
    b"http://metadata.google.internal./", b"http://user:password@127.0.0.1:1/", b"http://0/", b"http://[::1]:1/",
    b"http://\xff\xfe/", b"/" + b"a" * 100_000, b"?x=" + b"%00" * 1_000, b"http://a\r\n b/", b"\\\\127.0.0.1\\x", b"http:///x",
)  # fmt: skip


def cases() -> list[Case]:
    return [*_bodies(), *_lines(), *_redirects(), *_connections()]


def _bodies() -> Iterator[Case]:
    for (encoding, encode), (name, body) in product(ENCODINGS.items(), BODIES.items()):
        label = (
            b"Content-Encoding: " + encoding.split(",")[0].removeprefix("raw ").removesuffix(" that is none").encode()
        )
        yield Case(f"{name} in {encoding}", framed(encode(body), b"Content-Type: application/json", label))
    for kind, (name, body) in product(TYPES, {"text": b"[1]", "bytes": bytes(range(256)) * 40}.items()):
        yield Case(f"{name} as {kind[:40]}", framed(body, b"Content-Type: " + kind.encode()))
    for name, body in JSON.items():
        yield Case(f"JSON: {name}", framed(body, b"Content-Type: application/json"))
        yield Case(
            f"JSON in chunks: {name}", chunked(body[:7], body[7:] or b" ", head=b"Content-Type: application/json\r\n")
        )


def _lines() -> Iterator[Case]:
    for number, line in enumerate(STATUS_LINES):
        yield Case(f"status line {number}", line)
    for number, header in enumerate(HEADERS):
        yield Case(f"header {number}", framed(b"[1]", header))
    for number, framing in enumerate(FRAMINGS):
        yield Case(f"framing {number}", OK + framing)
    for number, chunks in enumerate(CHUNKS):
        yield Case(f"chunks {number}", OK + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)


def _redirects() -> Iterator[Case]:
    for number, location in enumerate(LOCATIONS):
        status = (b"301", b"302", b"303", b"307", b"308", b"300")[number % 6]
        yield Case(
            f"redirect {number}", framed(b"", b"Location: " + location, status=b"HTTP/1.1 " + status + b" x\r\n")
        )
    yield Case("a redirect without a target", framed(b"", status=b"HTTP/1.1 302 x\r\n"))
    yield Case("two targets", framed(b"", b"Location: /a", b"Location: /b", status=b"HTTP/1.1 302 x\r\n"))


def _connections() -> Iterator[Case]:
    head = OK + b"Content-Type: application/json\r\n"
    for name, answer in {
        "before the answer": b"", "in the status line": b"HTTP/1.1 2", "in a header": OK + b"Content-Le",
        "in the body": framed(b"[1, 2]")[:-3], "in a chunk": OK + b"Transfer-Encoding: chunked\r\n\r\n9\r\n[1",
    }.items():  # fmt: skip
        yield Case(f"it stalls {name}", answer, stall=True)
        yield Case(f"it is slow {name}", answer or b"\r\n", drip=True)
        yield Case(f"it is reset {name}", answer, reset=True)
        yield Case(f"it ends {name}", answer)
    yield Case("endless spaces before JSON", head + b"\r\n", endless=b" " * 65_536)
    yield Case("endless text", head + b'\r\n"', endless=b"a" * 65_536)
    yield Case("endless headers", OK, endless=b"X: y\r\n" * 1_000)
    yield Case("an endless header", OK + b"X: ", endless=b"y" * 65_536)
    yield Case("endless chunks", head + b"Transfer-Encoding: chunked\r\n\r\n", endless=b"1\r\nx\r\n" * 1_000)
    yield Case("an endless chunk extension", head + b"Transfer-Encoding: chunked\r\n\r\n1;", endless=b"a" * 65_536)
    yield Case("endless trailers", chunked(b"1", end=b"0\r\n"), endless=b"T: 1\r\n" * 1_000)
    yield Case("endless interim answers", b"", endless=b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000)
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = packer.compress(bytes(64 * MB)) + packer.flush(zlib.Z_FULL_FLUSH)
    repeated = packer.compress(bytes(16 * MB)) + packer.flush(zlib.Z_FULL_FLUSH)
    yield Case("an endless gzip bomb", head + b"Content-Encoding: gzip\r\n\r\n" + bomb, endless=repeated)


class HostileServer(NamedTuple):
    port: int  # on all addresses of the machine
    served: set[str]  # the names of the cases that a client has requested


@asynccontextmanager
async def hostile_server(table: list[Case]) -> AsyncIterator[HostileServer]:
    served: set[str] = set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = await reader.readuntil(b"\r\n\r\n")
            number = head.split(b" ", 2)[1].strip(b"/")
            if number.isdigit() and int(number) < len(table):
                served.add(table[int(number)].name)
                await _answer(table[int(number)], reader, writer)
            else:  # the target of a redirect
                writer.write(framed(b"[1]"))
                await writer.drain()
        writer.close()

    listening = await asyncio.start_server(talk, "0.0.0.0", 0)
    async with listening:
        yield HostileServer(listening.sockets[0].getsockname()[1], served)


async def main() -> None:
    """A process of its own: prints its port, and at the end of standard input the cases that clients have requested."""
    async with hostile_server(cases()) as server:
        print(server.port, flush=True)
        await asyncio.to_thread(sys.stdin.read)
        print(json.dumps(sorted(server.served)), flush=True)


async def _answer(case: Case, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    closed = asyncio.ensure_future(reader.read())
    try:
        if case.drip:
            while not (
                closed.done() or writer.transport.is_closing()
            ):  # a byte, and then nothing until the client gives up or some time has passed
                for place in range(len(case.answer)):
                    writer.write(case.answer[place : place + 1])
                    await asyncio.wait((closed,), timeout=0.05)
                await asyncio.wait((closed,), timeout=0.05)
            return
        writer.write(case.answer)
        await writer.drain()
        while case.endless and not closed.done() and not writer.transport.is_closing():
            writer.write(case.endless)
            await writer.drain()
        if case.stall:
            await closed
        if case.reset:
            writer.transport.abort()
    finally:
        closed.cancel()


if __name__ == "__main__":
    asyncio.run(main())
