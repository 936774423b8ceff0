"""News and workers over a real NATS: told once in a while, in order, and forgotten in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
from nats.aio.msg import Msg

from noetl.adapters.nats.connection import Connection
from noetl.adapters.nats.feed import LINES_MAX, UNREAD_MAX, NatsFeed
from noetl.adapters.nats.roster import FORGOTTEN_S, NatsRoster, RollCall
from noetl.clock import SystemClock
from noetl.ports import Feed, Heard, Roster, WorkerSeen
from tests.services_nats import NatsServer, running_nats

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with running_nats(tmp_path_factory.mktemp("nats")) as running:
        yield running


@asynccontextmanager
async def connected(server: NatsServer) -> AsyncIterator[tuple[Connection, Connection]]:
    one, other = Connection(server.url), Connection(server.url)
    try:
        async with asyncio.timeout(20):
            await one.open()
            await other.open()
            yield one, other
    finally:
        await one.close()
        await other.close()


def line(number: int) -> dict[str, str]:
    return {"frame": "a#1", "kind": "line", "words": f"line {number}"}


async def until(news: AsyncIterator[Heard], seq: int) -> list[Heard]:
    """What is heard up to the one that tells of this seq."""
    heard: list[Heard] = []
    async for each in news:
        heard.append(each)
        if each.seq == seq:
            break
    return heard


def test_what_comes_thick_and_fast_is_told_once_and_lines_stay_in_order(server: NatsServer) -> None:
    async def work() -> None:
        async with connected(server) as (here, there):
            messages: list[Msg] = []
            await there.subscribe("noetl.news.*", messages.append)
            tells: Feed = NatsFeed(here)
            async with NatsFeed(there).listen("e") as news:
                for number in range(1, 101):
                    tells.tell(Heard("e", number))
                    tells.tell(Heard("e", line=line(number)))
                tells.tell(Heard("e", 50))
                tells.tell(Heard("another", 1_000))
                assert await until(news, 100) == [
                    *(Heard("e", line=line(n)) for n in range(1, 101)),
                    Heard("e", 100),
                ]
            await there.settle()
            assert len(messages) == 2

    asyncio.run(work())


def test_whoever_listens_to_all_hears_of_all_and_strange_ids_are_no_subjects(server: NatsServer) -> None:
    async def work() -> None:
        ids = ["e", "0199b3c2-0000-7000-8000-000000000000", "a.b", ">", "*", "", "ü x\r\n", "x" * 500]
        async with connected(server) as (here, there):
            tells = NatsFeed(here)
            async with NatsFeed(there).listen() as all_news, NatsFeed(there).listen("a.b") as one:
                for seq, id in enumerate(ids, 1):
                    tells.tell(Heard(id, seq))
                await tells.close()
                assert await until(all_news, len(ids)) == [Heard(id, seq) for seq, id in enumerate(ids, 1)]
                assert await until(one, 3) == [Heard("a.b", 3)]

    asyncio.run(work())


def test_too_many_lines_lose_the_oldest_and_too_large_ones_are_dropped(server: NatsServer) -> None:
    async def work() -> None:
        async with connected(server) as (here, there):
            tells = NatsFeed(here)
            async with NatsFeed(there).listen("e") as news:
                for number in range(LINES_MAX + 5):
                    tells.tell(Heard("e", line=line(number)))
                tells.tell(Heard("e", 1))
                heard = await until(news, 1)
                assert [each.line for each in heard[:-1]] == [
                    line(number) for number in range(5, LINES_MAX + 5)
                ]
                tells.tell(Heard("e", 2, line={**line(1), "words": "x" * 2_000_000}))
                tells.tell(Heard("e", line=line(2)))
                assert await until(news, 2) == [Heard("e", 2)]
                assert await anext(news) == Heard("e", line=line(2))

    asyncio.run(work())


def test_whoever_listens_too_slowly_misses_the_oldest_and_what_is_no_news_is_passed_over(
    server: NatsServer,
) -> None:
    async def work() -> None:
        async with connected(server) as (here, there), NatsFeed(there).listen("e") as news:
            for body in (b"", b"{", b"[]", b'{"id": 1}', b"\xff", b"[" * 100_000):
                await here.publish("noetl.news.e", body)
            for seq in range(1, UNREAD_MAX + 11):
                await here.publish("noetl.news.e", b'{"id":"e","seq":%d}' % seq)
            await here.settle()
            await there.settle()
            heard = await until(news, UNREAD_MAX + 10)
            assert [each.seq for each in heard] == list(range(11, UNREAD_MAX + 11))

    asyncio.run(work())


def test_news_while_the_connection_is_lost_are_nobodys_trouble(server: NatsServer) -> None:
    async def work() -> None:
        async with connected(server) as (here, _):
            feed = NatsFeed(here)
            await here.close()
            feed.tell(Heard("e", 1))
            await feed.close()

    asyncio.run(work())


# Workers


class Pulse(SystemClock):
    """A clock whose pulse a test moves on."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead_s


def seen(name: str, pool: str = "default", slots: int = 4, *, leaving: bool = False) -> WorkerSeen:
    return WorkerSeen(name, pool, slots, 1, "host", 42, "1.0", {"zone": "b"}, leaving, LONG_AGO)


def test_workers_are_known_while_they_tell_of_themselves(server: NatsServer) -> None:
    async def work() -> None:
        async with connected(server) as (here, there):
            clock = Pulse()
            tells, hears = NatsRoster(here, clock), NatsRoster(there, clock)
            await hears.open()
            await there.settle()
            roster: Roster = hears
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
            clock.ahead_s += FORGOTTEN_S - 1
            await tells.tell(seen("b", slots=6))
            await here.settle()
            await there.settle()
            assert roster.slots("default") == 10
            clock.ahead_s += 2
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
