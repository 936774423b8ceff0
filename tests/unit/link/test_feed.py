"""The feed and the worker registry over a transport: batching, order, limits and expiry."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime

from noetl.adapters.memory import MemoryBus, MemorySubscription, MemoryTransport
from noetl.ids import partition_of
from noetl.link.feed import LINES_MAX, LINES_SUBJECT, PROGRESS_SUBJECT, UNREAD_MAX, LinkFeed
from noetl.link.workers import ANSWER_S, EXPIRY_S, POLL_SUBJECT, LinkWorkerRegistry, WorkerPoll
from noetl.ports import Feed, FeedEvent, Handler, Message, WorkerInfo, WorkerRegistry
from noetl.testing.contracts.link import ShiftedClock, events_until

NEAR = "n73"  # in the partition of "e"
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[MemoryTransport, MemoryTransport]]:
    broker = MemoryBus()
    one, other = MemoryTransport(broker), MemoryTransport(broker)
    async with asyncio.timeout(120):
        await one.open()
        await other.open()
        yield one, other


def line(number: int) -> dict[str, str]:
    return {"frame": "a#1", "kind": "line", "words": f"line {number}"}


def test_what_comes_thick_and_fast_is_told_once_and_lines_stay_in_order() -> None:
    async def work() -> None:
        async with connected() as (here, there):
            messages: list[Message] = []
            for subject in (PROGRESS_SUBJECT, LINES_SUBJECT):
                await there.subscribe(f"{subject}.*", messages.append)
            tells = LinkFeed(here)
            async with LinkFeed(there).subscribe("e") as news:
                for number in range(1, 101):
                    tells.publish(FeedEvent("e", number))
                    tells.publish(FeedEvent("e", line=line(number)))
                tells.publish(FeedEvent("e", 50))
                tells.publish(FeedEvent(NEAR, 1_000))
                assert await events_until(news, 100) == [
                    *(FeedEvent("e", line=line(n)) for n in range(1, 101)),
                    FeedEvent("e", 100),
                ]
            await tells.close()
            await here.flush()
            await there.flush()
            # What tools said goes to those who follow them, how far logs reach to all who wait near them.
            assert [each.subject for each in messages] == [
                f"{LINES_SUBJECT}.e",
                f"{PROGRESS_SUBJECT}.{partition_of('e', 64)}",
            ]

    asyncio.run(work())


def test_whoever_listens_to_all_hears_of_all_and_strange_ids_are_no_subjects() -> None:
    async def work() -> None:
        ids = ["e", "0199b3c2-0000-7000-8000-000000000000", "a.b", ">", "*", "", "ü x\r\n", "x" * 500]
        async with connected() as (here, there):
            tells = LinkFeed(here)
            async with LinkFeed(there).subscribe() as all_news, LinkFeed(there).subscribe("a.b") as one:
                for seq, id in enumerate(ids, 1):
                    tells.publish(FeedEvent(id, seq))
                await tells.close()
                heard = {await anext(all_news) for _ in ids}
                assert heard == {FeedEvent(id, seq) for seq, id in enumerate(ids, 1)}
                assert await anext(one) == FeedEvent("a.b", 3)

    asyncio.run(work())


def test_too_many_lines_lose_the_oldest_and_too_large_ones_are_dropped() -> None:
    async def work() -> None:
        async with connected() as (here, there):
            tells: Feed = LinkFeed(here)
            async with LinkFeed(there).subscribe("e") as news:
                for number in range(LINES_MAX + 5):
                    tells.publish(FeedEvent("e", line=line(number)))
                tells.publish(FeedEvent("e", 1))
                heard = await events_until(news, 1)
                assert [each.line for each in heard[:-1]] == [line(number) for number in range(5, LINES_MAX + 5)]
                tells.publish(FeedEvent("e", 2, line={**line(1), "words": "x" * 2_000_000}))
                tells.publish(FeedEvent("e", line=line(2)))
                assert await events_until(news, 2) == [FeedEvent("e", line=line(2)), FeedEvent("e", 2)]

    asyncio.run(work())


def test_whoever_listens_too_slowly_misses_the_oldest_and_what_is_no_news_is_passed_over() -> None:
    async def work() -> None:
        async with connected() as (here, there), LinkFeed(there).subscribe("e") as news:
            place = f"{PROGRESS_SUBJECT}.{partition_of('e', 64)}"
            for body in (b"", b"{", b"[]", b'["e"]', b'[["e", 1, 1]]', b"\xff", b"[" * 100_000):
                await here.publish(place, body)
                await here.publish(f"{LINES_SUBJECT}.e", body)
            for seq in range(1, UNREAD_MAX + 11):
                await here.publish(place, b'[["e",%d,false]]' % seq)
            await here.flush()
            await there.flush()
            heard = await events_until(news, UNREAD_MAX + 10)
            assert [each.seq for each in heard] == list(range(11, UNREAD_MAX + 11))

    asyncio.run(work())


def test_many_who_wait_share_what_nats_is_asked_for_and_the_last_one_ends_it() -> None:
    async def work() -> None:
        async with connected() as (here, _):
            asked: list[str] = []

            class Counted(MemoryTransport):
                async def subscribe(self, subject: str, handler: Handler, *, group: str = "") -> MemorySubscription:
                    asked.append(subject)
                    return await super().subscribe(subject, handler, group=group)

            counted = Counted(here._bus)
            tells, hears = LinkFeed(here), LinkFeed(counted)
            news, words = f"{PROGRESS_SUBJECT}.{partition_of('e', 64)}", f"{LINES_SUBJECT}.e"
            async with AsyncExitStack() as all_who_wait:
                waits = [await all_who_wait.enter_async_context(hears.subscribe(id)) for id in ("e", NEAR, "e")]
                async with hears.subscribe(NEAR):
                    pass
                assert asked == [words, news, f"{LINES_SUBJECT}.{NEAR}"]
                tells.publish(FeedEvent("e", 7, over=True))
                tells.publish(FeedEvent(NEAR, 8))
                heard = [await anext(each) for each in waits]
                assert heard == [FeedEvent("e", 7, True), FeedEvent(NEAR, 8), FeedEvent("e", 7, True)]
            async with hears.subscribe("e") as again:
                assert asked[3:] == [words, news]
                tells.publish(FeedEvent("e", 9))
                assert await anext(again) == FeedEvent("e", 9)
            await tells.close()
            await counted.close()

    asyncio.run(work())


def test_news_of_more_executions_than_a_message_holds_go_in_several() -> None:
    async def work() -> None:
        async with connected() as (here, there):
            tells = LinkFeed(here)
            many = [id for number in range(20_000) if partition_of(id := f"{number}" * 900, 64) == 5]
            assert len("".join(many)) > here.payload_limit
            async with LinkFeed(there).subscribe() as news:
                for id in many:
                    tells.publish(FeedEvent(id, 1))
                assert {(await anext(news)).execution_id for _ in many} == set(many)
            await tells.close()

    asyncio.run(work())


def test_news_while_the_connection_is_lost_are_nobodys_trouble() -> None:
    async def work() -> None:
        async with connected() as (here, _):
            feed = LinkFeed(here)
            await here.close()
            feed.publish(FeedEvent("e", 1))
            await feed.close()

    asyncio.run(work())


# Workers


def seen(name: str, pool: str = "default", slots: int = 4, *, leaving: bool = False) -> WorkerInfo:
    return WorkerInfo(name, pool, slots, 1, "host", 42, "1.0", {"zone": "b"}, leaving, LONG_AGO)


def test_workers_are_known_while_they_tell_of_themselves() -> None:
    async def work() -> None:
        async with connected() as (here, there):
            clock = ShiftedClock()
            tells, hears = LinkWorkerRegistry(here, clock), LinkWorkerRegistry(there, clock)
            await hears.open()
            await there.flush()
            roster: WorkerRegistry = hears
            for each in (
                seen("b", slots=8),
                seen("a"),
                seen("c", "gpu", 1),
                seen("d", slots=99, leaving=True),
            ):
                await tells.announce(each)
            for body in (b"", b"[]", b"\xff", b'["w"]', b"[" * 100_000):
                await here.publish("noetl.workers", body)
            await here.flush()
            await there.flush()
            workers = roster.workers()
            assert [each.name for each in workers] == ["a", "b", "c", "d"]
            assert workers[0]._replace(at=LONG_AGO) == seen("a")
            assert all(abs((clock.now() - each.at).total_seconds()) < 10 for each in workers)
            assert [roster.slots(pool) for pool in ("default", "gpu", "none")] == [12, 1, 0]
            clock.ahead_s += EXPIRY_S - 1
            await tells.announce(seen("b", slots=6))
            await here.flush()
            await there.flush()
            assert roster.slots("default") == 10
            clock.ahead_s += 2
            assert [each.name for each in roster.workers()] == ["b"]

    asyncio.run(work())


def test_polls_of_several_servers_have_one_answer_at_once_and_one_later() -> None:
    async def work() -> None:
        async with asyncio.timeout(60), connected() as (here, there):
            called: asyncio.Queue[float] = asyncio.Queue()
            loop = asyncio.get_running_loop()
            await WorkerPoll(there).subscribe(lambda: called.put_nowait(loop.time()))
            await there.flush()
            for _ in range(33):
                await here.publish(POLL_SUBJECT, b"")
            first, second = await called.get(), await called.get()
            assert second - first > 0.9 * ANSWER_S
            await here.flush()
            await there.flush()
            assert called.empty()
            await here.publish(POLL_SUBJECT, b"")
            assert await called.get() - second > 0.9 * ANSWER_S  # this one is not lost

    asyncio.run(work())


def test_a_roll_call_reaches_every_worker_and_many_calls_are_one() -> None:
    async def work() -> None:
        async with connected() as (here, there):
            called: asyncio.Queue[str] = asyncio.Queue()
            for name in ("a", "b"):
                await WorkerPoll(there).subscribe(lambda name=name: called.put_nowait(name))  # type: ignore[misc]
            await there.flush()
            calls = WorkerPoll(here)
            for _ in range(100):
                calls.send()
            assert sorted([await called.get(), await called.get()]) == ["a", "b"]
            await here.flush()
            await there.flush()
            assert called.empty()

    asyncio.run(work())
