"""Batched reads: concurrent reads of one kind share a statement.

Reads that arrive while statements run wait for the next one, without a timer. A read never joins a running
statement, so its result contains everything that was committed before the read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import islice
from typing import Final, Generic, TypeVar

from noetl.errors import Unavailable

STATEMENTS_MAX: Final = 2  # concurrent ones: a connection that hangs must not delay all other reads

Key = TypeVar("Key")
Value = TypeVar("Value")


class BatchedReads(Generic[Key, Value]):
    """Reads of one kind by key. Waiting reads of the same key share their result."""

    def __init__(self, read_all: Callable[[list[Key]], Awaitable[Sequence[Value]]], batch_max: int = 256) -> None:
        """`read_all`: the values in the order of the keys, for at most `batch_max` keys."""
        self._read_all = read_all
        self._batch_max = batch_max
        self._waiting: dict[Key, list[asyncio.Future[Value]]] = {}
        self._running: set[asyncio.Task[None] | None] = set()

    async def read(self, key: Key) -> Value:
        """Raises Unavailable."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[Value] = loop.create_future()
        self._waiting.setdefault(key, []).append(result)
        if len(self._running) < STATEMENTS_MAX:
            self._running.add(loop.create_task(self._run()))
        return await result

    async def _run(self) -> None:
        try:
            while self._waiting:
                keys = list(islice(self._waiting, self._batch_max))
                await self._read(keys, [self._waiting.pop(each) for each in keys])
        finally:  # in the same iteration in which no read waits: the next read starts a new task
            self._running.discard(asyncio.current_task())

    async def _read(self, keys: list[Key], results: list[list[asyncio.Future[Value]]]) -> None:
        try:
            values = await self._read_all(keys)
        except Unavailable as error:
            _fail(results, str(error))
        except BaseException:
            _fail([*results, *self._waiting.values()], "the process is ending")
            self._waiting.clear()
            raise
        else:
            for some, value in zip(results, values, strict=True):
                for each in some:
                    if not each.done():  # otherwise its caller was cancelled
                        each.set_result(value)


def _fail(results: Iterable[list[asyncio.Future[Value]]], message: str) -> None:
    for some in results:
        for each in some:
            if not each.done():
                each.set_exception(Unavailable(message))  # one for each, with its own traceback
