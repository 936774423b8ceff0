"""One engine in a separate process: it reads orders as lines of JSON, and writes one figure for each.

This module defines the measurements for all engines. It uses only the standard library, and a module of the tests
that does the same, because each engine has its own virtual environment.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from signal import SIGTERM, Signals
from statistics import median, quantiles
from threading import Event
from typing import Any, NamedTuple

from tests.measured_process import run_measured

COLD_RUNS = 3
PAGES_EACH = 20  # of an endpoint
ENDPOINTS_AT_ONCE = 10
ITEMS_AT_ONCE = 100
TASKS_WAITING = 100  # of each execution of W6
WAIT_S = 0.05  # of each of these tasks
LOOK_S = 0.05
READY_S = 120.0
GRACE_S = 20.0


class Unready(Exception):
    """A server of the engine does not answer."""


class Order(NamedTuple):
    """A workload of PERFORMANCE.md; `size` is its steps, items, executions or endpoints."""

    workload: str
    size: int
    url: str  # of the page server


class Measured(NamedTuple):
    """W1–W4: a rate per second. W5 and W6: seconds."""

    value: float
    p50_s: float | None = None  # W3: from the common start to the end of one
    p99_s: float | None = None
    peak_mib: float | None = None  # W5
    overhead_ms: float | None = None  # W6: of a task beyond its wait, the median of the executions


Work = Callable[[Order], Awaitable[Measured]]


async def answer(works: Mapping[str, Work], versions: str) -> None:
    """Answer orders until the input ends. Output of libraries goes to the log and not to the answers."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    print(json.dumps({"ready": versions}), file=answers, flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        order = Order(**json.loads(line))
        print(json.dumps((await works[order.workload](order))._asdict()), file=answers, flush=True)


async def rated(count: int, work: Awaitable[Any]) -> Measured:
    begun = time.perf_counter()
    await work
    return Measured(count / (time.perf_counter() - begun))


async def together(count: int, one: Callable[[], Awaitable[Any]]) -> Measured:
    spent = await _timed(count, one)
    return Measured(count / max(spent), median(spent), quantiles(spent, n=100, method="inclusive")[98])


async def waited(executions: int, tasks: int, one: Callable[[], Awaitable[Any]]) -> Measured:
    """Executions whose tasks wait one after another, each for the small answer of the page server."""
    spent = await _timed(executions, one)
    return Measured(max(spent), overhead_ms=(median(spent) / tasks - WAIT_S) * 1_000)


async def _timed(count: int, one: Callable[[], Awaitable[Any]]) -> list[float]:
    """Start all at the same time, and measure each until its end."""

    async def timed() -> float:
        await one()
        return time.perf_counter() - begun

    begun = time.perf_counter()
    return await asyncio.gather(*(timed() for _ in range(count)))


def waiting_url(url: str) -> str:
    """An address of the page server that answers after WAIT_S."""
    return f"{url}/?ms={WAIT_S * 1_000:g}"


async def at_most(limit: int, count: int, one: Callable[[int], Awaitable[Any]]) -> list[Any]:
    """`one` for each number, `limit` in flight."""
    free = asyncio.Semaphore(limit)

    async def guarded(number: int) -> Any:
        async with free:
            return await one(number)

    return await asyncio.gather(*(guarded(number) for number in range(count)))


async def walked(fetch: Callable[[int], Awaitable[Any]]) -> int:
    """Fetch all pages of one endpoint, one after the other; returns their number."""
    page = 0
    while (await fetch(page))["more"]:
        page += 1
    return page + 1


async def crawled(endpoints: int, crawl: Awaitable[int]) -> Measured:
    begun = time.perf_counter()
    pages = await crawl
    spent = time.perf_counter() - begun
    assert pages == endpoints * PAGES_EACH, pages
    return Measured(pages / spent)


async def cold(command: list[str]) -> Measured:
    """Measure from the start of the process to its exit, several times."""
    runs = [await asyncio.to_thread(run_measured, command) for _ in range(COLD_RUNS)]
    assert all(run.code == 0 for run in runs), command
    return Measured(median(run.seconds for run in runs), peak_mib=median(run.peak_mib for run in runs))


async def until(
    holds: Callable[[], Awaitable[bool]], *servers: asyncio.subprocess.Process, look_s: float = LOOK_S
) -> None:
    """Poll until it is ready, while all processes live. Raises Unready."""
    for _ in range(round(READY_S / look_s)):
        if await holds():
            return
        if any(server.returncode is not None for server in servers):
            raise Unready("a server has ended before it was ready")
        await asyncio.to_thread(Event().wait, look_s)
    raise Unready(f"a server was not ready within {READY_S:g} s")


@asynccontextmanager
async def serving(
    command: list[str], environment: Mapping[str, str], stop: Signals = SIGTERM
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A server until the end of the block; it writes to our log."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=subprocess.DEVNULL, stdout=sys.stderr, env={**os.environ, **environment}
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(stop)
        try:
            async with asyncio.timeout(GRACE_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port
