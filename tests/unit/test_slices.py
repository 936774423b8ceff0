"""A busy event loop lets threads have their turn."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Awaitable, Callable

from noetl.slices import computing_thread, long_turn, turn

ROUNDS = 8
NUMBERS = 1_000_000  # some ten times the interval at which Python asks for its lock


def test_a_thread_can_compute_beside_a_long_computation() -> None:
    """Both times are CPU time, so they do not depend on what else the machine does."""
    rounds = [asyncio.run(_compute_beside(long_turn)) for _ in range(ROUNDS)]
    assert sum(loop_s for loop_s, _ in rounds) < sum(thread_s for _, thread_s in rounds), rounds


def test_a_thread_that_is_known_to_compute_can_do_so_beside_any_work() -> None:
    usual = sys.getswitchinterval()

    async def go() -> tuple[float, float]:
        with computing_thread(), computing_thread():
            return await _compute_beside(turn)

    rounds = [asyncio.run(go()) for _ in range(ROUNDS)]
    assert sum(loop_s for loop_s, _ in rounds) < 3 * sum(thread_s for _, thread_s in rounds), rounds
    assert sys.getswitchinterval() == usual


async def _compute_beside(turns: Callable[[], Awaitable[None]]) -> tuple[float, float]:
    """CPU time of the loop and of the thread, until the thread has its result."""
    used: list[float] = []

    def compute() -> None:
        begun = time.thread_time()
        sum(number % 7 for number in range(NUMBERS))
        used.append(time.thread_time() - begun)

    thread = threading.Thread(target=compute)
    begun = time.thread_time()
    thread.start()
    while not used:
        sum(number % 7 for number in range(1_000))
        await turns()
    loop_s = time.thread_time() - begun
    thread.join()
    return loop_s, used[0]
