"""In-memory runtimes for the unit tests of control and worker: one function answers all calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from noetl.clock import Clock
from noetl.control.deps import ControlSettings
from noetl.engine.moves import RunTask
from noetl.output import Output
from noetl.testing import runtime
from noetl.testing.memory_runtime import MemoryRuntime, RuntimeParts
from noetl.tool import Tool
from tests.playbooks import HEAD

T = TypeVar("T")
Answer = Callable[[RunTask], Awaitable[Output]]


async def echo(called: RunTask) -> Output:
    return Output(data=called.input or None)


def memory_runtime(
    bodies: dict[str, str],
    answer: Answer | dict[str, type[Tool]] = echo,
    settings: ControlSettings | None = None,
    *,
    clock: Clock | None = None,
    parts: RuntimeParts | None = None,
) -> MemoryRuntime:
    """A runtime whose playbooks are HEAD + body, by path. `run_in` adds the slots of the worker.

    `answer`: a function for all calls, or tool classes by kind.
    """
    texts = {path: HEAD + body for path, body in bodies.items()}
    return runtime(texts, tools=answer, settings=settings, clock=clock, parts=parts, slots=0)


def run_in(memory: MemoryRuntime, work: Callable[[MemoryRuntime], Awaitable[T]], slots: int = 4) -> T:
    async def main() -> T:
        async with asyncio.timeout(60), memory:
            memory.add_slots(slots)
            return await work(memory)

    return asyncio.run(main())
