"""News and workers over a real NATS: told once in a while, in order, and forgotten in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime

import pytest
from nats.aio.msg import Msg

from noetl.adapters.nats.connection import Connection, Hear, Listening
from noetl.adapters.nats.feed import LINES_MAX, NEWS, UNREAD_MAX, WORDS, NatsFeed
from noetl.adapters.nats.registry import FORGOTTEN_S, NatsWorkerRegistry, RollCall
from noetl.ids import partition_of
from noetl.ports import Feed, FeedEvent, WorkerInfo, WorkerRegistry
from noetl.testing import FakeClock
from tests.services_nats import NatsServer, running_nats

NEAR = "n73"  # in the partition of "e"
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with running_nats(tmp_path_factory.mktemp("nats")) as running:
        yield running


@asynccontextmanager
async def connected(server: NatsServer) -> AsyncIterator[tuple[Connection, Connection]]:
    one, other = Connection(server.url), Connection(server.url)
    try:
        async with asyncio.timeout(120):
            await one.open()
            await other.open()
            yield one, other
    finally:
        await one.close()
        await other.close()


def line(number: int) -> dict[str, str]:
    return {"frame": "a#1", "kind": "line", "words": f"line {number}"}


async def until(news: AsyncIterator[FeedEvent], seq: int) -> list[FeedEvent]:
    """What is heard up to the one that tells of this seq."""
    heard: list[FeedEvent] = []
    async for each in news:
        heard.append(each)
        if each.seq == seq:
            break
    return heard


def test_what_comes_thick_and_fast_is_told_once_and_lines_stay_in_order(server: NatsServer) -> None:
    async def work() -> None:
        async with connected(server) as (here, there):
            messages: list[Msg] = []
            for subject in (NEWS, WORDS):
                await there.subscribe(f"{subject}.*", messages.append)
            tells = NatsFeed(here)
            async with NatsFeed(there).listen("e") as news:
                for number in range(1, 101):
                    tells.tell(FeedEvent("e", number))
                    tells.tell(FeedEvent("e", line=line(number)))
                tells.tell(FeedEvent("e", 50))
                tells.tell(FeedEvent(NEAR, 1_000))
                assert await until(news, 100) == [
                    *(FeedEvent("e", line=line(n)) for n in range(1, 101)),
                    FeedEvent("e", 100),
                ]
            await tells.close()
            await here.settle()
            await there.settle()
            # What tools said goes to those who follow them, how far logs reach to all who wait near them.
            assert [each.subject for each in messages] == [f"{WORDS}.e", f"{NEWS}.{partition_of('e', 64)}"]

    asyncio.run(work())


def test_whoever_listens_to_all_hears_of_all_and_strange_ids_are_no_subjects(server: NatsServer) -> None:
    async def work() -> None:
        ids = ["e", "0199b3c2-0000-7000-8000-000000000000", "a.b", ">", "*", "", "ü x\r\n", "x" * 500]
        async with connected(server) as (here, there):
            tells = NatsFeed(here)
            async with NatsFeed(there).listen() as all_news, NatsFeed(there).listen("a.b") as one:
                for seq, id in enumerate(ids, 1):
                    tells.tell(FeedEvent(id, seq))
                await tells.close()
                heard = {await anext(all_news) for _ in ids}
                assert heard == {FeedEvent(id, seq) for seq, id in enumerate(ids, 1)}
                assert await anext(one) == FeedEvent("a.b", 3)

    asyncio.run(work())


def test_too_many_lines_lose_the_oldest_and_too_large_ones_are_dropped(server: NatsServer) -> None:
    async def work() -> None:
        async with connected(server) as (here, there):
            tells: Feed = NatsFeed(here)
            async with NatsFeed(there).listen("e") as news:
                for number in range(LINES_MAX + 5):
                    tells.tell(FeedEvent("e", line=line(number)))
                tells.tell(FeedEvent("e", 1))
                heard = await until(news, 1)
                assert [each.line for each in heard[:-1]] == [
                    line(number) for number in range(5, LINES_MAX + 5)
                ]
                tells.tell(FeedEvent("e", 2, line={**line(1), "words": "x" * 2_000_000}))
                tells.tell(FeedEvent("e", line=line(2)))
                assert await until(news, 2) == [FeedEvent("e", line=line(2)), FeedEvent("e", 2)]

    asyncio.run(work())


def test_whoever_listens_too_slowly_misses_the_oldest_and_what_is_no_news_is_passed_over(
    server: NatsServer,
) -> None:
    async def work() -> None:
        async with connected(server) as (here, there), NatsFeed(there).listen("e") as news:
            place = f"{NEWS}.{partition_of('e', 64)}"
            for body in (b"", b"{", b"[]", b'["e"]', b'[["e", 1, 1]]', b"\xff", b"[" * 100_000):
                await here.publish(place, body)
                await here.publish(f"{WORDS}.e", body)
            for seq in range(1, UNREAD_MAX + 11):
                await here.publish(place, b'[["e",%d,false]]' % seq)
            await here.settle()
            await there.settle()
            heard = await until(news, UNREAD_MAX + 10)
            assert [each.seq for each in heard] == list(range(11, UNREAD_MAX + 11))

    asyncio.run(work())


def test_many_who_wait_share_what_nats_is_asked_for_and_the_last_one_ends_it(server: NatsServer) -> None:
    async def work() -> None:
        async with connected(server) as (here, _):
            asked: list[str] = []

            class Counted(Connection):
                async def subscribe(self, subject: str, hear: Hear, *, group: str = "") -> Listening:
                    asked.append(subject)
                    return await super().subscribe(subject, hear, group=group)

            counted = Counted(server.url)
            tells, hears = NatsFeed(here), NatsFeed(counted)
            news, words = f"{NEWS}.{partition_of('e', 64)}", f"{WORDS}.e"
            async with AsyncExitStack() as all_who_wait:
                waits = [await all_who_wait.enter_async_context(hears.listen(id)) for id in ("e", NEAR, "e")]
                async with hears.listen(NEAR):
                    pass
                assert asked == [words, news, f"{WORDS}.{NEAR}"]
                tells.tell(FeedEvent("e", 7, over=True))
                tells.tell(FeedEvent(NEAR, 8))
                heard = [await anext(each) for each in waits]
                assert heard == [FeedEvent("e", 7, True), FeedEvent(NEAR, 8), FeedEvent("e", 7, True)]
            async with hears.listen("e") as again:
                assert asked[3:] == [words, news]
                tells.tell(FeedEvent("e", 9))
                assert await anext(again) == FeedEvent("e", 9)
            await tells.close()
            await counted.close()

    asyncio.run(work())


def test_news_of_more_executions_than_a_message_holds_go_in_several(server: NatsServer) -> None:
    async def work() -> None:
        async with connected(server) as (here, there):
            tells = NatsFeed(here)
            many = [id for number in range(20_000) if partition_of(id := f"{number}" * 900, 64) == 5]
            assert len("".join(many)) > here.message_bytes
            async with NatsFeed(there).listen() as news:
                for id in many:
                    tells.tell(FeedEvent(id, 1))
                assert {(await anext(news)).execution_id for _ in many} == set(many)
            await tells.close()

    asyncio.run(work())


def test_news_while_the_connection_is_lost_are_nobodys_trouble(server: NatsServer) -> None:
    async def work() -> None:
        async with connected(server) as (here, _):
            feed = NatsFeed(here)
            await here.close()
            feed.tell(FeedEvent("e", 1))
            await feed.close()

    asyncio.run(work())


# Workers


def seen(name: str, pool: str = "default", slots: int = 4, *, leaving: bool = False) -> WorkerInfo:
    return WorkerInfo(name, pool, slots, 1, "host", 42, "1.0", {"zone": "b"}, leaving, LONG_AGO)


def test_workers_are_known_while_they_tell_of_themselves(server: NatsServer) -> None:
    async def work() -> None:
        async with connected(server) as (here, there):
            clock = FakeClock()
            tells, hears = NatsWorkerRegistry(here, clock), NatsWorkerRegistry(there, clock)
            await hears.open()
            await there.settle()
            roster: WorkerRegistry = hears
            for each in (
                seen("b", slots=8),
                seen("a"),
                seen("c", "gpu", 1),
                seen("d", slots=99, leaving=True),
            ):
                await tells.tell(each)
            for body in (b"", b"[]", b"\xff", b'["w"]', b"[" * 100_000):
                await here.publish("noetl.workers", body)
            await here.settle()
            await there.settle()
            workers = roster.workers()
            assert [each.name for each in workers] == ["a", "b", "c", "d"]
            assert workers[0]._replace(at=LONG_AGO) == seen("a")
            assert all(abs((clock.now() - each.at).total_seconds()) < 10 for each in workers)
            assert [roster.slots(pool) for pool in ("default", "gpu", "none")] == [12, 1, 0]
            clock.advance(FORGOTTEN_S - 1)
            await tells.tell(seen("b", slots=6))
            await here.settle()
            await there.settle()
            assert roster.slots("default") == 10
            clock.advance(2)
            assert [each.name for each in roster.workers()] == ["b"]

    asyncio.run(work())


def test_a_roll_call_reaches_every_worker_and_many_calls_are_one(server: NatsServer) -> None:
    async def work() -> None:
        async with connected(server) as (here, there):
            called: asyncio.Queue[str] = asyncio.Queue()
            for name in ("a", "b"):
                await RollCall(there).heed(lambda name=name: called.put_nowait(name))  # type: ignore[misc]
            await there.settle()
            calls = RollCall(here)
            for _ in range(100):
                calls.call()
            assert sorted([await called.get(), await called.get()]) == ["a", "b"]
            await here.settle()
            await there.settle()
            assert called.empty()

    asyncio.run(work())
