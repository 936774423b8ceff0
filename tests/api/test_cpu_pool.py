"""CPU-bound work: a few run at once, some wait, more are rejected."""

from __future__ import annotations

import asyncio
import threading

import pytest

from noetl.server.errors import ApiError
from noetl.server.services import THREADS, WAITING_MAX, CpuPool


def test_running_and_waiting_work_is_limited() -> None:
    async def work() -> None:
        pool = CpuPool()
        go = threading.Event()
        running = threading.Semaphore(0)

        def wait(value: int) -> int:
            running.release()
            assert go.wait(180)
            return value

        tasks = [asyncio.ensure_future(pool.run(wait, number)) for number in range(WAITING_MAX)]
        for _ in range(THREADS):
            assert await asyncio.to_thread(running.acquire, timeout=180)
        assert not running.acquire(blocking=False)
        with pytest.raises(ApiError, match="try again"):
            await pool.run(wait, 0)
        go.set()
        assert await asyncio.gather(*tasks) == list(range(WAITING_MAX))
        assert await pool.run(wait, 7) == 7

    asyncio.run(work())
