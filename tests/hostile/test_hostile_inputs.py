"""More than 200 hostile HTTP responses and 200 hostile playbook texts, while another user works on the same server.

No process ends, every request gets an answer, the other user's executions end, and the memory stays small. The times
of the other user's requests are printed and not asserted, because the machine may be busy. The other user sends each
request also to a second server, which is not attacked: the machine is as busy for both, so the difference is the
harm that the attack does.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple

import aiohttp

from noetl.clock import SystemClock
from tests.api.servers import NOOP, Api
from tests.conftest import Measuring
from tests.e2e.processes import NOETL, Workspace
from tests.hostile.responses import cases
from tests.hostile.texts import Text, texts

ROOT = Path(__file__).parents[2]
MEMORY_MB_MAX = 300
QUIET_REQUESTS = 50  # of the other user, before the attack
FETCH = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: fetch, path: fetch}
workload: {urls: []}
workflow:
- step: start
  spec: {policy: {failure: {mode: best_effort}}}
  loop: {in: "{{ workload.urls }}", iterator: url, spec: {mode: parallel, max_in_flight: 4}}
  tool:
    kind: http
    url: "{{ iter.url }}"
    spec: {timeout: {total: 10, connect: 9}, memory_mb: 64, max_bytes: 16000000}
"""


class Neighbour(NamedTuple):
    """Another user of a server."""

    api: Api
    waits: list[float]  # milliseconds of each of its executions, after QUIET_REQUESTS

    async def work(self) -> None:
        clock = SystemClock()
        begun = clock.monotonic()
        await self.api.run(NOOP)
        self.waits.append((clock.monotonic() - begun) * 1_000)

    @property
    def p99_ms(self) -> float:
        assert len(self.waits) > 10
        return quantiles(self.waits, n=100, method="inclusive")[98]


class Target(NamedTuple):
    attacker: Api
    neighbour: Neighbour
    pid: int

    @property
    def peak_mb(self) -> int:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))


@asynccontextmanager
async def running_server(folder: Path, **variables: str) -> AsyncIterator[Target]:
    """`noetl server` with two tokens, and with these environment variables."""
    workspace = Workspace(folder)
    workspace.environment.update(variables)
    workspace.environment["NOETL_ALLOW_NETWORKS"] = "127.0.0.0/8"
    tokens = [
        json.loads(workspace.call("token", "create", name, "--scope", "admin", "--format", "json").stdout)["token"]
        for name in ("attacker", "neighbour")
    ]
    with (folder / "log").open("wb") as log, subprocess.Popen(  # a pipe that is not read would fill up
        [NOETL, "server", "--db", workspace.db, "--port", "0", "--auth"], env=workspace.environment, cwd=folder, stderr=log
    ) as process:  # fmt: skip
        try:
            url = await _address(folder / "log", process)
            async with aiohttp.ClientSession() as session:
                attacker, other = (Api(session, url, token) for token in tokens)
                target = Target(attacker, Neighbour(other, []), process.pid)
                for _ in range(QUIET_REQUESTS):
                    await target.neighbour.work()
                target.neighbour.waits.clear()
                yield target
            assert process.poll() is None, "the server has ended"
            process.terminate()
            assert process.wait(60) == 0
        finally:
            process.kill()


async def _address(log: Path, process: subprocess.Popen[bytes]) -> str:
    while not (found := re.search(r"http://127\.0\.0\.1:\d+", log.read_text())):
        assert process.poll() is None, log.read_text()
        await SystemClock().sleep(0.02)
    return found[0]


@asynccontextmanager
async def two_servers(folder: Path) -> AsyncIterator[tuple[Target, Neighbour]]:
    """One to attack, and the same user on another one."""
    for name in ("attacked", "calm"):
        (folder / name).mkdir()
    async with running_server(folder / "attacked") as target, running_server(folder / "calm") as calm:
        yield target, calm.neighbour


async def work_during(attack: Awaitable[None], *neighbours: Neighbour) -> None:
    running = asyncio.ensure_future(attack)
    while not running.done():
        for each in neighbours:
            await each.work()
        await asyncio.wait((running,), timeout=0.01)
    await running


def report(what: str, target: Target, calm: Neighbour, figure: Measuring) -> None:
    here, there = target.neighbour.p99_ms, calm.p99_ms
    print(
        f"{what}: p99 of the other user {here:.0f} ms, on a server that is not attacked {there:.0f} ms:"
        f" {here / there:.2f} times as long ({len(calm.waits)} executions each)"
    )
    figure(f"{what}, memory of the server", target.peak_mb, at_most=MEMORY_MB_MAX, unit="MB")


def test_hostile_responses_harm_nobody(tmp_path: Path, figure: Measuring) -> None:
    table = cases()
    assert len({case.name for case in table}) == len(table) >= 200

    async def attack(target: Target, port: str) -> None:
        await target.attacker.register(FETCH)
        # Each case has another address, so that no connection is used for two of them.
        urls = [f"http://127.0.{number // 250 + 1}.{number % 250 + 1}:{port}/{number}" for number in range(len(table))]
        request = {"path": "fetch", "workload": {"urls": urls}}
        id = (await target.attacker.post("/executions", request, status=201))["execution_id"]
        while (found := await target.attacker.get(f"/executions/{id}"))["status"] == "running":
            await SystemClock().sleep(0.1)
        assert found["status"] == "ok"  # the step accepts failed iterations

    async def work() -> None:
        async with asyncio.timeout(400), two_servers(tmp_path) as (target, calm):
            with subprocess.Popen(
                [sys.executable, "-m", "tests.hostile.responses"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True,
            ) as hostile:  # fmt: skip
                assert hostile.stdout is not None
                port = hostile.stdout.readline().strip()
                await work_during(attack(target, port), target.neighbour, calm)
                served = json.loads(hostile.communicate()[0])
            assert served == sorted(case.name for case in table)
            report(f"{len(table)} hostile responses", target, calm, figure)

    asyncio.run(work())


def test_hostile_texts_harm_nobody(tmp_path: Path, figure: Measuring) -> None:
    table = texts()
    assert len({text.name for text in table}) == len(table) >= 200
    found: Counter[int] = Counter()

    async def send(target: Target, text: Text) -> None:
        for path in ("/playbooks/check", "/playbooks/explain", "/playbooks/graph", "/playbooks"):
            answer = await target.attacker.ask("POST", path, text.body, headers={"Content-Type": "text/yaml"})
            assert answer.status in (200, 201, 400, 413, 422), (text.name, path, answer.status, answer.body[:500])
            found[answer.status] += 1

    async def attack(target: Target) -> None:
        places = asyncio.Semaphore(4)

        async def one(text: Text) -> None:
            async with places:
                await send(target, text)

        await asyncio.gather(*(one(text) for text in table))

    async def work() -> None:
        async with asyncio.timeout(500), two_servers(tmp_path) as (target, calm):
            await work_during(attack(target), target.neighbour, calm)
            print(dict(found))
            report(f"{len(table)} hostile texts", target, calm, figure)

    asyncio.run(work())
    assert found.total() == 4 * len(table)
