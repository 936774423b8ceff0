"""Background tasks: their references, their errors and their cancellation."""

from __future__ import annotations

import asyncio

from noetl.background import BackgroundTasks
from noetl.slices import turn


def test_all_handlers_receive_the_error_of_a_task() -> None:
    errors: list[tuple[str, BaseException]] = []

    async def fail() -> None:
        raise ValueError("a bug")

    async def main() -> None:
        tasks = BackgroundTasks([lambda e: errors.append(("a", e)), lambda e: errors.append(("b", e))])
        tasks.spawn(fail())
        while len(errors) < 2:
            await turn()

    asyncio.run(main())
    assert [(name, str(error)) for name, error in errors] == [("a", "a bug"), ("b", "a bug")]


def test_cancelled_tasks_end_and_are_no_errors() -> None:
    ended: list[str] = []
    errors: list[BaseException] = []

    async def wait(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    async def main() -> None:
        tasks = BackgroundTasks([errors.append])
        tasks.spawn(wait("a"))
        tasks.spawn(wait("b"))
        await turn()
        await tasks.cancel()

    asyncio.run(main())
    assert (sorted(ended), errors) == (["a", "b"], [])


def test_without_a_handler_asyncio_reports_the_error() -> None:
    reported: list[object] = []

    async def fail() -> None:
        raise ValueError("a bug")

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context))
        tasks = BackgroundTasks()
        tasks.spawn(fail())
        for _ in range(3):
            await turn()

    asyncio.run(main())
    assert len(reported) == 1
