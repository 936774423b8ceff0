"""The link between workers and owners: ownership, sizes, other versions and hostile messages."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from noetl.adapters.memory import MemoryBus, MemoryStore, MemoryTransport
from noetl.clock import SystemClock
from noetl.control.executions import Control
from noetl.control.playbooks import CompiledPlaybooks
from noetl.engine.commands import Cancel, Report, Start
from noetl.errors import Damaged, NotFound, Rejected, Unavailable
from noetl.ids import partition_of
from noetl.link.client import LinkClient, LinkPlaybooks, LinkRequests
from noetl.link.messages import (
    BODY_BYTES_MAX,
    DECODERS,
    PARTITIONS,
    BeginRequest,
    PartialBodies,
    PartialBody,
    decode_reply,
    encode_reply,
    encode_request,
    pack,
    unpack,
)
from noetl.output import Output
from noetl.ports import Epoch, Message, ReportAnswer
from noetl.slices import turn
from noetl.testing.contracts.link import ONE, task_done
from tests.contracts.link_servers import LinkedServer, Playbooks, Programs, link_of, served
from tests.playbooks import kinds


def connector() -> Callable[[], MemoryTransport]:
    """Each call of the result connects to the same new broker."""
    return partial(MemoryTransport, MemoryBus())


def test_a_worker_without_the_tool_of_a_playbook_leaves_it_to_others() -> None:
    async def work() -> None:
        async with served(connector(), {"one": ONE}) as (_, connection, playbooks):
            few = {name: kind for name, kind in kinds().items() if name != "http"}
            link = LinkClient(connection, CompiledPlaybooks(LinkPlaybooks(connection), few))
            await link.start("e", playbooks.digests["one"], Start())
            with pytest.raises(Unavailable, match="cannot run here"):
                await link.begin("e", "start#1", "w")

    asyncio.run(work())


def test_requests_wait_until_their_partition_has_an_owner() -> None:
    async def work() -> None:
        store, playbooks = MemoryStore(SystemClock(), PARTITIONS), Playbooks({"one": ONE})
        connect = connector()
        first, second = (LinkedServer(connect(), store, playbooks, name=name) for name in ("s1", "s2"))
        connection = connect()
        link = LinkClient(connection, Programs(playbooks), owner_wait_s=60.0)
        try:
            async with asyncio.timeout(120):
                started = asyncio.ensure_future(link.start("e", playbooks.digests["one"], Start()))
                await turns()
                assert not started.done()
                await first.keep()
                await started
                grant = await link.begin("e", "start#1", "w")
                assert grant is not None
                await first.server.release(())
                await first.owners.leave()
                facts = (task_done("start#1", Output(data=1)),)
                report = Report(frame="start#1", position=0, facts=facts, epoch=grant.epoch)
                reports = [asyncio.ensure_future(link.report("e", report)) for _ in range(2)]
                await turns()
                assert not any(each.done() for each in reports)
                await second.keep()
                words = [answer.why for answer in await asyncio.gather(*reports)]
                assert words == ["over", "execution-over"]
        finally:
            for each in (first, second):
                await each.close()
            await connection.close()

    asyncio.run(work())


async def turns() -> None:
    """Some turns of the event loop, in which requests are sent and answered."""
    for _ in range(20):
        await turn()


def test_without_an_owner_it_is_unavailable_at_once_and_with_another_one_it_goes_on() -> None:
    async def work() -> None:
        store, playbooks = MemoryStore(SystemClock(), PARTITIONS), Playbooks({"one": ONE})
        connect = connector()
        first, second = (LinkedServer(connect(), store, playbooks, name=name) for name in ("s1", "s2"))
        connection = connect()
        link = LinkClient(connection, Programs(playbooks), owner_wait_s=0.0)
        try:
            async with asyncio.timeout(120):
                with pytest.raises(Unavailable, match="no server owns partition"):
                    await link.begin("e", "start#1", "w")
                with pytest.raises(Unavailable, match="no server is running"):
                    await link.iterations("e", "start#1")
                with pytest.raises(Unavailable, match="no server owns partition"):
                    await link.beat("w", [("e", "start#1", (1, 1)), ("f", "start#1", (1, 1))])
                await first.keep()
                await link.start("e", playbooks.digests["one"], Start())
                grant = await link.begin("e", "start#1", "w")
                assert grant is not None
                await first.owners.leave()
                with pytest.raises(Unavailable, match="does not own partition"):
                    await link.begin("e", "start#1", "w")
                await first.server.follow(set())
                await second.keep()
                report = Report(
                    frame="start#1",
                    position=0,
                    facts=(task_done("start#1", Output(data=1)),),
                    epoch=grant.epoch,
                )
                assert await link.report("e", report) == ReportAnswer("stop", "over")
                assert second.control.executions["e"].state.status == "ok"
        finally:
            for each in (first, second):
                await each.close()
            await connection.close()

    asyncio.run(work())


def test_servers_share_the_partitions_and_a_beat_reaches_all_of_them() -> None:
    async def work() -> None:
        store, playbooks = MemoryStore(SystemClock(), PARTITIONS), Playbooks({"one": ONE})
        connect = connector()
        servers = [LinkedServer(connect(), store, playbooks, name=name) for name in ("s1", "s2")]
        connection = connect()
        link = LinkClient(connection, Programs(playbooks))
        try:
            async with asyncio.timeout(120):
                for each in (*servers, *servers):  # who is there is known after one round
                    await each.keep()
                assert [len(each.owners.owned) for each in servers] == [32, 32]
                holds = []
                for id in map(str, range(16)):
                    await link.start(id, playbooks.digests["one"], Start())
                    grant = await link.begin(id, "start#1", "w")
                    assert grant is not None
                    holds.append((id, "start#1", grant.epoch))
                    await link.command(id, Cancel())
                assert all(each.control.executions for each in servers)
                expected = [stop for each in servers for stop in await each.control.beat("w", holds)]
                assert sorted(await link.beat("w", holds)) == sorted(expected)
                await servers[1].server.follow(())
                heard = await link.beat("w", holds)
                assert sorted(heard) == sorted(await servers[0].control.beat("w", holds))
        finally:
            for each in servers:
                await each.close()
            await connection.close()

    asyncio.run(work())


# Sizes


def test_what_is_too_large_for_the_link_is_refused_in_words() -> None:
    async def work() -> None:
        async with served(connector(), {"one": ONE}) as (_, connection, playbooks):
            link = link_of(connection)
            with pytest.raises(Rejected, match="payload-too-large") as told:
                await link.start("e", playbooks.digests["one"], Start(workload={"text": "a" * (BODY_BYTES_MAX + 1)}))
            assert told.value.code == "payload-too-large"
            with pytest.raises(NotFound):
                await link.command("e", Cancel())

    asyncio.run(work())


def test_parts_are_put_together_in_any_order_and_not_when_one_is_missing() -> None:
    async def work() -> None:
        body = os.urandom(300_000)
        messages = await pack(body, 65_536)
        assert len(messages) > 4
        parcel = PartialBody()
        for message in reversed(messages[1:]):
            assert parcel.add(message) is None
        assert parcel.add(messages[1]) is None  # twice is once
        whole = parcel.add(messages[0])
        assert whole is not None
        assert await unpack(whole) == body
        with pytest.raises(Unavailable):
            await unpack(whole[:-5])
        with pytest.raises(Unavailable):
            await unpack(b"z" + os.urandom(100))

    asyncio.run(work())


def test_parts_whose_rest_never_comes_are_given_up_for_newer_ones() -> None:
    async def work() -> None:
        messages = await pack(os.urandom(300_000), 65_536)
        parcels = PartialBodies()
        for sender in range(2_000):
            assert parcels.add(str(sender), messages[0]) is None
        for message in messages[1:-1]:
            assert parcels.add("1999", message) is None
        assert parcels.add("1999", messages[-1]) is not None
        for message in messages[1:]:
            assert parcels.add("0", message) is None
        for broken in (b"p", b"p\x00\x01\x00\x01x", b"p\x00\x09\x00\x01x"):
            with pytest.raises(Unavailable):
                parcels.add("2", broken)

    asyncio.run(work())


# Strangers, and other versions


def test_what_a_server_does_not_understand_is_refused_in_words_and_it_goes_on() -> None:
    async def work() -> None:
        async with served(connector(), {"one": ONE}) as (_, connection, playbooks):
            number = partition_of("e", PARTITIONS)
            good = json.loads(encode_request(BeginRequest("e", "start#1", "w")))
            strange: list[tuple[bytes, str]] = [
                (b"", "cannot read"),
                (b"\xff\x00", "cannot read"),
                (b"[" * 200_000, "cannot read"),
                (b"z" + b"x" * 99, "cannot be decompressed"),
                (b"p\x00", "empty part"),
                (json.dumps({**good, "v": 99}).encode(), "version 99"),
                (json.dumps({**good, "ask": "dance"}).encode(), '"dance"'),
                (json.dumps({**good, "body": {"execution_id": 1}}).encode(), "cannot read"),
                (encode_request(BeginRequest("another", "start#1", "w")), "not for"),
            ]
            for body, words in strange:
                with pytest.raises((Unavailable, Rejected), match=words):
                    decode_reply(await connection.request(f"noetl.ask.{number}", [body]), DECODERS.grant)
            more = {**good, "later": 1, "body": {**good["body"], "later": 2}}
            answer = await connection.request(f"noetl.ask.{number}", [json.dumps(more).encode()])
            assert decode_reply(answer, DECODERS.grant) is None  # unknown fields are passed over
            link = link_of(connection)
            await link.start("e", playbooks.digests["one"], Start())

    asyncio.run(work())


def test_answers_of_another_version_and_no_answers_at_all_are_unavailable() -> None:
    async def work() -> None:
        connection = connector()()
        bodies = [
            b"",
            b"{}",
            b"[]",
            b"\xff",
            encode_reply(None).replace(b'"v":1', b'"v":99'),
            encode_reply({"digest": 1}),
        ]

        def hear(message: Message) -> None:
            said.append(asyncio.ensure_future(connection.publish(message.reply, bodies.pop())))

        said: list[asyncio.Future[None]] = []
        await connection.subscribe("noetl.ask.*", hear)
        try:
            while bodies:
                with pytest.raises(Unavailable):
                    await LinkRequests(connection).owner("e", BeginRequest("e", "start#1", "w"), DECODERS.grant)
        finally:
            await connection.close()

    asyncio.run(work())


class Falling(Control):
    """With a bug."""

    async def beat(self, worker: str, holds: Sequence[tuple[str, str, Epoch]]) -> list[tuple[str, str]]:
        raise ZeroDivisionError(worker, holds)


def test_a_server_that_falls_over_a_request_says_so_and_answers_the_next_one() -> None:
    async def work() -> None:
        store, playbooks = MemoryStore(SystemClock(), PARTITIONS), Playbooks({"one": ONE})
        connect = connector()
        server, connection = LinkedServer(connect(), store, playbooks, control=Falling), connect()
        loud: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: loud.append(context["exception"]))
        try:
            async with asyncio.timeout(120):
                await server.keep()
                link = LinkClient(connection, server.programs)
                with pytest.raises(Unavailable, match="ZeroDivisionError"):
                    await link.beat("w", [("e", "start#1", (1, 1))])
                assert [type(each) for each in loud] == [ZeroDivisionError]
                assert await link.begin("e", "start#1", "w") is None
        finally:
            await server.close()
            await connection.close()

    asyncio.run(work())


def test_a_text_is_had_from_any_server_and_not_when_it_is_another() -> None:
    async def work() -> None:
        async with served(connector(), {"one": ONE}) as (_, connection, playbooks):
            digest = playbooks.digests["one"]
            texts = LinkPlaybooks(connection)
            assert await texts.get(digest) == playbooks.texts[digest]
            with pytest.raises(NotFound):
                await texts.get("no-such-digest")
            playbooks.texts[digest] = playbooks.texts[digest]._replace(text="steal: everything")
            with pytest.raises(Damaged):
                await texts.get(digest)

    asyncio.run(work())
