"""Calls that run in the process that decides: a file survives it, and shows which call may have ended it."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

from noetl.adapters.process_locks import LockFile, is_alive, lock_files, remove_lock
from noetl.adapters.running_calls import RunningCalls
from noetl.clock import Clock
from noetl.engine.commands import Lose
from noetl.engine.moves import RunTask
from noetl.errors import Conflict, Damaged, Fenced, NotFound, PlaybookError, Rejected, Unavailable
from noetl.output import Output
from noetl.ports import Link
from noetl.runtime.settings import data_folder
from noetl.telemetry.logs import Logger
from noetl.worker.calls import CallContext, ToolRun
from noetl.worker.frame_driver import CURRENT_FRAME

REPORT_AGAIN_S = 0.2  # shorter than the time that a new owner waits for workers before it dispatches frames again
REPORTED_AT_ONCE = 64  # requests


class WrittenCalls:
    """A ToolRun that writes each call with an effect to a file before it makes the call."""

    def __init__(
        self, tool: ToolRun, running: RunningCalls, is_written: Callable[[str], bool] = lambda _execution_id: True
    ) -> None:
        """`is_written`: whether the calls of an execution are written."""
        self._tool = tool
        self._running = running
        self._is_written = is_written

    def __call__(self, called: RunTask, context: CallContext) -> Awaitable[Output]:
        return (self._tool if called.task.pure else self._write)(called, context)

    async def _write(self, called: RunTask, context: CallContext) -> Output:
        current = CURRENT_FRAME.get()
        if current is None or not self._is_written(current[0]):
            return await self._tool(called, context)
        slot = self._running.begin(*current)
        try:
            return await self._tool(called, context)
        finally:
            self._running.end(slot)


class ServerCalls:
    """The running calls of a server that runs tasks, in a folder of the user: a server has no database file."""

    def __init__(self, database: str, clock: Clock, log: Logger, environment: Mapping[str, str] = os.environ) -> None:
        """`database`: its address. Servers of other databases use other folders. Raises Unavailable."""
        name = hashlib.sha256(database.encode()).hexdigest()[:16]
        folder = self._folder = data_folder(environment) / "servers" / name
        self._lock = lock = LockFile(folder, f"{clock.new_id()}.lock")
        self._clock, self._log = clock, log
        # Only the owner of an execution knows whether it has ended: an entry stays until the owner has answered.
        self.running = RunningCalls(folder, lambda: lock, lambda _execution_id: True)

    async def report(self, link: Link) -> None:
        """Record the calls that dead servers of this machine were running, with the owners of their executions.

        The owner died with the call, so that only the file knows of it.
        """
        requests = asyncio.Semaphore(REPORTED_AT_ONCE)

        async def send(execution_id: str, lost: Lose) -> None:
            async with requests:
                await link.command(execution_id, lost)

        await asyncio.gather(*(self._report(send, *each) for each in self.running.all_lost().items()))
        for name in lock_files(self._folder):
            with suppress(Unavailable):
                if not is_alive(self._folder, name):
                    remove_lock(self._folder, name)

    async def _report(
        self, send: Callable[[str, Lose], Awaitable[None]], execution_id: str, calls: Sequence[Lose]
    ) -> None:
        for lost in calls:
            while True:
                try:
                    with suppress(Rejected, NotFound):  # the execution has ended
                        await send(execution_id, lost)
                    break
                except (Unavailable, Conflict, Fenced):  # its owner is changing
                    await self._clock.sleep(REPORT_AGAIN_S)
                except (PlaybookError, Damaged) as error:
                    # Its owner cannot load it, and so does not repeat the call either. Another owner may, for example
                    # one where all tools are installed. So the entries stay: the next server here sends them again.
                    self._log.warning("calls.not-recorded", execution_id=execution_id, error=error)
                    return
        self.running.forget(execution_id)

    def close(self) -> None:
        self.running.close()
        self._lock.close()
