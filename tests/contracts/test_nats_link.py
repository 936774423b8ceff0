"""The server–worker protocol over a real NATS server."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial

import pytest
from nats.aio.msg import Msg

from noetl.adapters.memory import MemoryResults
from noetl.adapters.nats.connection import NatsConnection
from noetl.adapters.nats.queue import NatsQueue
from noetl.clock import SystemClock
from noetl.engine.commands import Start
from noetl.engine.moves import RunTask
from noetl.link.feed import LinkFeed
from noetl.link.workers import LinkWorkerRegistry
from noetl.output import Output
from noetl.ports import Feed, FetchedCredential, Transport, WorkerInfo
from noetl.secret import Secret
from noetl.testing.contracts.link import (
    LOOP,
    ONE,
    FeedContract,
    LinkContract,
    LinkParts,
    RegistryParts,
    TransportContract,
    WorkerRegistryContract,
)
from noetl.testing.contracts.secrets import SecretProviderContract, SecretSetup
from noetl.worker.calls import CallContext
from noetl.worker.worker import Worker, WorkerPorts
from tests.contracts.link_servers import OneSecret, link_of, link_parts, served
from tests.services_nats import NatsServer, running_nats
from tests.unit.link.test_secret_channel import API, MISSING, holding_worker


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with running_nats(tmp_path_factory.mktemp("nats")) as running:
        yield running


class OnNats:
    @pytest.fixture(autouse=True)
    def address(self, server: NatsServer) -> None:
        self.url = server.url

    @asynccontextmanager
    async def connections(self) -> AsyncIterator[Callable[[], NatsConnection]]:
        """Makes connections, which are closed in the end."""
        async with AsyncExitStack() as stack:

            def connect() -> NatsConnection:
                connection = NatsConnection(self.url)
                stack.push_async_callback(connection.close)
                return connection

            yield connect


class TestNatsTransport(OnNats, TransportContract):
    def open(self) -> AbstractAsyncContextManager[Callable[[], Transport]]:
        return self.connections()


class TestNatsLink(OnNats, LinkContract):
    def open(self, playbooks: Mapping[str, str]) -> AbstractAsyncContextManager[LinkParts]:
        return link_parts(partial(NatsConnection, self.url), playbooks)


class TestNatsFeed(OnNats, FeedContract):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[Feed, Feed]]:
        async with self.connections() as connect:
            publisher, subscriber = connect(), connect()
            await publisher.open()
            yield LinkFeed(publisher), LinkFeed(subscriber)


class TestNatsWorkerRegistry(OnNats, WorkerRegistryContract):
    @asynccontextmanager
    async def open(self, clock: SystemClock) -> AsyncIterator[RegistryParts]:
        async with self.connections() as connect:
            worker, server = connect(), connect()
            registry = LinkWorkerRegistry(server, clock)
            await registry.open()
            await server.flush()

            async def announce(info: WorkerInfo) -> None:
                await LinkWorkerRegistry(worker, clock).announce(info)
                await worker.flush()
                await server.flush()

            yield RegistryParts(registry, announce)
            await registry.close()


class TestNatsSecrets(OnNats, SecretProviderContract):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[SecretSetup]:
        provider = OneSecret()

        async def change() -> None:
            provider.value = "another-secret-value"

        async with holding_worker(partial(NatsConnection, self.url), provider) as worker:
            yield SecretSetup(worker.secrets(), API, MISSING, change)


def test_executions_with_loops_and_children_run_over_queue_and_link(server: NatsServer) -> None:
    async def answer(called: RunTask, _context: CallContext) -> Output:
        return Output(data=called.input or called.fields or None)

    async def work() -> None:
        connect, bodies = partial(NatsConnection, server.url), {"loop": LOOP, "one": ONE}
        async with served(connect, bodies, queue=NatsQueue) as (owner, connection, playbooks):
            link, queue = link_of(connection), NatsQueue(connection, "default")
            await queue.open()
            worker = Worker("w", WorkerPorts(link, queue, MemoryResults()), answer, SystemClock())
            slots = [asyncio.ensure_future(worker.serve()) for _ in range(4)]
            ended: asyncio.Queue[str] = asyncio.Queue()
            owner.on_commit.append(lambda live, _: None if live.state.live else ended.put_nowait(live.id))
            ids = [f"e{number}" for number in range(5)]
            for id in ids:
                await link.start(id, playbooks.digests["loop"], Start())
            over: set[str] = set()
            while not over.issuperset(ids):
                over.add(await ended.get())
            for id in ids:
                rows = await owner.control.store.read(id)
                assert rows[-1].facts[-1].status == "ok"  # type: ignore[union-attr]  # the last one has it
            worker.stop_claiming()
            await queue.close()
            for slot in slots:
                slot.cancel()
            await asyncio.gather(*slots, return_exceptions=True)

    asyncio.run(work())


def test_a_process_that_reads_all_messages_cannot_read_a_secret(server: NatsServer) -> None:
    value = "pässword-" + os.urandom(20).hex()

    async def work() -> None:
        spy = NatsConnection(server.url)
        seen: list[bytes] = []

        def receive(message: Msg) -> None:
            seen.append(message.data + str(message.headers).encode())

        await spy.subscribe(">", receive)
        await spy.flush()
        provider = OneSecret(value)
        try:
            async with holding_worker(partial(NatsConnection, server.url), provider) as worker:
                fetched = await worker.secrets().fetch(API, fresh=True)
                assert fetched == FetchedCredential({"": Secret(value)}, fetched.version, 60.0)
                assert provider.requests == [("api", True)]
                await spy.flush()
        finally:
            await spy.close()
        wire = b"\n".join(seen)
        assert b"secretof" in wire  # it did listen
        raw = value.encode()
        spelled = [raw, raw.hex().encode(), *(base64.b64encode(b"x" * pad + raw)[4:-4] for pad in range(3))]
        assert [each for each in spelled if each in wire] == []

    asyncio.run(work())
