"""W1–W4 and W6 on a cluster: PostgreSQL and NATS, a server with two workers or with slots of its own, one machine.

`noetl up` starts the cluster: commits are synchronous, and every message is synced. The same run
measures the floor without an engine: commits of one row, and a request with its answer.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import asyncpg

from benchmarks.embedded import (
    CHAIN_STEPS,
    FAN_OUT,
    LOOP_ITEMS,
    MANY,
    PAGES,
    THREE,
    WAITING,
    WAITS,
    WAITS_EACH,
    chain,
    page_server,
    waits_rows,
)
from benchmarks.peers.orders import Measured, waited, waiting_url
from benchmarks.sizes import scaled
from noetl.client import Client

Row = tuple[str, float, str]
RUNS = scaled(3, 1)
SLOTS = 64
WAIT_S = 120


def measure() -> Iterator[Row]:
    yield from _measured("distributed", workers=2, server_slots=0)
    yield from _measured("server with slots", workers=0, server_slots=2 * SLOTS)


def _measured(name: str, workers: int, server_slots: int) -> Iterator[Row]:
    with (
        tempfile.TemporaryDirectory(prefix="noetl-bench-") as folder,
        open_trial_cluster(Path(folder), workers, server_slots=server_slots) as told,
    ):
        yield f"{name}: floor, one row a commit", asyncio.run(_commits(told["folder"])), "commits/s"
        yield f"{name}: W1 chain of 1,000 steps", _median(told, w1), "steps/s"
        yield f"{name}: W2 loop of 10,000, 100 in flight", _median(told, w2), "items/s"
        many = [asyncio.run(_with(told, w3)) for _ in range(RUNS)]
        yield f"{name}: W3 1,000 executions of 3 steps", median(rate for rate, _, _ in many), "exec/s"
        yield f"{name}: W3 p50", median(p50 for _, p50, _ in many), "s"
        yield f"{name}: W3 p99", median(p99 for _, _, p99 in many), "s"
        yield f"{name}: W4 50 × 20 pages, 10 at once", _median(told, w4), "pages/s"
        yield from waits_rows(name, asyncio.run(_with(told, w6)))


def _median(told: dict[str, Any], work: Callable[[Client], Coroutine[Any, Any, float]]) -> float:
    rates: list[float] = [asyncio.run(_with(told, work)) for _ in range(RUNS)]
    return median(rates)


async def _with(told: dict[str, Any], work: Callable[[Client], Coroutine[Any, Any, Any]]) -> Any:
    async with Client(told["url"], Path(told["token_file"]).read_text().strip()) as client:
        return await work(client)


@contextmanager
def open_trial_cluster(
    folder: Path, workers: int = 2, slots: int = SLOTS, server_slots: int = 0
) -> Iterator[dict[str, Any]]:
    """`noetl up` with its defaults; tasks may use the page server of this machine."""
    folder.chmod(0o711)  # the database may run as another user
    command = [str(Path(sys.executable).with_name("noetl")), "up", "--dir", str(folder / "up"), "--port", "0"]
    sizes = {"--workers": workers, "--slots": slots, "--server-slots": server_slots}
    options = [*(str(part) for size in sizes.items() for part in size), "--format", "json"]
    environment = {**os.environ, "NOETL_ALLOW_NETWORKS": "127.0.0.0/8"}
    running = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, env=environment, text=True)
    try:
        assert running.stdout is not None
        yield json.loads(running.stdout.readline())
    finally:
        running.send_signal(signal.SIGINT)
        running.wait(60)


async def _commits(folder: str) -> float:
    """Commits per second of one client that waits for each commit."""
    settings = dict(
        line.split("=", 1) for line in (Path(folder) / "environment").read_text().splitlines() if "=" in line
    )
    connection = await asyncpg.connect(settings["NOETL_DB"].strip("'\""))
    await connection.execute("CREATE TABLE floor (id bigserial PRIMARY KEY, body text)")
    begun, commits = time.perf_counter(), scaled(1_000, 50)
    for _ in range(commits):
        await connection.execute("INSERT INTO floor (body) VALUES ($1)", "x" * 600)
    spent = time.perf_counter() - begun
    await connection.execute("DROP TABLE floor")
    await connection.close()
    return commits / spent


async def _run(client: Client, text: str, workload: dict[str, Any] | None = None) -> float:
    registered = await client.register(text)
    begun = time.perf_counter()
    await _finish(client, registered.path, workload)
    return time.perf_counter() - begun


async def _finish(client: Client, path: str, workload: dict[str, Any] | None = None) -> None:
    run = await client.run(path, workload or {}, timeout_s=WAIT_S)
    assert run.status == "ok", run


async def w1(client: Client) -> float:
    return CHAIN_STEPS / await _run(client, chain())


async def w2(client: Client) -> float:
    return LOOP_ITEMS / await _run(client, FAN_OUT)


async def w3(client: Client) -> tuple[float, float, float]:
    registered = await client.register(THREE)
    spent: list[float] = []

    async def one() -> None:
        await _finish(client, registered.path)
        spent.append(time.perf_counter() - begun)

    begun = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(MANY)))
    total = time.perf_counter() - begun
    return MANY / total, median(spent), quantiles(spent, n=100)[98]


async def w4(client: Client) -> float:
    with page_server() as url:
        await _run(client, PAGES, {"url": url, "endpoints": 4})
        return 50 * 20 / await _run(client, PAGES, {"url": url})


async def w6(client: Client) -> Measured:
    with page_server() as url:
        path = (await client.register(WAITS)).path
        workload = {"url": waiting_url(url), "tasks": WAITS_EACH}
        await _finish(client, path, {**workload, "tasks": 4})
        return await waited(WAITING, WAITS_EACH, lambda: _finish(client, path, workload))
