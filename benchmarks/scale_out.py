"""Throughput of 1, 2 and 4 servers with 2, 4 and 8 workers.

The tasks wait for a slow HTTP server, so that the cores of one machine do not limit them: the slots do. The last
figures are of a server that joins and leaves under load.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from benchmarks.distributed import open_trial_cluster
from benchmarks.embedded import HEAD, page_server
from benchmarks.sizes import scaled
from noetl.client import Client
from noetl.errors import Unavailable
from noetl.link.messages import PARTITIONS

Row = tuple[str, float, str]
SERVERS = (1, 2, 4) if scaled(1, 0) else (1, 2)
WORKERS = (2, 4, 8) if scaled(1, 0) else (1,)
SLOTS = 16  # of a worker
WAIT_MS = scaled(2_000, 100)
ROUNDS = scaled(6, 2)  # tasks for each slot
EXECUTIONS = scaled(384, 16)  # at once
SHARE_ROUNDS = scaled(8, 1)  # of executions without tasks, so that chance gives servers nearly equal shares
READY_S = 60
TIMEOUT_S = 120
JOINED_AFTER = scaled(3, 1)  # rounds
PLAYBOOK = (
    HEAD % "scale"
    + """\
workload: {url: "", tasks: 1, ms: 1000}
workflow:
- step: start
  loop: {in: "{{ range(workload.tasks) }}", iterator: n, spec: {mode: parallel, max_in_flight: 4}}
  tool: {kind: http, url: "{{ workload.url }}/", params: {ms: "{{ workload.ms }}"}}
