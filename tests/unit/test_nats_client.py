"""What the client of NATS sends, and in which order."""

from __future__ import annotations

import asyncio

import pytest

from noetl.adapters.nats.client import DirectClient
from noetl.nats_client import StrictNatsClient

INFO = b'INFO {"server_id":"s","version":"2.10.0","max_payload":1048576,"proto":1,"headers":true}\r\n'


@pytest.mark.parametrize("kind", [StrictNatsClient, DirectClient])
def test_flush_waits_for_the_messages_before_it(kind: type[StrictNatsClient]) -> None:
    """A server answers pings in order, so the ping must follow the messages that it stands for."""
    received: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(INFO)
        while line := await reader.readline():
            received.append(line.strip())
            if line.strip() == b"PING":
                writer.write(b"PONG\r\n")
        writer.close()

    async def work() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        client = kind(secure=False)
        await client.connect(f"nats://127.0.0.1:{port}", allow_reconnect=False)
        del received[:]
        for number in range(3):
            await client.publish(f"a.{number}", b"x")
            await client.flush(10)
        await client.close()
        server.close()

    asyncio.run(work())
    commands = [line.split()[0] for line in received if line != b"x"]
    assert commands == [b"PUB", b"PING"] * 3
