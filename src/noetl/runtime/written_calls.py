"""Calls that run in the process that decides: a file survives it, and shows which call may have ended it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from noetl.adapters.process_locks import LockFile, is_alive, lock_files, remove_lock
from noetl.adapters.running_calls import RunningCalls
from noetl.clock import Clock
from noetl.engine.moves import RunTask
from noetl.errors import NotFound, Rejected, Unavailable
from noetl.output import Output
from noetl.ports import Link
from noetl.runtime.settings import data_folder
from noetl.worker.calls import CallContext, ToolRun
from noetl.worker.frame_driver import CURRENT_FRAME

REPORT_AGAIN_S = 0.2  # shorter than the time that a new owner waits for workers before it dispatches frames again


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

    def __init__(self, database: str, clock: Clock, environment: Mapping[str, str] = os.environ) -> None:
        """`database`: its address. Servers of other databases use other folders. Raises Unavailable."""
        name = hashlib.sha256(database.encode()).hexdigest()[:16]
        folder = self._folder = data_folder(environment) / "servers" / name
        self._lock = lock = LockFile(folder, f"{clock.new_id()}.lock")
        self._clock = clock
        self.running = RunningCalls(folder, lambda: lock, lambda _execution_id: False)

    async def report(self, link: Link) -> None:
        """Record the calls that dead servers of this machine were running, with the owners of their executions.

        The owner died with the call, so that only the file knows of it.
        """
        for execution_id, calls in self.running.all_lost().items():
            for lost in calls:
                while True:
                    try:
                        with suppress(Rejected, NotFound):  # the execution has ended
                            await link.command(execution_id, lost)
                        break
                    except Unavailable:
                        await self._clock.sleep(REPORT_AGAIN_S)
            self.running.forget(execution_id)
        for name in lock_files(self._folder):
            with suppress(Unavailable):
                if not is_alive(self._folder, name):
                    remove_lock(self._folder, name)

    def close(self) -> None:
        self.running.close()
        self._lock.close()
