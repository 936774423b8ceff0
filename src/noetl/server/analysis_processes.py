"""Large texts are analysed in processes: in a thread they would take Python's lock from the event loop for seconds."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

import msgspec

from noetl.errors import PlaybookError, Rejected
from noetl.server.analysis import TextAnalysis, TooLargeToDraw
from noetl.server.analysis_process import Analysed, Answer, CannotDraw, HasProblems
from noetl.server.child_process import ChildProcess, MessageTooLarge

ANALYSIS_S: Final = 120.0
ANSWER_BYTES_MAX: Final = 256 << 20
IDLE_S: Final = 300.0  # until a process without work is ended; a new one needs about half a second
_MODULE: Final = "noetl.server.analysis_process"


class AnalysisProcesses:
    """Starts a process for each text that is analysed at the same time, and keeps one for the next text."""

    def __init__(self, analysis_s: float = ANALYSIS_S, idle_s: float = IDLE_S) -> None:
        self._analysis_s, self._idle_s = analysis_s, idle_s
        self._kept: ChildProcess | None = None
        self._expiry: asyncio.TimerHandle | None = None

    async def body(self, analysis: TextAnalysis) -> bytes:
        """Raises PlaybookError, TooLargeToDraw, or Rejected when it needs too much time or memory."""
        if (process := self._take()) is not None:
            with suppress(EOFError):  # it had died before
                return _body_of(await self._answer(process, analysis))
        try:
            return _body_of(await self._answer(await ChildProcess.start(_MODULE), analysis))
        except EOFError:
            raise Rejected("too-large", "the text needs too much memory") from None

    async def _answer(self, process: ChildProcess, analysis: TextAnalysis) -> Answer:
        """Raises EOFError when the process dies."""
        answer: Answer | None = None
        try:
            async with asyncio.timeout(self._analysis_s):
                await process.send(analysis)
                answer = msgspec.msgpack.decode(await process.receive(ANSWER_BYTES_MAX), type=Answer)
        except TimeoutError:
            raise Rejected("too-large", f"the text was not analysed within {self._analysis_s:g} s") from None
        except MessageTooLarge:
            raise Rejected("too-large", "the text needs too much memory") from None
        finally:
            if answer is None or answer.last or self._kept is not None:
                await process.end()
            else:
                self._keep(process)
        return answer

    def _take(self) -> ChildProcess | None:
        """The process that is kept; None: there is none."""
        process, self._kept = self._kept, None
        if self._expiry is not None:
            self._expiry.cancel()
        return process

    def _keep(self, process: ChildProcess) -> None:
        self._kept = process
        self._expiry = asyncio.get_running_loop().call_later(self._idle_s, self._expire)

    def _expire(self) -> None:
        if (process := self._take()) is not None:
            process.kill()

    async def close(self) -> None:
        if (process := self._take()) is not None:
            await process.end()


def _body_of(answer: Answer) -> bytes:
    match answer:
        case Analysed(body=body):
            return body
        case HasProblems(problems=problems, count=count):
            raise PlaybookError(problems, count)
        case CannotDraw(detail=detail):
            raise TooLargeToDraw(detail)
