"""Work with a file on another thread, waited for whatever happens: it has our descriptors in its hands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(work: Callable[P, T], /, *values: P.args, **named: P.kwargs) -> T:
    """As asyncio.to_thread, and a cancellation takes effect when the thread is done.

    Otherwise whoever cleans up would close a descriptor that the thread still writes to, and its number may
    be another file's by then.
    """
    running = asyncio.ensure_future(asyncio.to_thread(work, *values, **named))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # seen: the cancellation is what counts
        raise
