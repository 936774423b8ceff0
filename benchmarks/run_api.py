"""The cost of a playbook as an API: POST /run/<path> of one step, beside a bare Litestar route on the same HTTP server.

`python -m benchmarks.run_api [requests]`: one client sends requests one after the other over one connection.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles

import aiohttp
from litestar import Litestar, post

from benchmarks.sizes import scaled
from noetl.server.http_server import HttpServer
from tests.api.servers import opened
from tests.playbooks import HEAD

REQUESTS = scaled(500, 20)
WARM = scaled(50, 5)  # requests before the measurement
PLAYBOOK = HEAD + "workload: {n: 0}\nworkflow:\n- step: start\n  tool: {kind: noop, input: {n: '{{ workload.n }}'}}\n"


@post("/bare")
async def bare(data: dict[str, int]) -> dict[str, int]:
    return data


async def _latencies(session: aiohttp.ClientSession, url: str, requests: int) -> list[float]:
    """In milliseconds."""
    found = []
    for number in range(WARM + requests):
        begun = time.perf_counter()
        async with session.post(url, json={"n": number}) as answer:
            assert answer.ok, await answer.text()
            assert await answer.json() == {"n": number}
        found.append((time.perf_counter() - begun) * 1_000)
    return found[WARM:]


async def _measure(requests: int) -> tuple[list[float], list[float]]:
    app = Litestar([bare])
    with tempfile.TemporaryDirectory() as folder:
        async with opened(Path(folder)) as noetl:
            app.state.update(noetl.app.state)  # the settings of the HTTP server
    server = HttpServer(app)
    server.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            async with opened(Path(folder)) as noetl, aiohttp.ClientSession() as session:
                await noetl.api.register(PLAYBOOK)
                plain = await _latencies(session, f"{server.url}/bare", requests)
                return plain, await _latencies(session, f"{noetl.api.url}/run/t", requests)
    finally:
        await server.stop()


def measure(requests: int = REQUESTS) -> Iterator[tuple[str, float, str]]:
    plain, run = asyncio.run(_measure(requests))
    yield "run api: a bare Litestar route, p50", median(plain), "ms"
    yield "run api: POST /run of one step, p50", median(run), "ms"
    yield "run api: POST /run of one step, p99", quantiles(run, n=100)[-1], "ms"
    yield "run api: overhead over a bare route, p50", median(run) - median(plain), "ms"


if __name__ == "__main__":
    for what, value, unit in measure(int(sys.argv[1]) if sys.argv[1:] else REQUESTS):
        print(f"{what:<60} {value:>12.4g} {unit}")
