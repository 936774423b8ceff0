"""The health data of a server on a database file: commits are timed, and the age of waiting frames is known."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from noetl.defaults import EMBEDDED_SLOTS
from noetl.runtime.local_server import LocalServer, open_local_server
from noetl.server.app import make_app
from noetl.server.http_server import HttpServer
from noetl.server.services import ServerSettings
from noetl.telemetry.history import INTERVAL_S, MetricsHistory
from noetl.testing import FakeClock
from tests.api.servers import HELLO, Api
from tests.playbooks import HEAD

LOOP = HEAD.replace("path: t", "path: wide") + (
    "workload: {url: '', items: 1}\nworkflow:\n- step: start\n"
    '  loop: {in: "{{ range(workload.items) }}", iterator: n, spec: {mode: parallel, max_in_flight: 200}}\n'
    '  tool: {kind: http, url: "{{ workload.url }}"}\n'
)
OTHER_POOL = HEAD.replace("path: t", "path: other") + (
    "workflow:\n- {step: start, spec: {pool: gpu}, tool: {kind: noop}}\n"
)


class HeldCalls:
    """An HTTP server whose answers wait until `release`."""

    def __init__(self) -> None:
        self.begun = 0
        self.url = ""
        self._released = asyncio.Event()

    def release(self) -> None:
        self._released.set()

    async def until_begun(self, count: int) -> None:
        while self.begun < count:
            await asyncio.to_thread(lambda: None)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.begun += 1
        await self._released.wait()
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        writer.close()


@asynccontextmanager
async def held_calls() -> AsyncIterator[HeldCalls]:
    held = HeldCalls()
    listening = await asyncio.start_server(held.answer, "127.0.0.1", 0, backlog=200)
    held.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
    try:
        yield held
    finally:
        held.release()
        listening.close()


@asynccontextmanager
async def api_of(local: LocalServer, history: MetricsHistory) -> AsyncIterator[Api]:
    serving = HttpServer(make_app(local.services, ServerSettings(open=True, history=history)))
    serving.start()
    try:
        async with aiohttp.ClientSession() as session:
            yield Api(session, serving.url, None)
    finally:
        await serving.stop()


def serve(path: Path, clock: FakeClock, work: Callable[[LocalServer, MetricsHistory, Api], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(60), open_local_server(path, clock, served=False) as local:
            history = MetricsHistory(local.instruments.metrics, clock)
            async with api_of(local, history) as api:
                await work(local, history, api)

    asyncio.run(whole())


async def start(local: LocalServer, text: str, **workload: Any) -> str:
    return await local.runtime.start(await local.runtime.playbooks.add(text, None), workload)


def test_commits_and_reads_of_the_log_are_timed(tmp_path: Path) -> None:
    clock = FakeClock(tick_s=0.001)

    async def work(local: LocalServer, history: MetricsHistory, api: Api) -> None:
        history.take()
        id = await api.run(HELLO)
        clock.advance(INTERVAL_S)
        history.take()
        [point] = (await api.get("/health/history"))["points"]
        assert point["commit_ms"] >= 1, "each reading of the clock takes a millisecond"
        store = local.instruments.metrics.store
        assert store.appends.values["ok"] == len(await local.runtime.storage.store.read(id))
        assert "status" in store.read_s.cells

    serve(tmp_path / "n.db", clock, work)


@pytest.mark.parametrize(
    ("text", "pool"), [pytest.param(LOOP, "default", id="its pool"), pytest.param(OTHER_POOL, "gpu", id="another pool")]
)
def test_a_frame_that_waits_while_all_slots_are_busy_has_an_age_and_alerts(
    text: str, pool: str, tmp_path: Path
) -> None:
    clock = FakeClock()

    async def work(local: LocalServer, history: MetricsHistory, api: Api) -> None:
        async with held_calls() as held:
            first = await start(local, LOOP, url=held.url, items=EMBEDDED_SLOTS)
            await held.until_begun(EMBEDDED_SLOTS)
            second = await start(local, text, **({"url": held.url} if text is LOOP else {}))
            for seconds in range(0, 135, 3):
                clock.advance(3)
                await clock.settle()  # heartbeats and sweeps
                if seconds % INTERVAL_S == 0:
                    history.take()
            answer = await api.get("/health/history", seconds=600)
            assert answer["points"][-1]["oldest_s"] > 100
            [alert] = [each for each in answer["alerts"] if each["state"] != "ok"]
            assert (alert["name"], alert["state"]) == ("NoetlWorkWaits", "firing")
            assert alert["detail"].startswith(f"the first waiting frame of {pool}: 1")
            assert local.runtime.control.dispatch.lost == 0
            held.release()
            for id in (first, second):
                assert (await local.runtime.wait_until_idle(id)).status == "ok"
        history.take()
        assert history.samples[-1].oldest_s == 0

    serve(tmp_path / "n.db", clock, work)
