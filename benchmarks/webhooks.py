"""Webhooks at a fixed rate: how long the answers take while every request starts an execution. And W7: one at a time.

`python -m benchmarks.webhooks [requests per second] [seconds]`: the server runs here, on one file, with its own
worker; the sender is another process. A late answer delays no request, and the time counts from the moment at
which a request was due.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import NamedTuple

import aiohttp
from aiohttp import web

from benchmarks.sizes import scaled
from noetl.clock import SystemClock
from noetl.ports import ExecutionFilter
from noetl.server.services import ServerSettings
from tests.api.servers import opened
from tests.playbooks import HEAD

TIME_S = 300.0
SECRET = "whsec-of-the-benchmark"
PLAYBOOK = HEAD + (
    "keychain:\n"
    f"- {{name: shop_key, kind: bearer, token: {SECRET}}}\n"
    "workload: {order: null}\n"
    "triggers:\n"
    "- name: order\n"
    "  kind: webhook\n"
    "  path: orders/new\n"
    "  verify: {hmac: {secret: shop_key}}\n"
    "  key: \"{{ request.headers['x-delivery'] }}\"\n"
    '  workload: {order: "{{ request.body }}"}\n'
    "workflow:\n"
    "- step: start\n"
    '  tool: {kind: noop, input: {order: "{{ workload.order }}"}}\n'
)
REQUESTING = PLAYBOOK.partition("  tool:")[0] + '  tool: {kind: http, url: "%s/{{ workload.order.id }}"}\n'
FIRST, WARM = scaled(300, 10), 10  # webhooks of W7; those before the measurement


class Delivered(NamedTuple):
    """The answers to all requests."""

    statuses: Counter[int]
    ms: list[float]  # sorted
    took_s: float

    def percentile(self, part: float) -> float:
        return self.ms[min(len(self.ms) - 1, int(len(self.ms) * part))]


async def deliver(url: str, rate: float, seconds: float) -> Delivered:
    connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=60)
    statuses: Counter[int] = Counter()
    clock = SystemClock()
    ms: list[float] = []
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:

        async def send(number: int, due: float) -> None:
            await clock.sleep(due - time.perf_counter())
            statuses[await post(session, url, number)] += 1
            ms.append((time.perf_counter() - due) * 1_000)

        begin = time.perf_counter() + 0.1
        await asyncio.gather(*(send(number, begin + number / rate) for number in range(int(rate * seconds))))
    return Delivered(statuses, sorted(ms), time.perf_counter() - begin)


async def post(session: aiohttp.ClientSession, url: str, number: int) -> int:
    """The status of the answer."""
    body = b'{"id": %d, "items": ["a", "b"], "total": 17.5}' % number
    signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    headers = {"X-Signature": signature, "X-Delivery": str(number), "Content-Type": "application/json"}
    async with session.post(f"{url}/hooks/orders/new", data=body, headers=headers) as response:
        await response.read()
        return response.status


def sender(url: str, rate: float, seconds: float, pipe: Connection) -> None:
    pipe.send(asyncio.run(deliver(url, rate, seconds)))


async def accept(rate: float, seconds: float) -> tuple[Delivered, float, float]:
    """The answers, the seconds until the last execution had ended, and the CPU time of the server in seconds."""
    with tempfile.TemporaryDirectory() as folder:
        settings = ServerSettings(requests_per_s=1e6, requests_burst=1e6)
        async with asyncio.timeout(TIME_S), opened(Path(folder), settings) as server:
            server.api.token = await server.token("admin")
            await server.api.register(PLAYBOOK)
            mine, theirs = multiprocessing.get_context("spawn").Pipe()
            arguments = (server.server.url, rate, seconds, theirs)
            child = multiprocessing.get_context("spawn").Process(target=sender, args=arguments)
            began, cpu = time.perf_counter(), time.process_time()
            child.start()
            while not mine.poll():
                assert child.is_alive()
                await server.services.clock.sleep(0.02)
            found: Delivered = mine.recv()
            child.join()
            while await server.services.listing.executions(1, ExecutionFilter(open_only=True)):
                await server.services.clock.sleep(0.02)
            return found, time.perf_counter() - began, time.process_time() - cpu


async def first_task() -> list[float]:
    """The milliseconds from each webhook, sent one after the other, until a request of its first task arrives."""
    arrived: dict[str, asyncio.Future[float]] = {}

    async def arrive(request: web.BaseRequest) -> web.Response:
        arrived[request.path.strip("/")].set_result(time.perf_counter())
        return web.json_response({})

    found = []
    with tempfile.TemporaryDirectory() as folder:
        async with opened(Path(folder)) as server, aiohttp.ClientSession() as session:
            runner = web.ServerRunner(web.Server(arrive))
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            await server.api.register(REQUESTING % site.name)
            for number in range(WARM + FIRST):
                arrived[str(number)] = asyncio.get_running_loop().create_future()
                begun = time.perf_counter()
                assert await post(session, server.server.url, number) == 202
                found.append((await arrived[str(number)] - begun) * 1_000)
            await runner.cleanup()
    return sorted(found[WARM:])


def measure(rate: float = 200, seconds: float = scaled(10, 1)) -> Iterator[tuple[str, float, str]]:
    found, took, cpu = asyncio.run(accept(rate, seconds))
    count = int(rate * seconds)
    assert found.statuses == {202: count}, found.statuses
    yield f"webhooks: {rate:g} a second, accepted", count / found.took_s, "/s"
    yield f"webhooks: {rate:g} a second, median", found.percentile(0.5), "ms"
    yield f"webhooks: {rate:g} a second, p99", found.percentile(0.99), "ms"
    yield f"webhooks: {rate:g} a second, all executions ended", took, "s"
    yield f"webhooks: {rate:g} a second, CPU time of the server for one", cpu / count * 1_000, "ms"
    first = asyncio.run(first_task())
    yield "webhooks: W7 from the request to the first task, p50", median(first), "ms"
    yield "webhooks: W7 from the request to the first task, p99", first[int(len(first) * 0.99)], "ms"


if __name__ == "__main__":
    for row in measure(*(float(each) for each in sys.argv[1:])):
        print(row)
