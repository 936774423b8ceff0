"""W1–W6 on Restate: its server and its handlers are separate processes; this process calls them.

It runs in its own virtual environment. Arguments: the folder of the server, and its program.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from signal import SIGKILL, SIGTERM, Signals
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp

from benchmarks.peers.orders import (
    ENDPOINTS_AT_ONCE,
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
)


class Restate:
    """A running server with its handlers, and its client."""

    def __init__(self, folder: Path, program: Path, stop: Signals = SIGTERM) -> None:
        self._folder = folder
        self._program = program
        self._stop = stop
        self._ingress, self._admin, self._own, self._handlers = (free_port() for _ in range(4))
        self._http: aiohttp.ClientSession

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            self._http = await stack.enter_async_context(
                aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(600))
            )
            options = ["--node-name", "bench", "--base-dir", str(self._folder)]
            serve = [str(self._program), *options]
            server = await stack.enter_async_context(serving(serve, self._settings(), self._stop))
            hypercorn = [sys.executable, "-m", "hypercorn", "benchmarks.peers.restate_handlers:app"]
            # Without worker processes: one process, which ends with this one.
            hypercorn += ["-w", "0", "-b", f"127.0.0.1:{self._handlers}"]
            handlers = await stack.enter_async_context(serving(hypercorn, {}, self._stop))
            await until(self._registered, server, handlers)
            yield

    def _settings(self) -> dict[str, str]:
        return {
            "RESTATE_DISABLE_TELEMETRY": "true",
            "DO_NOT_TRACK": "1",
            "RESTATE_LOG_FILTER": "warn",
            "RESTATE_LISTEN_MODE": "tcp",
            "RESTATE_BIND_IP": "127.0.0.1",
            "RESTATE_BIND_ADDRESS": f"127.0.0.1:{self._own}",
            "RESTATE_ADVERTISED_ADDRESS": f"http://127.0.0.1:{self._own}",
            "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{self._ingress}",
            "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{self._admin}",
        }

    async def _registered(self) -> bool:
        place = {"uri": f"http://127.0.0.1:{self._handlers}"}
        try:
            async with self._http.post(f"http://127.0.0.1:{self._admin}/deployments", json=place) as response:
                return response.status in (200, 201)
        except aiohttp.ClientError:
            return False

    async def call(self, handler: str, argument: object) -> Any:
        url = f"http://127.0.0.1:{self._ingress}/bench/{handler}"
        async with self._http.post(url, json=argument) as response:
            assert response.status == 200, await response.text()
            return await response.json(content_type=None)

    async def w1(self, order: Order) -> Measured:
        return await rated(order.size, self.call("chain", order.size))

    async def w2(self, order: Order) -> Measured:
        return await rated(order.size, self.call("fan_out", order.size))

    async def w3(self, order: Order) -> Measured:
        return await together(order.size, lambda: self.call("chain", 3))

    async def crawl(self, url: str, endpoints: int) -> int:
        async def walk(endpoint: int) -> int:
            pages: int = await self.call("endpoint", f"{url}/{endpoint}")
            return pages

        return sum(await at_most(ENDPOINTS_AT_ONCE, endpoints, walk))

    async def w4(self, order: Order) -> Measured:
        await self.crawl(order.url, 1)
        return await crawled(order.size, self.crawl(order.url, order.size))

    async def w6(self, order: Order) -> Measured:
        waits = {"url": waiting_url(order.url), "tasks": TASKS_WAITING}
        await self.call("waits", {**waits, "tasks": 1})
        return await waited(order.size, TASKS_WAITING, lambda: self.call("waits", waits))


async def w5(_order: Order) -> Measured:
    """Start, call and end a second server beside the idle one."""
    return await cold([sys.executable, "-m", "benchmarks.peers.restate", *sys.argv[1:3], "once"])


async def once(program: Path) -> None:
    with TemporaryDirectory(prefix="restate-bench-") as folder:
        # The time ends with the answer, not with the end of the server.
        restate = Restate(Path(folder), program, SIGKILL)
        async with restate.running():
            await restate.call("chain", 1)


async def main(folder: Path, program: Path) -> None:
    restate = Restate(folder, program)
    server = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()
    versions = f"Restate server {server[1]}, SDK {version('restate_sdk')}"
    async with restate.running():
        await restate.call("chain", 10)
        works = {"W1": restate.w1, "W2": restate.w2, "W3": restate.w3, "W4": restate.w4, "W5": w5, "W6": restate.w6}
        await answer(works, versions)


if __name__ == "__main__":
    os.environ["DO_NOT_TRACK"] = "1"
    given = Path(sys.argv[2])
    asyncio.run(once(given) if "once" in sys.argv else main(Path(sys.argv[1]), given))
