"""The logs of executions that requests wait for, as this process commits them.

Most executions that somebody waits for are short, and belong to the server that started them: their ends are noticed,
and their logs are read, without a message and without a statement.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from noetl.control.live_execution import LiveExecution
from noetl.engine import Event
from noetl.ports import EventStore, LogRow

LOG_BYTES_MAX: Final = 262_144  # of one execution; a longer log is read from the store
ALL_BYTES_MAX: Final = 64 << 20  # of all executions together


class LogWatch:
    """A request that waits for an execution whose facts are committed here."""

    def __init__(self) -> None:
        self._waiter: asyncio.Future[None] | None = None
        self._is_woken = False
        self._has_ended = False
        self._has_grown = False  # since the last call of `ended`
        self._or_grown = False  # it also waits for other facts than the end

    def on_commit(self, *, has_ended: bool) -> None:
        self._has_ended, self._has_grown = has_ended, True
        if has_ended or self._or_grown:
            self.wake()

    def wake(self) -> None:
        """Make `ended` return at once."""
        self._is_woken = True
        _resolve(self._waiter)

    async def ended(self, timeout_s: float, *, or_grown: bool) -> bool:
        """Wait for the end, or for any facts; whether the execution has ended."""
        self._or_grown = or_grown
        if not self._is_woken and not (or_grown and self._has_grown):
            # A future and a timer take a fifth of the time of an Event and `asyncio.timeout`.
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            timer = loop.call_later(timeout_s, _resolve, self._waiter)
            try:
                await self._waiter
            finally:
                timer.cancel()
                self._waiter = None
        self._is_woken = self._has_grown = False
        return self._has_ended


def _resolve(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


class _CommittedLog:
    """The rows of one log from its beginning, as far as they are known here."""

    def __init__(self) -> None:
        self.rows: list[LogRow] = []
        self.seq = 0  # of the last fact
        self.bytes = 0
        self.has_ended = False  # no facts follow, unless it is retried
        self.is_partial = False  # it is too long, or another process has committed facts
        self.watches: list[LogWatch] = []


class CommittedLogs:
    """Reads logs from memory if all requested facts are there, and otherwise from the store."""

    def __init__(self, store: EventStore, owns: Callable[[str], bool] = lambda _id: True) -> None:
        """`owns`: whether this process commits the facts of an execution."""
        self._store = store
        self.owns = owns
        self._logs: dict[str, _CommittedLog] = {}  # by execution
        self._bytes = 0

    @contextmanager
    def watch(self, execution_id: str) -> Iterator[LogWatch]:
        """Keep what is committed from now on. To be entered before the execution starts."""
        log = self._logs.setdefault(execution_id, _CommittedLog())
        watch = LogWatch()
        log.watches.append(watch)
        try:
            yield watch
        finally:
            log.watches.remove(watch)
            if not log.watches:
                self._bytes -= log.bytes
                del self._logs[execution_id]

    def on_commit(self, live: LiveExecution, events: list[Event]) -> None:
        """A hook of Control: the events are committed."""
        log = self._logs.get(live.id)
        if log is None or not events:
            return
        log.has_ended = not live.state.live
        for watch in log.watches:
            watch.on_commit(has_ended=log.has_ended)
        if not log.is_partial:
            self._keep(log, events, live.state_bytes)

    def _keep(self, log: _CommittedLog, events: list[Event], size: int) -> None:
        """`size`: of the state; until the first snapshot, which is made of a longer log, this is the log."""
        self._bytes += size - log.bytes
        log.bytes = size
        if events[0].seq != log.seq + 1 or size > LOG_BYTES_MAX or self._bytes > ALL_BYTES_MAX:
            self._bytes -= size
            log.rows, log.bytes, log.is_partial = [], 0, True
            return
        log.rows.append(LogRow(events[0].seq, events[0].at, tuple([event.fact for event in events])))
        log.seq = events[-1].seq

    def ended(self, execution_id: str) -> list[LogRow] | None:
        """All rows of a log that has ended, if they are here."""
        log = self._logs.get(execution_id)
        return log.rows if log is not None and log.has_ended and not log.is_partial else None

    async def read(self, execution_id: str, after: int = 0, up_to: int | None = None) -> list[LogRow]:
        """As EventStore.read."""
        log = self._logs.get(execution_id)
        if log is None or log.is_partial or not (log.has_ended or (up_to is not None and up_to <= log.seq)):
            return await self._store.read(execution_id, after, up_to)
        last = log.seq if up_to is None else up_to
        return [row for row in log.rows if row.first_seq <= last and row.first_seq + len(row.facts) > after + 1]
