"""News within one process: to whom they are told, and what is lost when someone is slow."""

from __future__ import annotations

import asyncio

from noetl.adapters.memory.feed import QUEUE_MAX, MemoryFeed
from noetl.ports import Heard


def test_news_reach_those_who_listen_to_the_execution_or_to_all() -> None:
    async def work() -> None:
        feed = MemoryFeed()
        feed.tell(Heard("a", 1))  # nobody listens yet
        async with feed.listen("a") as one, feed.listen() as every:
            for heard in (Heard("a", 2), Heard("b", 1), Heard("a", 3)):
                feed.tell(heard)
            assert [await anext(one), await anext(one)] == [Heard("a", 2), Heard("a", 3)]
            assert [(await anext(every)).execution_id for _ in range(3)] == ["a", "b", "a"]
        feed.tell(Heard("a", 4))
        assert not feed._listeners

    asyncio.run(work())


def test_whoever_is_slow_misses_the_oldest() -> None:
    async def work() -> None:
        feed = MemoryFeed()
        async with feed.listen("a") as news:
            for seq in range(QUEUE_MAX + 5):
                feed.tell(Heard("a", seq))
            assert await anext(news) == Heard("a", 5)

    asyncio.run(work())
