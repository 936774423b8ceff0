"""CPU-bound work: a few run at once, some wait, more are rejected. A token has a share of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from noetl.server.errors import ApiError
from noetl.server.services import (
    SHARE_THREADS,
    SHARE_WAITING_MAX,
    THREADS,
    WAITING_MAX,
    CpuPool,
    ServerSettings,
    requester,
)
from tests.api.servers import NOOP, ApiServer, serve
from tests.playbooks import HEAD

LARGE = HEAD + "workflow:\n" + "".join(f"- step: s{n}\n  tool: {{kind: noop}}\n" for n in range(200))


class Work:
    """Calls in the pool that end when the test lets them."""

    def __init__(self) -> None:
        self.pool = CpuPool()
        self.go = threading.Event()
        self._running = threading.Semaphore(0)

    def __call__(self, value: int) -> int:
        self._running.release()
        assert self.go.wait(180)
        return value

    def start(self, token: str, value: int) -> asyncio.Task[int]:
        async def run() -> int:
            requester.set(token)
            return await self.pool.run(self, value)

        return asyncio.create_task(run())

    async def are_running(self, count: int) -> None:
        """Waits until so many calls have begun since the last time; no other may have."""
        for _ in range(count):
            assert await asyncio.to_thread(self._running.acquire, timeout=180)
        assert not self._running.acquire(blocking=False)


def test_running_and_waiting_work_is_limited() -> None:
    async def test() -> None:
        work = Work()
        tasks = [work.start(f"t{number}", number) for number in range(WAITING_MAX)]
        await work.are_running(THREADS)
        with pytest.raises(ApiError, match=f"{WAITING_MAX} other requests wait for the CPU: try again"):
            await work.start("another", 0)
        work.go.set()
        assert await asyncio.gather(*tasks) == list(range(WAITING_MAX))
        assert await work.start("another", 7) == 7

    asyncio.run(test())


def test_a_token_uses_its_share_and_others_do_not_wait_behind_it() -> None:
    async def test() -> None:
        work = Work()
        flood = [work.start("one", number) for number in range(SHARE_WAITING_MAX)]
        await work.are_running(SHARE_THREADS)
        with pytest.raises(ApiError, match=f"{SHARE_WAITING_MAX} requests with this token wait for the CPU"):
            await work.start("one", 0)
        other = work.start("other", 7)
        await work.are_running(1)  # it runs while all work of the first token waits
        work.go.set()
        assert await other == 7
        assert await asyncio.gather(*flood) == list(range(SHARE_WAITING_MAX))

    asyncio.run(test())


def test_the_check_of_one_token_ends_while_another_floods_the_server(tmp_path: Path) -> None:
    async def test(server: ApiServer) -> None:
        one, other = await server.token("read", name="one"), await server.token("read", name="other")

        def check(token: str, text: str) -> Coroutine[Any, Any, Any]:
            return server.api.ask("POST", "/playbooks/check", {"text": text}, token=token)

        flood = [asyncio.create_task(check(one, LARGE)) for _ in range(SHARE_WAITING_MAX)]
        await asyncio.wait(flood, return_when=asyncio.FIRST_COMPLETED)  # now the first token uses its share
        answer = await check(other, NOOP)
        assert (answer.status, answer.json["ok"]) == (200, True)
        assert sum(task.done() for task in flood) <= len(flood) // 2, "it did not wait behind the first token"
        assert {(await task).status for task in flood} == {200}

    serve(tmp_path, test, ServerSettings())
