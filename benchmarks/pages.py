"""The local server of W4: endpoints of 20 pages with 100 JSON records each, with a delay of 1 ms per answer.

W6 asks for a small answer after a longer delay: `?ms=50`. Others ask for a large answer: `?mb=25`.

As a program, it prints its address and serves until it is killed.
"""

from __future__ import annotations

import asyncio
import json

PAGES = 20
RECORDS = [{"id": number, "name": f"record {number}", "value": number * 1.5} for number in range(100)]
BODIES = {more: json.dumps({"records": RECORDS, "more": more}).encode() for more in (True, False)}
HEADS = {
    more: f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    for more, body in BODIES.items()
}


SMALL = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 8\r\n\r\n{"n": 1}'


def large(megabytes: int) -> bytes:
    """An answer of about so many megabytes of records."""
    record = json.dumps(RECORDS)[1:-1].encode()
    body = b"[" + b", ".join([record] * (megabytes * 1_000_000 // len(record))) + b"]"
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def _number(line: bytes, name: bytes) -> int:
    return int(line.split(name)[1].split(b" ")[0].split(b"&")[0])


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    loop = asyncio.get_running_loop()
    while (line := await reader.readline()) not in (b"", b"\r\n"):
        while await reader.readline() not in (b"", b"\r\n"):
            pass
        late: asyncio.Future[None] = loop.create_future()
        if b"ms=" in line:
            loop.call_later(_number(line, b"ms=") / 1_000, late.set_result, None)
            await late
            writer.write(SMALL)
        elif b"mb=" in line:
            writer.write(large(_number(line, b"mb=")))
        else:
            loop.call_later(0.001, late.set_result, None)
            await late
            more = _number(line, b"page=") < PAGES - 1
            writer.write(HEADS[more] + BODIES[more])
        await writer.drain()
    writer.close()


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    print(f"http://{host}:{port}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
