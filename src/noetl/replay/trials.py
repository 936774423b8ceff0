"""Tests and what-ifs for a server: each runs in a process of its own, with limits, and reads through the server."""

from __future__ import annotations

import asyncio
from typing import Final, TypeVar

import msgspec

from noetl.api.trials import TestsRequest, TestsResponse, WhatIfResponse
from noetl.errors import Damaged, NotFound, Rejected, Unavailable
from noetl.replay.trial_process import Ask, Done, ReadReply, TestsTrial, WhatIfTrial
from noetl.server.child_process import ChildProcess, MessageTooLarge
from noetl.server.services import RecordReads, WhatIfSpec

PROCESSES_MAX: Final = 2  # at the same time
WAITING_MAX: Final = 8
TRIAL_S: Final = 90.0
ASKED_BYTES_MAX: Final = 256 << 20  # that one process may read
MESSAGE_BYTES_MAX: Final = 16 << 20  # of a response
_MODULE: Final = "noetl.replay.trial_process"

T = TypeVar("T")


class TrialProcesses:
    """Implements Trials."""

    def __init__(self, trial_s: float = TRIAL_S) -> None:
        self._trial_s = trial_s
        self._slots = asyncio.Semaphore(PROCESSES_MAX)
        self._waiting = 0

    async def test(self, request: TestsRequest) -> TestsResponse:
        return await self._run(TestsTrial(request=request), None, TestsResponse)

    async def what_if(self, spec: WhatIfSpec, reads: RecordReads) -> WhatIfResponse:
        trial = WhatIfTrial(text=spec.text, executions=tuple(spec.executions), on_miss=spec.on_miss)
        return await self._run(trial, reads, WhatIfResponse)

    async def _run(self, trial: TestsTrial | WhatIfTrial, reads: RecordReads | None, response: type[T]) -> T:
        if self._waiting >= WAITING_MAX:
            raise Unavailable(f"{self._waiting} other tests and what-ifs wait: try again")
        self._waiting += 1
        try:
            async with self._slots:
                return msgspec.json.decode(await _run_process(trial, reads, self._trial_s), type=response)
        finally:
            self._waiting -= 1


async def _run_process(trial: TestsTrial | WhatIfTrial, reads: RecordReads | None, trial_s: float) -> bytes:
    process = await ChildProcess.start(_MODULE)
    try:
        async with asyncio.timeout(trial_s):
            return await _Conversation(process, reads).response(trial)
    except TimeoutError:
        raise Rejected(
            "too-large", f"it did not end within {trial_s:g} s: run fewer tests, or compare fewer executions"
        ) from None
    except EOFError:
        raise Rejected(
            "too-large", "it needs too much memory or CPU time: run fewer tests, or compare fewer executions"
        ) from None
    except MessageTooLarge:
        raise Rejected(
            "too-large",
            f"the report has more than {MESSAGE_BYTES_MAX >> 20} MiB: run fewer tests, or compare fewer executions",
        ) from None
    finally:
        await process.end()


class _Conversation:
    """The questions of the process, and the answers to them."""

    def __init__(self, process: ChildProcess, reads: RecordReads | None) -> None:
        self._process = process
        self._reads = reads
        self._sent_bytes = 0

    async def response(self, trial: TestsTrial | WhatIfTrial) -> bytes:
        await self._process.send(trial)
        while True:
            message = msgspec.msgpack.decode(await self._process.receive(MESSAGE_BYTES_MAX), type=Ask | Done)
            if isinstance(message, Done):
                return message.body
            await self._process.send(await self._reply(message))

    async def _reply(self, ask: Ask) -> ReadReply:
        if self._reads is None:
            return ReadReply(missing="tests read nothing")
        try:
            match ask.kind:
                case "rows":
                    body = msgspec.msgpack.encode(await self._reads.rows(ask.name))
                case "text":
                    body = msgspec.msgpack.encode(await self._reads.text(ask.name))
                case "result":
                    body = await self._reads.result(ask.ref)
        except (NotFound, Damaged, Rejected) as error:
            return ReadReply(missing=str(error))
        self._sent_bytes += len(body)
        if self._sent_bytes > ASKED_BYTES_MAX:
            raise Rejected("too-large", f"the executions have more than {ASKED_BYTES_MAX >> 20} MiB: try fewer")
        return ReadReply(body=body)
