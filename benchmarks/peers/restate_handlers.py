"""The handlers for Restate: every `ctx.run` is an entry of the journal before it returns.

Hypercorn serves them in a separate process, as is usual for Python services of Restate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import aiohttp
import restate  # type: ignore[import-not-found]  # lives in .bench

from benchmarks.peers.orders import ITEMS_AT_ONCE, walked

Function = TypeVar("Function", bound=Callable[..., Any])
service = restate.Service("bench")
handler: Callable[[Function], Function] = service.handler()
sessions: list[aiohttp.ClientSession] = []  # created when the event loop runs


async def noop(number: int) -> dict[str, int]:
    return {"n": number}


async def page(url: str, number: int) -> Any:
    if not sessions:
        sessions.append(aiohttp.ClientSession())
    async with sessions[0].get(url, params={"page": number}) as response:
        return await response.json()


@handler
async def chain(ctx: Any, steps: int) -> None:
    for number in range(steps):
        await ctx.run_typed("noop", noop, number=number)


@handler
async def fan_out(ctx: Any, items: int) -> None:
    """In batches, because a replay would not acquire a semaphore in the same order."""
    for first in range(0, items, ITEMS_AT_ONCE):
        wave = range(first, min(first + ITEMS_AT_ONCE, items))
        await restate.gather(*(ctx.run_typed("noop", noop, number=number) for number in wave))


@handler
async def endpoint(ctx: Any, url: str) -> int:
    return await walked(lambda number: ctx.run_typed("page", page, url=url, number=number))


@handler
async def waits(ctx: Any, asked: dict[str, Any]) -> None:
    for number in range(asked["tasks"]):
        await ctx.run_typed("page", page, url=asked["url"], number=number)


app = restate.app([service])
