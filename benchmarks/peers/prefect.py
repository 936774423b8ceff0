"""W1–W6 on Prefect 3: its server on SQLite, and tasks with default settings.

Run in its own virtual environment; the folder is Prefect's home.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
from prefect import flow, task  # type: ignore[import-not-found]  # lives in .bench

from benchmarks.peers.orders import (
    ENDPOINTS_AT_ONCE,
    ITEMS_AT_ONCE,
    TASKS_WAITING,
    Measured,
    Order,
    Unready,
    Work,
    answer,
    at_most,
    cold,
    crawled,
    free_port,
    rated,
    serving,
    together,
    until,
    waited,
    waiting_url,
    walked,
)

Function = TypeVar("Function", bound=Callable[..., Any])
as_task: Callable[[Function], Function] = task
as_execution: Callable[[Function], Function] = flow
EXECUTIONS_AT_ONCE = 100  # each has a client with separate connections
free = asyncio.Semaphore(EXECUTIONS_AT_ONCE)
http: aiohttp.ClientSession
tasks_made = 0


@as_task
async def noop(number: int) -> dict[str, int]:
    global tasks_made
    tasks_made += 1
    return {"n": number}


@as_task
async def page(url: str, number: int) -> Any:
    global tasks_made
    tasks_made += 1
    async with http.get(url, params={"page": number}) as response:
        return await response.json()


@as_execution
async def chain(steps: int) -> None:
    for number in range(steps):
        await noop(number)


@as_execution
async def fan_out(items: int) -> None:
    await at_most(ITEMS_AT_ONCE, items, noop)


@as_execution
async def crawl(url: str, endpoints: int) -> int:
    async def walk(endpoint: int) -> int:
        return await walked(lambda number: page(f"{url}/{endpoint}", number))

    return sum(await at_most(ENDPOINTS_AT_ONCE, endpoints, walk))


@as_execution
async def waits(url: str, tasks: int) -> None:
    for number in range(tasks):
        await page(url, number)


async def w1(order: Order) -> Measured:
    return await rated(order.size, chain(order.size))


async def w2(order: Order) -> Measured:
    return await rated(order.size, fan_out(order.size))


async def admitted(execution: Awaitable[None]) -> None:
    async with free:
        await execution


async def w3(order: Order) -> Measured:
    return await together(order.size, lambda: admitted(chain(3)))


async def w4(order: Order) -> Measured:
    global http
    async with aiohttp.ClientSession() as http:
        await crawl(order.url, 1)
        return await crawled(order.size, crawl(order.url, order.size))


async def w5(_order: Order) -> Measured:
    return await cold([sys.executable, "-m", "benchmarks.peers.prefect", "once"])


async def w6(order: Order) -> Measured:
    global http
    async with aiohttp.ClientSession() as http:
        url = waiting_url(order.url)
        await waits(url, 1)
        return await waited(order.size, TASKS_WAITING, lambda: admitted(waits(url, TASKS_WAITING)))


async def healthy(url: str) -> bool:
    async with aiohttp.ClientSession() as session:
        try:
            async with session.get(f"{url}/health") as response:
                return response.status == 200
        except aiohttp.ClientError:
            return False


async def written() -> bool:
    """Wait until the server has all states of tasks that were sent in the background."""
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{os.environ['PREFECT_API_URL']}/task_runs/count", json={}) as response,
    ):
        return response.status == 200 and await response.json() >= tasks_made


def rested(work: Work) -> Work:
    """Wait for pending writes, without timing them, so that they do not slow down the next workload."""

    async def measured(order: Order) -> Measured:
        figure = await work(order)
        with suppress(Unready):
            await until(written, look_s=0.5)
        return figure

    return measured


async def main() -> None:
    url = os.environ["PREFECT_API_URL"]
    port = url.partition("/api")[0].rpartition(":")[2]
    program = str(Path(sys.executable).with_name("prefect"))
    async with serving([program, "server", "start", "--host", "127.0.0.1", "--port", port], {}) as server:
        await until(lambda: healthy(url), server)
        await chain(10)
        works = {"W1": rested(w1), "W2": rested(w2), "W3": rested(w3), "W4": rested(w4)}
        await answer({**works, "W5": w5, "W6": rested(w6)}, f"Prefect {version('prefect')}")


def begin(folder: Path) -> None:
    """Prefect reads its settings when it is imported, so that they must exist before this process starts."""
    settings = {
        "PREFECT_HOME": str(folder),
        "PREFECT_API_URL": f"http://127.0.0.1:{free_port()}/api",
        "PREFECT_LOGGING_LEVEL": "ERROR",
        "PREFECT_LOGGING_SERVER_LEVEL": "ERROR",
        "PREFECT_LOGGING_TO_API_ENABLED": "false",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_UI_ENABLED": "false",
        "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
        "PREFECT_CLI_PROMPT": "false",
        "DO_NOT_TRACK": "1",
    }
    command = [sys.executable, "-m", "benchmarks.peers.prefect", "serve"]
    os.execve(sys.executable, command, {**os.environ, **settings})


if __name__ == "__main__":
    match sys.argv[1]:
        case "once":
            asyncio.run(chain(1))
        case "serve":
            asyncio.run(main())
        case folder:
            begin(Path(folder))
