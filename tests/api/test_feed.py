"""The feed within one process: who receives its events, and what a slow subscriber loses."""

from __future__ import annotations

import asyncio

from noetl.adapters.memory import QUEUE_MAX, MemoryFeed
from noetl.ports import FeedEvent


def test_events_reach_subscribers_of_the_execution_and_of_all() -> None:
    async def work() -> None:
        feed = MemoryFeed()
        feed.publish(FeedEvent("a", 1))  # there is no subscriber yet
        async with feed.subscribe("a") as one, feed.subscribe() as every:
            for heard in (FeedEvent("a", 2), FeedEvent("b", 1), FeedEvent("a", 3)):
                feed.publish(heard)
            assert [await anext(one), await anext(one)] == [FeedEvent("a", 2), FeedEvent("a", 3)]
            assert [(await anext(every)).execution_id for _ in range(3)] == ["a", "b", "a"]
        feed.publish(FeedEvent("a", 4))
        assert not feed._subscribers

    asyncio.run(work())


def test_a_slow_subscriber_misses_the_oldest_events() -> None:
    async def work() -> None:
        feed = MemoryFeed()
        async with feed.subscribe("a") as news:
            for seq in range(QUEUE_MAX + 5):
                feed.publish(FeedEvent("a", seq))
            assert await anext(news) == FeedEvent("a", 5)

    asyncio.run(work())