"""
)


class Measured(NamedTuple):
    """One combination of servers and workers."""

    servers: int
    workers: int
    rate: float  # tasks/s
    bound: float  # tasks/s, if every slot had a task all the time
    spread: float  # of the facts that servers have committed for executions without tasks: (most - least) / mean

    def rows(self) -> Iterator[Row]:
        name = f"scale-out: {self.servers} servers, {self.workers} workers"
        yield name, self.rate, "tasks/s"
        yield f"{name}, of the bound by slots", 100 * self.rate / self.bound, "%"
        if self.servers > 1:
            yield f"{name}, spread of the load over servers", 100 * self.spread, "%"


def measure() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="noetl-bench-") as folder, ExitStack() as stack:
        url = stack.enter_context(page_server())
        cluster = stack.enter_context(open_trial_cluster(Path(folder), workers=WORKERS[0], slots=SLOTS))
        load = _Load(cluster, url)
        for each in _combinations(load, stack):
            yield from each.rows()
        yield from asyncio.run(_join_and_leave(load))


def _combinations(load: _Load, stack: ExitStack) -> Iterator[Measured]:
    workers = WORKERS[0]
    for wanted in WORKERS:
        for number in range(workers, wanted):
            options = ["worker", "--slots", str(SLOTS), "--name", f"more-{number}"]
            stack.enter_context(_process(load.environment, options))
        workers = wanted
        for servers in SERVERS:
            with ExitStack() as more:
                urls = [more.enter_context(_server(load.environment, f"server-{each}")) for each in range(1, servers)]
                yield asyncio.run(load.run(urls, workers))


@contextmanager
def _server(environment: dict[str, str], name: str) -> Iterator[str]:
    port = _free_port()
    with _process(environment, ["server", "--host", "127.0.0.1", "--port", str(port), "--name", name]):
        yield f"http://127.0.0.1:{port}"


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@contextmanager
def _process(environment: dict[str, str], options: list[str]) -> Iterator[None]:
    """Returns when the process is ready."""
    command = [sys.executable, "-m", "noetl", *options]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            until = time.monotonic() + READY_S
            while b"ready" not in os.pread(log.fileno(), 65_536, 0):
                is_starting = process.poll() is None and time.monotonic() < until
                assert is_starting, os.pread(log.fileno(), 65_536, 0)
                time.sleep(0.05)
            yield
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


class _Load:
    """Executions that wait, through all servers in turn."""

    def __init__(self, cluster: dict[str, Any], pages: str) -> None:
        self.url: str = cluster["url"]
        self._pages = pages
        self._token = Path(cluster["token_file"]).read_text().strip()
        lines = shlex.split(Path(cluster["environment_file"]).read_text(), comments=True)
        given = dict(line.split("=", 1) for line in lines if "=" in line)
        self.environment = {**os.environ, **given, "NOETL_ALLOW_NETWORKS": "127.0.0.0/8", "PYTHONUNBUFFERED": "1"}

    async def run(self, urls: list[str], workers: int) -> Measured:
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(self.client(each)) for each in (self.url, *urls)]
            await clients[0].register(PLAYBOOK)
            await _until_shared(clients)
            await self.executions(clients, workers * SLOTS, 1)  # the first call of a worker loads the playbook
            tasks = max(1, workers * SLOTS * ROUNDS // EXECUTIONS)
            begun = time.perf_counter()
            await self.executions(clients, EXECUTIONS, tasks)
            rate = EXECUTIONS * tasks / (time.perf_counter() - begun)
            before = [await _facts(client) for client in clients]
            for _ in range(SHARE_ROUNDS):
                await self.executions(clients, EXECUTIONS, 0)
            done = [await _facts(client) - first for client, first in zip(clients, before, strict=True)]
            spread = (max(done) - min(done)) * len(done) / sum(done)
            return Measured(len(clients), workers, rate, workers * SLOTS * 1_000 / WAIT_MS, spread)

    async def executions(self, clients: list[Client], count: int, tasks: int) -> None:
        some = cycle(clients)
        await asyncio.gather(*(self.execution(next(some), tasks) for _ in range(count)))

    async def execution(self, client: Client, tasks: int) -> float:
        """Its duration. The client starts it again, with the same key, while its partition has no owner."""
        begun, key = time.perf_counter(), client.clock.new_id()
        workload = {"url": self._pages, "tasks": tasks, "ms": WAIT_MS}
        while True:
            try:
                run = await client.run("bench/scale", workload, key=key, timeout_s=TIMEOUT_S)
            except Unavailable:
                assert time.perf_counter() - begun < TIMEOUT_S
            else:
                assert run.status == "ok", run
                return time.perf_counter() - begun

    def client(self, url: str) -> Client:
        return Client(url, self._token)


async def _until_shared(clients: list[Client]) -> None:
    """Wait until each server owns its share of the partitions."""
    async with asyncio.timeout(READY_S):
        share = PARTITIONS // len(clients)
        while not all([await _metric(client, "noetl_partitions_owned") >= share for client in clients]):
            await asyncio.sleep(0.1)  # noqa: TID251  # a server shares within a second


async def _facts(client: Client) -> float:
    return await _metric(client, "noetl_facts_total")


async def _metric(client: Client, name: str) -> float:
    text = (await client.http.request("GET", "/metrics")).body.decode()
    families = text_string_to_metric_families(text)
    return sum(sample.value for family in families for sample in family.samples if sample.name == name)


async def _join_and_leave(load: _Load) -> list[Row]:
    """Executions one after the other in many chains; a server joins, and leaves again. Every one must end."""
    spent: list[float] = []
    is_over = False

    async def chain(client: Client) -> None:
        while not is_over:
            spent.append(await load.execution(client, 1))

    async with load.client(load.url) as client:
        usual = await asyncio.gather(*(load.execution(client, 1) for _ in range(SLOTS)))
        chains = [asyncio.ensure_future(chain(client)) for _ in range(SLOTS)]
        with ExitStack() as stack:
            joined = await asyncio.to_thread(stack.enter_context, _server(load.environment, "joins"))
            async with load.client(joined) as other:
                await _until_shared([client, other])
            await asyncio.sleep(JOINED_AFTER * WAIT_MS / 1_000)  # noqa: TID251  # under load
            await asyncio.to_thread(stack.close)
        is_over = True
        await asyncio.gather(*chains)
    return [
        ("scale-out: executions while a server joins and leaves, all ended", len(spent), ""),
        ("scale-out: longest of them beyond the usual time", max(spent) - max(usual), "s"),
    ]
