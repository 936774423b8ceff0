"""Contract tests: an adapter or a tool is correct if a subclass of its contract passes.

The tests need no pytest plugin: `async_test` runs each of them in an event loop of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Final, TypeVar

from noetl.errors import NoetlError

TIMEOUT_S: Final = 600.0  # for an adapter that hangs
T = TypeVar("T")


def async_test(test: Callable[[T], Awaitable[None]]) -> Callable[[T], None]:
    """Run a test method in a new event loop."""

    @wraps(test)
    def run(self: T) -> None:
        async def main() -> None:
            async with asyncio.timeout(TIMEOUT_S):
                await test(self)

        asyncio.run(main())

    return run


async def error_of(work: Awaitable[object]) -> NoetlError | None:
    """The error that it raises."""
    try:
        await work
    except NoetlError as error:
        return error
    return None
