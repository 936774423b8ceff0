"""W1–W6 on Temporal: its development server on a SQLite file, and a worker in this process.

It runs in its own virtual environment. Argument: the folder of the server.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from importlib.metadata import version
from itertools import count
from pathlib import Path
from signal import SIGKILL, SIGTERM, Signals
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
from temporalio import activity, workflow  # type: ignore[import-not-found]  # in .bench
from temporalio.client import Client  # type: ignore[import-not-found]  # in .bench
from temporalio.worker import UnsandboxedWorkflowRunner, Worker  # type: ignore[import-not-found]  # in .bench

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
    free_port,
    rated,
    serving,
    together,
    until,
    waited,
    waiting_url,
    walked,
)

PROGRAM = str(Path(sys.executable).with_name("temporal"))
QUEUE = "bench"
ITEMS_MAX = 5_000  # in one workflow: a history has at most 51,200 events, and an item is about six
LIMIT = timedelta(seconds=600)
session: aiohttp.ClientSession


@activity.defn  # type: ignore[untyped-decorator]  # in .bench
async def noop() -> dict[str, int]:
    return {"n": 1}


@activity.defn  # type: ignore[untyped-decorator]  # in .bench
async def page(url: str, number: int) -> Any:
    async with session.get(url, params={"page": number}) as response:
        return await response.json()


@workflow.defn
class Chain:
    @workflow.run  # type: ignore[untyped-decorator]  # in .bench
    async def run(self, size: int) -> None:
        for _ in range(size):
            await workflow.execute_activity(noop, start_to_close_timeout=LIMIT)


@workflow.defn
class FanOut:
    @workflow.run  # type: ignore[untyped-decorator]  # in .bench
    async def run(self, size: int, at_once: int) -> None:
        await at_most(at_once, size, lambda _: workflow.execute_activity(noop, start_to_close_timeout=LIMIT))


@workflow.defn
class Endpoint:
    @workflow.run  # type: ignore[untyped-decorator]  # in .bench
    async def run(self, url: str) -> int:
        return await walked(
            lambda number: workflow.execute_activity(page, args=[url, number], start_to_close_timeout=LIMIT)
        )


@workflow.defn
class Waits:
    @workflow.run  # type: ignore[untyped-decorator]  # in .bench
    async def run(self, url: str, tasks: int) -> None:
        for number in range(tasks):
            await workflow.execute_activity(page, args=[url, number], start_to_close_timeout=LIMIT)


class Temporal:
    """A running server with a worker, and its client."""

    def __init__(self, folder: Path, stop: Signals = SIGTERM) -> None:
        self._folder, self._stop, self._port = folder, stop, free_port()
        self._numbers = count()
        self._client: Client

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        global session
        serve = [PROGRAM, "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(self._port)]
        serve += ["--http-port", str(free_port()), "--db-filename", str(self._folder / "t.db"), "--log-level", "error"]
        async with (
            aiohttp.ClientSession() as session,
            serving(serve, {"HOME": str(self._folder)}, self._stop) as server,
        ):
            await until(self._connected, server)
            async with Worker(
                self._client, task_queue=QUEUE, workflows=[Chain, FanOut, Endpoint, Waits], activities=[noop, page],
                workflow_runner=UnsandboxedWorkflowRunner(), max_concurrent_activities=200,
            ):  # fmt: skip
                yield

    async def _connected(self) -> bool:
        try:
            self._client = await Client.connect(f"127.0.0.1:{self._port}")
        except RuntimeError:
            return False
        return True

    async def call(self, kind: Any, *arguments: object) -> Any:
        id = f"bench-{next(self._numbers)}"
        return await self._client.execute_workflow(kind.run, args=arguments, id=id, task_queue=QUEUE)

    async def w1(self, order: Order) -> Measured:
        return await rated(order.size, self.call(Chain, order.size))

    async def w2(self, order: Order) -> Measured:
        parts = -(-order.size // ITEMS_MAX)
        calls = (self.call(FanOut, order.size // parts, ITEMS_AT_ONCE // parts) for _ in range(parts))
        return await rated(order.size, asyncio.gather(*calls))

    async def w3(self, order: Order) -> Measured:
        return await together(order.size, lambda: self.call(Chain, 3))

    async def crawl(self, url: str, endpoints: int) -> int:
        walk = at_most(ENDPOINTS_AT_ONCE, endpoints, lambda each: self.call(Endpoint, f"{url}/{each}"))
        return sum(await walk)

    async def w4(self, order: Order) -> Measured:
        await self.crawl(order.url, 1)
        return await crawled(order.size, self.crawl(order.url, order.size))

    async def w6(self, order: Order) -> Measured:
        url = waiting_url(order.url)
        await self.call(Waits, url, 1)
        return await waited(order.size, TASKS_WAITING, lambda: self.call(Waits, url, TASKS_WAITING))


async def w5(_order: Order) -> Measured:
    """Start, call and end a second server beside the idle one."""
    return await cold([sys.executable, "-m", "benchmarks.peers.temporal", sys.argv[1], "once"])


async def once() -> None:
    with TemporaryDirectory(prefix="temporal-bench-") as folder:
        # The time ends with the answer, not with the end of the server.
        temporal = Temporal(Path(folder), SIGKILL)
        async with temporal.running():
            await temporal.call(Chain, 1)


async def main(folder: Path) -> None:
    temporal = Temporal(folder)
    program = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True).stdout.split()
    async with temporal.running():
        await temporal.call(Chain, 10)
        works = {
            "W1": temporal.w1,
            "W2": temporal.w2,
            "W3": temporal.w3,
            "W4": temporal.w4,
            "W5": w5,
            "W6": temporal.w6,
        }
        await answer(works, f"Temporal CLI {program[2]}, SDK {version('temporalio')}")


if __name__ == "__main__":
    asyncio.run(once() if "once" in sys.argv else main(Path(sys.argv[1])))
