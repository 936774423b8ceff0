"""Questions to PostgreSQL that come at the same time go together: one statement answers many of them.

What comes while statements are out gathers for the next one, without a timer, as appends do. Nobody joins a
statement that is out: an answer knows everything that was on record when it was asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import islice
from typing import Final, Generic, TypeVar

from noetl.errors import Unavailable

OUT_MAX: Final = 2  # statements at once: one on a line that has gone silent does not keep all others waiting

Question = TypeVar("Question")
Found = TypeVar("Found")


class Gathering(Generic[Question, Found]):
    """Questions of one kind. Whoever asks the same as another who waits shares his place."""

    def __init__(
        self, ask_all: Callable[[list[Question]], Awaitable[Sequence[Found]]], at_once: int = 256
    ) -> None:
        """`ask_all`: the answers, in the order of the questions; of these at most `at_once` come together."""
        self._ask_all = ask_all
        self._at_once = at_once
        self._waiting: dict[Question, list[asyncio.Future[Found]]] = {}
        self._asking: set[asyncio.Task[None] | None] = set()

    async def ask(self, question: Question) -> Found:
        """Raises Unavailable."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Found] = loop.create_future()
        self._waiting.setdefault(question, []).append(answer)
        if len(self._asking) < OUT_MAX:
            self._asking.add(loop.create_task(self._ask_on()))
        return await answer

    async def _ask_on(self) -> None:
        try:
            while self._waiting:
                some = list(islice(self._waiting, self._at_once))
                await self._ask(some, [self._waiting.pop(each) for each in some])
        finally:  # in the same turn in which nobody waits: whoever comes next finds nobody at it
            self._asking.discard(asyncio.current_task())

    async def _ask(self, questions: list[Question], answers: list[list[asyncio.Future[Found]]]) -> None:
        try:
            found = await self._ask_all(questions)
        except Unavailable as error:
            _refuse(answers, str(error))
        except BaseException:
            _refuse([*answers, *self._waiting.values()], "the process is ending")
            self._waiting.clear()
            raise
        else:
            for some, value in zip(answers, found, strict=True):
                for each in some:
                    if not each.done():  # otherwise nobody waits any more
                        each.set_result(value)


def _refuse(answers: Iterable[list[asyncio.Future[Found]]], words: str) -> None:
    for some in answers:
        for each in some:
            if not each.done():
                each.set_exception(Unavailable(words))  # one for each, with its own traceback
