"""The connection to NATS and the queue on it, on a real server that is killed, wiped and robbed of its streams."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import nats
import pytest
from nats.aio.msg import Msg
from nats.js.api import RetentionPolicy, StreamConfig

from noetl.adapters.nats.connection import NatsConnection, NatsSettings
from noetl.adapters.nats.queue import STREAM, TIMEOUTS_MAX, NatsQueue
from noetl.errors import Rejected, Unavailable
from noetl.ports import DIRECT, Claim, NoResponder, Pointer
from noetl.testing.contracts.queue import QueueClient, WorkQueueContract
from tests.distributed.half_open import HalfOpenProxy
from tests.ports import free_port
from tests.services_nats import NatsServer, running_nats


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with running_nats(tmp_path_factory.mktemp("nats")) as running:
        yield running


@asynccontextmanager
async def connected(server: NatsServer, count: int = 1) -> AsyncIterator[list[NatsConnection]]:
    """And an end to what takes too long."""
    connections = [NatsConnection(server.url) for _ in range(count)]
    try:
        async with asyncio.timeout(120):
            yield connections
    finally:
        for connection in connections:
            await connection.close()


async def clean(server: NatsServer) -> None:
    """Delete all streams, so that the server is as new."""
    plain = await nats.connect(server.url)
    for name in [info.config.name for info in await plain.jetstream().streams_info()]:
        assert name is not None
        await plain.jetstream().purge_stream(name)  # one that is made again at once may find its old messages
        await plain.jetstream().delete_stream(name)
    await plain.close()


async def put_at_last(queue: NatsQueue, pointers: list[Pointer]) -> None:
    """As the sweeper does: again, until it is taken."""
    while True:
        try:
            await queue.put(pointers)
            return
        except Unavailable:
            await a_moment()


def frames(claims: list[Claim]) -> list[str]:
    return [claim.pointer.frame for claim in claims]


# The queue


def test_a_connection_that_loses_answers_deletes_no_pointers(server: NatsServer) -> None:
    async def go() -> None:
        await clean(server)
        async with connected(server) as [connection]:
            worker = NatsQueue(connection, "default")
            await worker.open()
            proxy = HalfOpenProxy(server.port)
            server_connection = NatsConnection(f"nats://127.0.0.1:{proxy.port}")
            queue = NatsQueue(server_connection, timeout_s=0.2)
            try:
                await queue.put([Pointer("e", "a#1", 1, "default")])
                proxy.cut("from")
                for _ in range(2 * TIMEOUTS_MAX):
                    with pytest.raises(Unavailable):
                        await queue.put([Pointer("e", "b#1", 1, "default")])
                proxy.restore()
                assert frames(await worker.take(1)) == ["a#1"]
            finally:
                await server_connection.close()
                proxy.close()

    asyncio.run(go())


class TestNatsQueue(WorkQueueContract):
    @pytest.fixture(autouse=True)
    def address(self, server: NatsServer) -> None:
        asyncio.run(clean(server))
        self.url = server.url

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Callable[[str], QueueClient]]:
        async with AsyncExitStack() as stack:

            def connect(pool: str) -> QueueClient:
                connection = NatsConnection(self.url)
                stack.push_async_callback(connection.close)
                queue = NatsQueue(connection, pool)
                return QueueClient(queue, queue)

            yield connect


def test_each_pool_gets_its_own_work(server: NatsServer) -> None:
    async def work() -> None:
        await clean(server)
        async with connected(server, 2) as (one, other):
            plain, gpu = NatsQueue(one, "default"), NatsQueue(other, "gpu")
            await plain.put([Pointer("e", "a#1", 1, "gpu"), Pointer("e", "b#1", 2), Pointer("e", "c#1", 3, "gpu")])
            assert [claim.pointer for claim in await plain.take(2)] == [Pointer("e", "b#1", 2)]
            assert frames(await gpu.take(2)) == ["a#1", "c#1"]

    asyncio.run(work())


def test_a_strange_name_of_a_pool_is_refused_and_work_for_it_hinders_nobody_else(server: NatsServer) -> None:
    async def work() -> None:
        await clean(server)
        names = ["", "a.b", ">", "*", "a b", "ü", "x" * 201, "a\r\nPUB x 0\r\n"]
        async with connected(server) as (connection,):
            for name in names:
                with pytest.raises(Rejected):
                    NatsQueue(connection, name)
            queue = NatsQueue(connection, "default")
            await queue.put([*(Pointer("e", "a#1", 1, name) for name in names), Pointer("e", "b#1", 2)])
            assert frames(await queue.take(2)) == ["b#1"]
            assert await held(server) == (1, 1)

    asyncio.run(work())


def test_many_slots_that_wait_make_one_request_and_each_gets_a_pointer_of_its_own(server: NatsServer) -> None:
    async def work() -> None:
        await clean(server)
        async with connected(server, 3) as (one, other, spy):
            asked: list[int] = []
            await spy.subscribe(
                f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.>",
                lambda said: asked.append(json.loads(said.data)["batch"]),
            )
            await spy.flush()
            queue = NatsQueue(one, "default")
            await queue.open()
            slots = [asyncio.ensure_future(queue.take(1)) for _ in range(64)]
            pointers = [Pointer("e", f"a#1[{index}]", index) for index in range(64)]
            await NatsQueue(other).put(pointers)
            claims = [claim for claims in await asyncio.gather(*slots) for claim in claims]
            assert sorted(claim.pointer for claim in claims) == sorted(pointers)
            assert len({claim.delivery for claim in claims}) == 64
            await spy.flush()
            assert asked == [64]

    asyncio.run(work())


def test_a_pointer_of_the_same_process_reaches_a_waiting_slot_without_nats(server: NatsServer) -> None:
    async def work() -> None:
        await clean(server)
        async with connected(server, 2) as (one, other):
            queue = NatsQueue(one, "default")
            pointer = Pointer("e", "a#1", 1)
            assert not queue.give(pointer)  # no slot waits
            waiting = asyncio.create_task(queue.take(1))
            await asyncio.wait([waiting], timeout=0)
            assert not queue.give(pointer._replace(pool="gpu"))
            assert queue.give(pointer)
            assert not queue.give(pointer)
            assert await waiting == [Claim(pointer, DIRECT)]
            await queue.done(Claim(pointer, DIRECT))
            # The request for the slot may still be pending in NATS: nothing that arrives for it is lost.
            await NatsQueue(other).put([Pointer("e", "b#1", 1), Pointer("e", "c#1", 1)])
            assert frames([*await queue.take(1), *await queue.take(1)]) == ["b#1", "c#1"]
            await queue.leave()
            assert not queue.give(pointer)

    asyncio.run(work())


def test_what_was_done_never_comes_again_and_what_was_not_goes_to_another_at_once(server: NatsServer) -> None:
    async def work() -> None:
        await clean(server)
        async with connected(server, 2) as (one, other):
            leaving, staying = NatsQueue(one, "default"), NatsQueue(other, "default")
            await leaving.put([Pointer("e", "a#1", 1), Pointer("e", "b#1", 2), Pointer("e", "c#1", 3)])
            first, second, third = [*await leaving.take(3)]
            await leaving.done(second)
            await leaving.close()
            await leaving.done(third)  # too late, and no harm
            assert sorted(frames(await staying.take(2))) == ["a#1", "c#1"]
            assert first.pointer.frame == "a#1"
            while await held(server) != (2, 2):  # what was done is removed, if not at once
                pass

    asyncio.run(work())


async def held(server: NatsServer) -> tuple[int, int]:
    """Messages in the stream, and those of them that somebody has."""
    plain = await nats.connect(server.url)
    info = await plain.jetstream().stream_info(STREAM)
    consumer = await plain.jetstream().consumer_info(STREAM, "default")
    await plain.close()
    return info.state.messages, consumer.num_ack_pending or 0


def test_what_comes_for_a_slot_that_is_gone_goes_to_another(server: NatsServer) -> None:
    async def work() -> None:
        await clean(server)
        async with connected(server, 2) as (one, other):
            queue, another = NatsQueue(one, "default"), NatsQueue(other, "default")
            await queue.open()
            slot = asyncio.ensure_future(queue.take(1))
            while not await waiting_pulls(server):
                pass
            slot.cancel()
            await asyncio.gather(slot, return_exceptions=True)
            await another.put([Pointer("e", "a#1", 1)])
            assert frames(await another.take(1)) == ["a#1"]

    asyncio.run(work())


async def waiting_pulls(server: NatsServer) -> int:
    plain = await nats.connect(server.url)
    info = await plain.jetstream().consumer_info(STREAM, "default")
    await plain.close()
    return info.num_waiting or 0


def test_slots_that_wait_come_back_empty_when_the_worker_leaves(server: NatsServer) -> None:
    async def work() -> None:
        await clean(server)
        async with connected(server) as (connection,):
            queue = NatsQueue(connection, "default")
            await queue.open()
            slots = [asyncio.ensure_future(queue.take(1)) for _ in range(3)]
            while not await waiting_pulls(server):
                pass
            await queue.leave()
            assert await asyncio.gather(*slots) == [[], [], []]
            with pytest.raises(Unavailable):
                await queue.take(1)

    asyncio.run(work())


def test_the_same_pointer_of_two_owners_is_not_swallowed(server: NatsServer) -> None:
    """Dispatch numbers start again with each owner, and the deduplication window is two minutes."""

    async def work() -> None:
        await clean(server)
        async with connected(server, 2) as (one, other):
            pointer = Pointer("e", "a#1", 1)
            queue = NatsQueue(one, "default")
            await queue.put([pointer])
            assert frames(await queue.take(1)) == ["a#1"]
            for owner in (queue, NatsQueue(other)):
                await owner.put([pointer])
                assert frames(await queue.take(1)) == ["a#1"]

    asyncio.run(work())


def test_what_is_no_pointer_is_passed_over_and_removed(server: NatsServer) -> None:
    async def work() -> None:
        await clean(server)
        async with connected(server) as (connection,):
            queue = NatsQueue(connection, "default")
            await queue.open()
            for body in (b"", b"{", b'["e"]', b"\xff", b'["e", 1, 2]', b"[" * 100_000):
                await connection.publish("noetl.work.default", body)
            await queue.put([Pointer("e", "a#1", 1)])
            assert frames(await queue.take(1)) == ["a#1"]
            await connection.flush()
            while await held(server) != (1, 1):
                pass

    asyncio.run(work())


def test_a_stream_that_was_deleted_is_made_again_under_slots_that_wait(server: NatsServer) -> None:
    async def work() -> None:
        await clean(server)
        async with connected(server, 2) as (one, other):
            queue = NatsQueue(one, "default")
            await queue.put([Pointer("e", "a#1", 1)])
            assert frames(await queue.take(1)) == ["a#1"]
            slot = asyncio.ensure_future(queue.take(1))
            while not await waiting_pulls(server):
                pass
            await clean(server)
            await NatsQueue(other).put([Pointer("e", "b#1", 2)])
            assert frames(await slot) == ["b#1"]

    asyncio.run(work())


def test_a_consumer_that_was_deleted_is_made_again_under_slots_that_wait(server: NatsServer) -> None:
    async def work() -> None:
        await clean(server)
        async with connected(server) as (connection,):
            queue = NatsQueue(connection, "default")
            await queue.open()
            slot = asyncio.ensure_future(queue.take(1))
            while not await waiting_pulls(server):
                pass
            plain = await nats.connect(server.url)
            await plain.jetstream().delete_consumer(STREAM, "default")
            await plain.close()
            await queue.put([Pointer("e", "a#1", 1)])
            assert frames(await slot) == ["a#1"]

    asyncio.run(work())


def test_a_stream_that_takes_pointers_and_never_says_so_is_made_anew(server: NatsServer) -> None:
    async def work() -> None:
        await clean(server)
        plain = await nats.connect(server.url)
        silent = StreamConfig(name=STREAM, subjects=["noetl.work.>"], retention=RetentionPolicy.WORK_QUEUE, no_ack=True)
        await plain.jetstream().add_stream(silent)
        await plain.close()
        async with connected(server) as (connection,):
            queue = NatsQueue(connection, "default", timeout_s=0.1)
            for _ in range(2):
                with pytest.raises(Unavailable, match="no answer"):
                    await queue.put([Pointer("e", "a#1", 1)])
            await put_at_last(queue, [Pointer("e", "b#1", 2)])  # an answer may take longer than its patience
            assert set(frames(await queue.take(2))) == {"b#1"}

    asyncio.run(work())


def test_a_stream_of_someone_else_under_our_name_is_left_alone(server: NatsServer) -> None:
    async def work() -> None:
        await clean(server)
        plain = await nats.connect(server.url)
        await plain.jetstream().add_stream(name=STREAM, subjects=["other.>"])
        try:
            async with connected(server) as (connection,):
                with pytest.raises(Unavailable, match="another program"):
                    await NatsQueue(connection).open()
                with pytest.raises(Unavailable, match="another program"):
                    await NatsQueue(connection).put([Pointer("e", "a#1", 1)])
        finally:
            await plain.jetstream().delete_stream(STREAM)
            await plain.close()

    asyncio.run(work())


def test_slots_go_on_after_the_server_was_killed_and_its_store_wiped(tmp_path: Path) -> None:
    async def work(server: NatsServer) -> None:
        async with connected(server, 2) as (one, other):
            queue, owner = NatsQueue(one, "default"), NatsQueue(other)
            await owner.put([Pointer("e", "a#1", 1)])
            assert frames(await queue.take(1)) == ["a#1"]
            slots = [asyncio.ensure_future(queue.take(1)) for _ in range(2)]
            while not await waiting_pulls(server):
                pass
            server.kill()
            server.wipe()
            with pytest.raises(Unavailable):
                await owner.put([Pointer("e", "lost#1", 2)])
            server.start()
            await put_at_last(owner, [Pointer("e", "b#1", 3), Pointer("e", "c#1", 4)])
            came = [claim for claims in await asyncio.gather(*slots) for claim in claims]
            while len(came) < 2:  # a slot may have come back empty meanwhile
                came += await queue.take(1)
            assert sorted(frames(came)) == ["b#1", "c#1"]

    with running_nats(tmp_path) as server:
        asyncio.run(work(server))


def test_a_server_without_jetstream_says_what_to_switch_on(tmp_path: Path) -> None:
    async def work(server: NatsServer) -> None:
        async with connected(server) as (connection,):
            with pytest.raises(Unavailable, match="JetStream"):
                await NatsQueue(connection, "default").open()

    server = NatsServer(tmp_path)
    server.start(jetstream=False)
    try:
        asyncio.run(work(server))
    finally:
        server.kill()


# The connection


def test_requests_that_are_out_fail_when_the_connection_is_lost_and_later_ones_succeed(
    tmp_path: Path,
) -> None:
    async def work(server: NatsServer) -> None:
        async with connected(server, 2) as (asks, answers):
            heard: asyncio.Queue[Msg] = asyncio.Queue()
            await answers.subscribe("question", heard.put_nowait)
            await answers.flush()
            asking = asyncio.ensure_future(asks.request("question", [b"one"]))
            await heard.get()
            server.kill()
            with pytest.raises(Unavailable, match="lost"):
                await asking
            with pytest.raises(Unavailable):
                await asks.request("question", [b"two"])
            server.start()
            asking = asyncio.ensure_future(asked_at_last(asks))
            while not asking.done():
                waiting = asyncio.ensure_future(heard.get())
                await asyncio.wait([asking, waiting], return_when=asyncio.FIRST_COMPLETED)
                if waiting.done():
                    await answers.publish(waiting.result().reply, b"answer")
                waiting.cancel()
            assert await asking == b"answer"

    with running_nats(tmp_path) as server:
        asyncio.run(work(server))


async def asked_at_last(connection: NatsConnection) -> bytes:
    while True:
        try:
            return await connection.request("question", [b"three"])
        except Unavailable:
            await a_moment()


@pytest.mark.parametrize("killed", [True, False])
def test_it_comes_back_by_itself_after_its_password_was_refused_for_a_while(killed: bool, tmp_path: Path) -> None:
    """Killed: the server refuses the client when it reconnects. Else the server disconnects it, and nats-py stops reconnecting."""

    def change(server: NatsServer, password: str) -> None:
        if killed:
            server.kill()
            server.more = door(password)
            server.start()
        else:
            server.reload(door(password))

    async def work(server: NatsServer) -> None:
        connection = NatsConnection(NatsSettings(server.url, user="u", password="first-password"))
        try:
            async with asyncio.timeout(120):
                heard: asyncio.Queue[Msg] = asyncio.Queue()
                await connection.subscribe("news", heard.put_nowait)
                await connection.flush()
                change(server, "another-password")
                await refused_at_last(connection)
                change(server, "first-password")
                await settled_at_last(connection)
                await connection.publish("news", b"")
                await heard.get()
        finally:
            await connection.close()

    with running_nats(tmp_path, door("first-password")) as server:
        asyncio.run(work(server))


def door(password: str) -> str:
    return f"authorization {{ users: [ {{user: u, password: {json.dumps(password)}}} ] }}"


async def refused_at_last(connection: NatsConnection) -> None:
    while True:
        try:
            await connection.flush()
        except Unavailable as error:
            if "refuses" in str(error):
                return
        await a_moment()


async def settled_at_last(connection: NatsConnection) -> None:
    while True:
        try:
            await connection.flush()
            return
        except Unavailable:
            await a_moment()


async def a_moment() -> None:
    """For others to continue: a look at the disk, on another thread."""
    await asyncio.to_thread(Path().exists)


def test_a_user_a_password_and_a_token_may_stand_in_the_address_with_anything_in_them(tmp_path: Path) -> None:
    async def settled(access: NatsSettings | str) -> None:
        connection = NatsConnection(access)
        try:
            await connection.flush()
        finally:
            await connection.close()

    def refused(access: NatsSettings | str) -> str:
        with pytest.raises(Unavailable) as told:
            asyncio.run(settled(access))
        return str(told.value) + repr(told.value.__cause__) + repr(access if isinstance(access, NatsSettings) else "")

    with running_nats(tmp_path, door("p@ss:/w%rd")) as server:
        host = f"127.0.0.1:{server.port}"
        asyncio.run(settled(f"nats://u:p%40ss%3A%2Fw%25rd@{host}"))
        asyncio.run(settled(NatsSettings(f"nats://{host}", user="u", password="p@ss:/w%rd")))
        for access in (
            f"nats://u:hidden-value@{host}",
            NatsSettings(f"nats://{host}", user="u", password="hidden-value"),
        ):
            words = refused(access)
            assert "refuses the login" in words
            assert "hidden-value" not in words
        server.kill()
        server.more = 'authorization { token: "to@ken" }'
        server.start()
        asyncio.run(settled(f"nats://to%40ken@{host}"))
        asyncio.run(settled(NatsSettings(f"nats://{host}", token="to@ken")))
        assert "refuses" in refused(f"nats://{host}")


def test_a_door_that_is_shut_before_the_reason_was_read_is_a_refusal() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"version": "2.11.0", "max_payload": 1048576, "auth_required": true}\r\n')
        await reader.readuntil(b"\r\n")  # CONNECT
        at_once = struct.pack("ii", 1, 0)  # and without a word: what was sent and not read is gone
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        writer.transport.abort()

    async def work() -> None:
        async with await asyncio.start_server(refuse, "127.0.0.1", 0) as refusing:
            connection = NatsConnection(f"nats://u:hidden-value@127.0.0.1:{refusing.sockets[0].getsockname()[1]}")
            with pytest.raises(Unavailable, match="refuses the login"):
                await connection.flush()
            await connection.close()

    asyncio.run(work())


def test_nothing_is_told_to_a_server_without_tls_when_tls_was_asked_for(server: NatsServer) -> None:
    async def work() -> None:
        connection = NatsConnection(f"tls://u:hidden-value@127.0.0.1:{server.port}")
        with pytest.raises(Unavailable, match="TLS") as told:
            await connection.open()
        assert "hidden-value" not in str(told.value)

    asyncio.run(work())


def test_a_server_that_is_away_is_unavailable_soon_and_without_its_password() -> None:
    async def work() -> None:
        connection = NatsConnection(f"nats://user:hidden-value@127.0.0.1:{free_port()}")
        async with asyncio.timeout(60):
            for _ in range(2):
                with pytest.raises(Unavailable) as told:
                    await connection.flush()
                assert "hidden-value" not in str(told.value)
        await connection.close()

    asyncio.run(work())


def test_what_is_no_address_is_refused_without_repeating_it() -> None:
    for url in (
        "",
        " , ",
        "http://hidden:value@host",
        "nats://hidden:value@host:port",
        "nats://hidden:value@",
    ):
        with pytest.raises(Rejected) as told:
            NatsSettings(url).resolve()
        assert "hidden" not in str(told.value)
    assert NatsSettings("host").resolve().servers == ["nats://host:4222"]
    assert NatsSettings("nats://a:1,tls://[::1]").resolve().servers == ["nats://a:1", "tls://[::1]:4222"]


def test_nobody_to_answer_is_told_at_once_and_silence_when_time_is_up(server: NatsServer) -> None:
    async def work() -> None:
        async with connected(server) as (connection,):
            with pytest.raises(NoResponder):
                await connection.request("nobody.here", [b"?"])
            await connection.subscribe("silence", lambda _: None)
            with pytest.raises(Unavailable, match="within"):
                await connection.request("silence", [b"?"], timeout_s=0.05)

    asyncio.run(work())
