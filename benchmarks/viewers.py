"""The cost of viewers of one running execution: the processor time of the server until its end, against none.

`python -m benchmarks.viewers [viewers] [items]`: the server runs here, the viewers in another process. Each viewer
does what the page of an execution does: it follows the length of the log, and fetches the timeline and the last event.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.sizes import scaled
from noetl.server.app import context_of
from noetl.server.services import ServerSettings
from tests.api.servers import ApiServer, opened
from tests.playbooks import HEAD

ITEMS = scaled(20_000, 200)
VIEWERS = 5
TIME_S = 300.0
TRIES = scaled(3, 1)
PLAYBOOK = HEAD + (
    "workload: {items: []}\n"
    "workflow:\n"
    "- step: start\n"
    "  tool: {kind: wait, signal: go}\n"
    "  next: {arcs: [{step: many}]}\n"
    "- step: many\n"
    '  loop: {in: "{{ workload.items }}", iterator: item, spec: {mode: parallel, max_in_flight: 64}}\n'
    "  tool: {kind: noop, input: {number: \"{{ iter.item }}\"}}\n"
)  # fmt: skip


async def view(session: aiohttp.ClientSession, url: str, id: str) -> int:
    """Do what the page does until the execution has ended; returns the number of timelines."""
    timeline, count = await _get(session, f"{url}/executions/{id}/timeline"), 1
    async with session.get(f"{url}/executions/{id}/growth", params={"after": timeline["seq"]}) as response:
        async for line in response.content:
            if not line.startswith(b"data:"):
                continue
            seq = json.loads(line[5:]).get("seq", 0)
            if seq > timeline["seq"]:
                timeline = await _get(session, f"{url}/executions/{id}/timeline", at_least=seq)
                await _get(session, f"{url}/executions/{id}/moment", at=timeline["seq"])
                count += 1
    return count


async def _get(session: aiohttp.ClientSession, url: str, **query: int) -> Any:
    async with session.get(url, params=query) as response:
        assert response.status == 200, await response.text()
        return await response.json()


def viewers(url: str, id: str, number: int, pipe: Connection) -> None:
    async def work() -> None:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:
            pipe.send(await asyncio.gather(*(view(session, url, id) for _ in range(number))))

    asyncio.run(work())


async def run_viewed(server: ApiServer, number: int, items: int) -> float:
    """The processor time of this process from the signal until the execution has ended."""
    digest = (await server.api.register(PLAYBOOK))["digest"]
    asked = {"digest": digest, "workload": {"items": [*range(items)]}}
    id = (await server.api.post("/executions", asked, status=201))["execution_id"]
    mine, theirs = multiprocessing.get_context("spawn").Pipe()
    child = multiprocessing.get_context("spawn").Process(target=viewers, args=(server.server.url, id, number, theirs))
    child.start()
    while len(context_of(server.app).streams) < number and child.is_alive():
        await server.services.clock.sleep(0.05)
    async with server.services.feed.subscribe(id) as events:
        began = time.process_time()
        await server.api.post(f"/executions/{id}/signal", {"name": "go"})
        async for event in events:
            if event.over:
                break
        took, spent = time.process_time() - began, context_of(server.app).timelines.spent_s(id)
    while not mine.poll():
        await server.services.clock.sleep(0.05)
    print(f"{took:.2f} s with {number} viewers, {spent:.2f} s of it for timelines; they fetched {mine.recv()}")
    child.join()
    assert (await server.api.get(f"/executions/{id}/head"))["status"] == "ok"
    return took


async def ratio(number: int, items: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        settings = ServerSettings(open=True, requests_per_s=1e6, requests_burst=1e6)
        async with asyncio.timeout(TIME_S), opened(Path(folder), settings) as server:
            await run_viewed(server, number, 100)  # everything is loaded
            pairs = [
                (await run_viewed(server, 0, items), await run_viewed(server, number, items)) for _ in range(TRIES)
            ]
    return min(watched for _, watched in pairs) / min(
        alone for alone, _ in pairs
    )  # other processes make runs slower, never faster


def measure() -> Iterator[tuple[str, float, str]]:
    yield "server: a loop of 20,000 items with 5 viewers, against none", asyncio.run(ratio(VIEWERS, ITEMS)), "x"


if __name__ == "__main__":
    arguments = [int(each) for each in sys.argv[1:]]
    print(f"{asyncio.run(ratio(*(arguments or [VIEWERS, ITEMS]))):.3f}")
