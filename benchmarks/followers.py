"""The cost of followers of one execution: the memory of the server, and the delay of new events.

`python -m benchmarks.followers [followers] [items]`: the server runs here, the followers in another process.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import aiohttp

from benchmarks.sizes import scaled
from noetl.server.app import context_of
from noetl.server.services import ServerSettings
from tests.api.servers import opened
from tests.playbooks import HEAD

TIME_S = 120.0
PLAYBOOK = HEAD + (
    "workload: {count: 1}\n"
    "workflow:\n"
    "- step: start\n"
    "  tool: {kind: wait, signal: go}\n"
    "  next: {arcs: [{step: many}]}\n"
    "- step: many\n"
    '  loop: {in: "{{ range(workload.count) | list }}", iterator: item, spec: {mode: parallel}}\n'
    "  tool: {kind: noop}\n"
)


def memory_mb() -> float:
    """The resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def follow(session: aiohttp.ClientSession, url: str) -> tuple[int, int]:
    """The number of received messages and bytes."""
    count = size = 0
    async with session.get(url) as response:
        assert response.status == 200, response.status
        async for chunk in response.content.iter_any():
            count += chunk.count(b"event: event\n")
            size += len(chunk)
    return count, size


def followers(url: str, number: int, pipe: Connection) -> None:
    async def work() -> None:
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            got = await asyncio.gather(*(follow(session, url) for _ in range(number)))
        pipe.send((min(got), max(got)))

    asyncio.run(work())


async def follow_all(number: int, items: int) -> tuple[float, float]:
    """The memory of all followers in megabytes, while they wait and at most."""
    with tempfile.TemporaryDirectory() as folder:
        settings = ServerSettings(open=True, requests_per_s=1e6, requests_burst=1e6)
        async with asyncio.timeout(TIME_S), opened(Path(folder), settings) as server:
            digest = (await server.api.register(PLAYBOOK))["digest"]
            asked = {"digest": digest, "workload": {"count": items}}
            id = (await server.api.post("/executions", asked, status=201))["execution_id"]
            before = memory_mb()
            mine, theirs = multiprocessing.get_context("spawn").Pipe()
            url = f"{server.server.url}/executions/{id}/stream"
            child = multiprocessing.get_context("spawn").Process(target=followers, args=(url, number, theirs))
            child.start()
            streams = context_of(server.app).streams
            while len(streams) < number and child.is_alive():
                await server.services.clock.sleep(0.05)
            with_all = memory_mb()
            began = time.perf_counter()
            await server.api.post(f"/executions/{id}/signal", {"name": "go"})
            highest = with_all
            while not mine.poll():
                highest = max(highest, memory_mb())
                await server.services.clock.sleep(0.02)
            took = time.perf_counter() - began
            least, most = mine.recv()
            child.join()
            print(f"each got {least[0]}..{most[0]} events, {most[1] / 1e6:.2f} MB, in {took:.2f} s")
            return with_all - before, highest - before


def measure() -> Iterator[tuple[str, float, str]]:
    waiting, most = asyncio.run(follow_all(scaled(500, 20), scaled(500, 50)))
    yield "server: 500 followers of one execution, waiting", waiting, "MB"
    yield "server: 500 followers of one execution, at most", most, "MB"


if __name__ == "__main__":
    arguments = [int(each) for each in sys.argv[1:]]
    print(asyncio.run(follow_all(*(arguments or [500, 500]))))
