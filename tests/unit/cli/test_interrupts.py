"""Signals to this process: the first cancels the work, the second cancels the cleanup after it."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from noetl.cli.interrupts import Interrupted, Interrupts


def test_work_that_ends_before_a_signal_gives_its_value() -> None:
    async def work() -> int:
        return 3

    async def main() -> int:
        with Interrupts(lambda: None) as interrupts:
            return await interrupts.unless(work())

    assert asyncio.run(main()) == 3


def test_an_error_of_the_work_is_its_own() -> None:
    async def work() -> None:
        raise LookupError

    async def main() -> None:
        with Interrupts(lambda: None) as interrupts:
            await interrupts.unless(work())

    with pytest.raises(LookupError):
        asyncio.run(main())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_gives_work_up_and_the_second_what_follows_it(number: signal.Signals) -> None:
    said: list[str] = []

    async def work(name: str) -> None:
        try:
            os.kill(os.getpid(), number)
            await asyncio.get_running_loop().create_future()
        finally:
            said.append(name)

    async def main() -> None:
        with Interrupts(lambda: said.append("heard")) as interrupts:
            with pytest.raises(Interrupted):
                await interrupts.unless(work("first"))
            with pytest.raises(Interrupted):
                await interrupts.unless_again(work("second"))

    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    asyncio.run(main())
    assert said == ["heard", "first", "second"]
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before
