"""Streams resume after a lost connection: every event arrives exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from msgspec.json import encode

from noetl.client import Client, StreamEnd, StreamLine, fact_of
from noetl.client.client import SseMessage, messages
from noetl.engine.state import State
from noetl.errors import Unavailable
from noetl.ports import FeedEvent
from noetl.testing import FakeClock
from noetl.views.envelopes import Envelope, Envelopes
from noetl.views.log import events_of
from tests.api.servers import HELLO, WAITING, opened
from tests.playbooks import HEAD

LOOP = HEAD + (
    'workflow:\n- step: start\n  loop: {in: "{{ range(40) }}", iterator: i}\n'
    '  tool: {kind: noop, input: {n: "{{ iter.i }}"}}\n  set: {ctx.n: 1}\n'
)


class Relay:
    """A proxy that cuts every connection after a number of bytes."""

    def __init__(self, port: int, cut_after: int) -> None:
        self._port = port
        self._cut_after = cut_after
        self.connections = 0
        self.url = ""

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        there, back = await asyncio.open_connection("127.0.0.1", self._port)

        async def ask() -> None:
            with suppress(ConnectionError):
                while chunk := await reader.read(65_536):
                    back.write(chunk)
                    await back.drain()
            back.transport.abort()  # the client has disconnected

        asking = asyncio.ensure_future(ask())
        sent = 0
        with suppress(ConnectionError):
            while sent < self._cut_after and (chunk := await there.read(self._cut_after - sent)):
                writer.write(chunk)
                await writer.drain()
                sent += len(chunk)
        writer.transport.abort()
        await asking


@asynccontextmanager
async def relayed(port: int, cut_after: int) -> AsyncIterator[Relay]:
    relay = Relay(port, cut_after)
    carrying: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        carrying.add(asyncio.ensure_future(relay.carry(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    relay.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield relay
    await asyncio.gather(*carrying)


def test_each_event_is_delivered_once_despite_lost_connections(tmp_path: Path) -> None:
    async def work() -> None:
        async with asyncio.timeout(180), opened(tmp_path) as server:
            id = await server.api.run(LOOP)
            rows = await server.runtime.storage.store.read(id)
            wanted = list(Envelopes(State(execution_id=id)).of(events_of(rows)))
            # All sizes: the cuts are between events, within an event, and between the envelopes of one fact.
            for cut_after in (3_001, 7_777):
                clock = FakeClock(auto_advance=True)
                async with (
                    relayed(server.server.port, cut_after) as relay,
                    Client(relay.url, clock=clock) as client,
                ):
                    got = [each async for each in client.stream(id)]
                assert relay.connections > 3
                assert [encode(each) for each in got[:-1]] == [encode(each) for each in wanted]
                assert isinstance(got[-1], StreamEnd)

    asyncio.run(work())


def test_a_stream_can_begin_after_any_fact(tmp_path: Path) -> None:
    async def work() -> None:
        async with asyncio.timeout(180), opened(tmp_path) as server, Client(server.server.url) as client:
            digest = (await client.register(WAITING)).digest
            id = (await client.start(digest=digest)).execution_id
            seqs = []
            async for each in client.stream(id, 3):
                if isinstance(each, Envelope) and each.part == 0:
                    seqs.append(each.seq)
                    if each.name == "frame.parked":
                        await client.signal(id, "go")
            head = await client.listing.head(id)
            assert seqs == list(range(4, head.seq + 1))

    asyncio.run(work())


def test_facts_are_restored_from_envelopes(tmp_path: Path) -> None:
    async def work() -> None:
        async with asyncio.timeout(180), opened(tmp_path) as server, Client(server.server.url) as client:
            for text in (HELLO, LOOP):
                id = await server.api.run(text)
                streamed = [each async for each in client.stream(id)]
                made = [fact_of(each) for each in streamed if isinstance(each, Envelope)]
                events = events_of(await server.runtime.storage.store.read(id))
                assert [each for each in made if each is not None] == list(events)

    asyncio.run(work())


def test_an_unknown_fact_hints_at_a_newer_server() -> None:
    envelope = Envelope(
        event_id="e/1", execution_id="e", seq=1, timestamp="2024-01-02T03:04:05Z", source="server",
        name="moon.risen", alias="MoonRisen", entity="execution", entity_id="e", status="success", data={},
    )  # fmt: skip
    with pytest.raises(Unavailable, match="is the server newer"):
        fact_of(envelope)


def test_lines_of_a_tool_arrive_while_it_works(tmp_path: Path) -> None:
    async def work() -> None:
        async with asyncio.timeout(180), opened(tmp_path) as server, Client(server.server.url) as client:
            digest = (await client.register(WAITING)).digest
            id = (await client.start(digest=digest)).execution_id
            words = []
            async for each in client.stream(id):
                if isinstance(each, Envelope) and each.name == "frame.parked":
                    line = {"frame": "start#1", "kind": "line", "words": "half of it"}
                    server.feed.publish(FeedEvent(id, line=line))
                elif isinstance(each, StreamLine):
                    words.append((each.frame, each.kind, each.words))
                    await client.signal(id, "go")  # the tool waits for this, so the line arrived before its end
            assert words == [("start#1", "line", "half of it")]

    asyncio.run(work())


@pytest.mark.parametrize("size", [1, 2, 7, 1_000])
def test_a_stream_is_parsed_independently_of_its_chunks(size: int) -> None:
    text = (
        b'retry: 1000\n\n:\n\nid: 1\nevent: event\ndata: {"a":\ndata: 1}\n\n'
        b"event: line\r\ndata:no blank\r\n\r\ndata: bare\n\nevent: end\n\ndata: never finished"
    )

    async def pieces() -> AsyncIterator[bytes]:
        for place in range(0, len(text), size):
            yield text[place : place + size]

    async def work() -> list[SseMessage]:
        return [each async for each in messages(pieces())]

    assert asyncio.run(work()) == [
        SseMessage("", b""),
        SseMessage("event", b'{"a":\n1}'),
        SseMessage("line", b"no blank"),
        SseMessage("message", b"bare"),
        SseMessage("end", b""),
    ]
