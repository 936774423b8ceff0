"""The floor without an engine: rows in SQLite, one per commit, and the requests of W4 and W6 without storage."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from platform import python_version
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp

from benchmarks import embedded
from benchmarks.peers.orders import (
    ENDPOINTS_AT_ONCE,
    TASKS_WAITING,
    Measured,
    Order,
    answer,
    at_most,
    crawled,
    waited,
    waiting_url,
    walked,
)

http: aiohttp.ClientSession


async def page(url: str, number: int) -> Any:
    async with http.get(url, params={"page": number}) as response:
        return await response.json()


async def crawl(url: str, endpoints: int) -> int:
    async def walk(endpoint: int) -> int:
        return await walked(lambda number: page(f"{url}/{endpoint}", number))

    return sum(await at_most(ENDPOINTS_AT_ONCE, endpoints, walk))


async def waits(url: str, tasks: int) -> None:
    for number in range(tasks):
        await page(url, number)


async def w4(order: Order) -> Measured:
    global http
    async with aiohttp.ClientSession() as http:
        await crawl(order.url, 1)
        return await crawled(order.size, crawl(order.url, order.size))


async def w6(order: Order) -> Measured:
    global http
    async with aiohttp.ClientSession() as http:
        url = waiting_url(order.url)
        await waits(url, 1)
        return await waited(order.size, TASKS_WAITING, lambda: waits(url, TASKS_WAITING))


async def rows(_order: Order) -> Measured:
    with TemporaryDirectory(dir=sys.argv[1]) as folder:
        one_a_commit, *_ = embedded.floor(Path(folder))
    return Measured(one_a_commit[1])


if __name__ == "__main__":
    asyncio.run(answer({"W4": w4, "W6": w6, "rows": rows}, f"Python {python_version()}"))
