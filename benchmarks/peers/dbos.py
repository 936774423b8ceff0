"""W1–W6 on DBOS Transact: a step is a row in its system database, committed before the step returns.

Run in its own virtual environment; the folder is for SQLite, and BENCH_DATABASE names a PostgreSQL instead.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
from dbos import DBOS  # type: ignore[import-not-found]  # lives in .bench

from benchmarks.peers.orders import (
    ENDPOINTS_AT_ONCE,
    ITEMS_AT_ONCE,
    TASKS_WAITING,
    Measured,
    Order,
    answer,
    at_most,
    cold,
    crawled,
    rated,
    together,
    waited,
    waiting_url,
    walked,
)

ADDRESS = "BENCH_DATABASE"  # by with_postgres.py
Function = TypeVar("Function", bound=Callable[..., Any])
step: Callable[[Function], Function] = DBOS.step()
workflow: Callable[[Function], Function] = DBOS.workflow()
http: aiohttp.ClientSession


@step
async def noop(number: int) -> dict[str, int]:
    return {"n": number}


@step
async def page(url: str, number: int) -> Any:
    async with http.get(url, params={"page": number}) as response:
        return await response.json()


@workflow
async def chain(steps: int) -> None:
    for number in range(steps):
        await noop(number)


@workflow
async def fan_out(items: int) -> None:
    await at_most(ITEMS_AT_ONCE, items, noop)


@workflow
async def crawl(url: str, endpoints: int) -> int:
    async def walk(endpoint: int) -> int:
        return await walked(lambda number: page(f"{url}/{endpoint}", number))

    return sum(await at_most(ENDPOINTS_AT_ONCE, endpoints, walk))


@workflow
async def waits(url: str, tasks: int) -> None:
    for number in range(tasks):
        await page(url, number)


async def run(function: Callable[..., Any], *arguments: object) -> Any:
    return await (await DBOS.start_workflow_async(function, *arguments)).get_result()


async def w1(order: Order) -> Measured:
    return await rated(order.size, run(chain, order.size))


async def w2(order: Order) -> Measured:
    return await rated(order.size, run(fan_out, order.size))


async def w3(order: Order) -> Measured:
    return await together(order.size, lambda: run(chain, 3))


async def w4(order: Order) -> Measured:
    global http
    async with aiohttp.ClientSession() as http:
        await run(crawl, order.url, 1)
        return await crawled(order.size, run(crawl, order.url, order.size))


async def w5(_order: Order) -> Measured:
    return await cold([sys.executable, "-m", "benchmarks.peers.dbos", sys.argv[1], "once"])


async def w6(order: Order) -> Measured:
    global http
    async with aiohttp.ClientSession() as http:
        url = waiting_url(order.url)
        await run(waits, url, 1)
        return await waited(order.size, TASKS_WAITING, lambda: run(waits, url, TASKS_WAITING))


async def main() -> None:
    await run(chain, 10)
    await answer({"W1": w1, "W2": w2, "W3": w3, "W4": w4, "W5": w5, "W6": w6}, f"DBOS {version('dbos')}")


async def once() -> None:
    await run(chain, 1)


if __name__ == "__main__":
    database = os.environ.get(ADDRESS) or f"sqlite:///{Path(sys.argv[1]) / 'dbos.sqlite'}"
    settings = {"name": "bench", "system_database_url": database, "log_level": "ERROR"}
    DBOS(config={**settings, "run_admin_server": False})
    DBOS.launch()
    asyncio.run(once() if "once" in sys.argv else main())
    DBOS.destroy()
