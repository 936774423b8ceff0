"""Contract tests: an adapter or a tool is correct if a subclass of its contract passes.

The tests need no pytest plugin: `async_test` runs each of them in an event loop of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Final, TypeVar

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


def opened_test(method: str) -> Callable[[Callable[[Any, Any], Awaitable[None]]], Callable[[Any], None]]:
    """Run a test method in a new event loop, with the value of the context manager that `method` returns."""

    def decorated(test: Callable[[Any, Any], Awaitable[None]]) -> Callable[[Any], None]:
        async def run(self: Any) -> None:
            async with getattr(self, method)() as opened:
                await test(self, opened)

        run.__name__, run.__doc__ = test.__name__, test.__doc__  # not its parameters: pytest would look for fixtures
        return async_test(run)

    return decorated


async def error_of(work: Awaitable[object]) -> NoetlError | None:
    """The error that it raises."""
    try:
        await work
    except NoetlError as error:
        return error
    return None
