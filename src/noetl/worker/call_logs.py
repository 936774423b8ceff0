"""Lines that tasks print: split, masked, limited, and stored while the call runs.

A call that prints nothing costs nothing. Lines are stored every half second, and a slow store never delays a call:
when too many lines wait for it, further ones are left out, and a note says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from typing import Final, Literal

from noetl.cache import BoundedCache
from noetl.clock import Clock
from noetl.defaults import LOG_CALL_BYTES
from noetl.errors import NoetlError, NotFound, Rejected
from noetl.ids import call_id, frame_parts
from noetl.masking import HELD_BYTES, Mask
from noetl.ports import LogSink, PrintedLine
from noetl.secret import SHOWN

FLUSH_S: Final = 0.5  # between two writes of one execution
BATCH_BYTES: Final = 1 << 18  # in one write
PENDING_BYTES_MAX: Final = 1 << 22  # of all calls of a worker; further lines are left out
LINE_BYTES_MAX: Final = 1 << 14  # a longer line is divided
LINE_BYTES: Final = 100  # that a line costs besides its text
FULL_MAX: Final = 4_096  # executions that are known to store no more lines
CLOSE_S: Final = 5.0  # to store the last lines

SLOW: Final = "lines are left out here: the log store is slower than the tasks that print"


class CallLog:
    """The lines of one call. It keeps what it has not stored yet."""

    def __init__(self, writer: LogWriter, execution_id: str, frame: str, call: int) -> None:
        self.execution_id = execution_id
        self._writer = writer
        self._run, self._call = frame_parts(frame)[0], call_id(frame, call)
        self._left = writer.call_bytes
        self._rest: dict[Literal["out", "err"], bytes] = {"out": b"", "err": b""}  # the lines that have not ended
        self._lines: list[tuple[datetime, Literal["out", "err", "note"], bytes]] = []
        self._bytes = 0
        self._seen = b""  # the end of what was stored: a secret may begin in it

    def write(self, stream: Literal["out", "err"], chunk: bytes, at: datetime) -> None:
        if self._left <= 0:
            return
        if not self._writer.has_room(len(chunk)):
            self._note(SLOW, at)
            return
        *whole, rest = (self._rest[stream] + chunk[: self._left]).split(b"\n")
        while len(rest) > LINE_BYTES_MAX:
            whole, rest = [*whole, rest[:LINE_BYTES_MAX]], rest[LINE_BYTES_MAX:]
        self._rest[stream] = rest
        is_cut = len(chunk) > self._left
        for line in whole:
            if len(line) + LINE_BYTES > self._left:
                is_cut = True
                break
            self._left -= len(line) + LINE_BYTES
            self._add(at, stream, line)
        if is_cut:
            self._left, self._rest = 0, {"out": b"", "err": b""}
            self._note(f"the rest is left out: a call keeps {self._writer.call_bytes:,} bytes of what it prints", at)
        self._writer.changed(self)

    def _add(self, at: datetime, stream: Literal["out", "err", "note"], line: bytes) -> None:
        self._lines.append((at, stream, line))
        self._bytes += len(line) + LINE_BYTES
        self._writer.waiting += len(line) + LINE_BYTES

    def _note(self, text: str, at: datetime) -> None:
        """A note is not repeated until other lines follow it."""
        if not self._lines or self._lines[-1][1] != "note":
            self._add(at, "note", text.encode())
            self._writer.changed(self)

    def end(self, at: datetime) -> None:
        """Lines that have not ended are complete."""
        for stream, rest in self._rest.items():
            if rest:
                self._add(at, stream, rest)
                self._rest[stream] = b""

    def close(self, at: datetime) -> None:
        """The call has ended."""
        self._writer.end(self, at)

    def take(self, mask: Mask | None) -> list[PrintedLine]:
        """The complete lines since the last time, without secrets."""
        lines, self._lines = self._lines, []
        self._writer.waiting -= self._bytes
        self._bytes = 0
        bodies = [line for _, _, line in lines]
        if mask is not None and bodies:
            before, self._seen = self._seen, (self._seen + b"\n" + b"\n".join(bodies))[-HELD_BYTES:]
            bodies = _masked(mask, before, bodies)
        return [
            PrintedLine(at=at, run=self._run, call=self._call, stream=stream, text=_text(body))
            for (at, stream, _), body in zip(lines, bodies, strict=True)
        ]


def _text(line: bytes) -> str:
    return line.removesuffix(b"\r").decode(errors="replace")


def _masked(mask: Mask, before: bytes, lines: list[bytes]) -> list[bytes]:
    """The lines without secrets, also those that continue one in the lines before. Each line stays a line."""
    body = before + b"\n" + b"\n".join(lines)
    made, at = [], len(before) + 1
    for start, end in mask.spans(body):
        if end > at:
            made += [body[at : max(start, at)], SHOWN.encode(), b"\n" * body.count(b"\n", max(start, at), end)]
            at = end
    return b"".join((*made, body[at:])).split(b"\n")


class _Queue:
    """The lines of one execution that wait for the store."""

    def __init__(self) -> None:
        self.lines: list[PrintedLine] = []
        self.stored_at = -FLUSH_S  # of the last write
        self.task: asyncio.Task[None] | None = None


class LogWriter:
    """Stores the lines of all calls of a worker."""

    def __init__(self, sink: LogSink, clock: Clock, call_bytes: int = LOG_CALL_BYTES) -> None:
        self.call_bytes = call_bytes
        self.waiting = 0  # bytes of lines that are not stored
        self._sink = sink
        self._clock = clock
        self._changed: dict[CallLog, Callable[[], Mask | None]] = {}
        self._masks: dict[CallLog, Callable[[], Mask | None]] = {}
        self._queues: dict[str, _Queue] = {}
        self._full: BoundedCache[str, bool] = BoundedCache(FULL_MAX)
        self._timer: asyncio.TimerHandle | None = None

    def open(self, execution_id: str, frame: str, call: int, mask: Callable[[], Mask | None]) -> CallLog:
        """`mask`: for the values of all credentials that the call has used."""
        log = CallLog(self, execution_id, frame, call)
        self._masks[log] = mask
        return log

    def has_room(self, size: int) -> bool:
        return self.waiting + size <= PENDING_BYTES_MAX

    def changed(self, log: CallLog) -> None:
        self._changed[log] = self._masks[log]
        self._wake()

    def end(self, log: CallLog, at: datetime) -> None:
        """The call has ended. Its lines are stored at once, unless lines of its execution were just stored."""
        log.end(at)
        self._changed[log] = self._masks.pop(log)
        self._collect([log])
        queue = self._queues.get(log.execution_id)
        if queue is not None and self._clock.monotonic() - queue.stored_at >= FLUSH_S:
            self._store(log.execution_id, queue)

    def _wake(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_S, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._collect(list(self._changed))
        for execution_id, queue in list(self._queues.items()):
            self._store(execution_id, queue)

    def _collect(self, logs: Iterable[CallLog]) -> None:
        for log in logs:
            lines = log.take(self._changed.pop(log)())
            if lines and log.execution_id not in self._full:
                queue = self._queues.setdefault(log.execution_id, _Queue())
                queue.lines += lines
                self.waiting += sum(map(_size, lines))
                self._wake()

    def _store(self, execution_id: str, queue: _Queue) -> None:
        if queue.task is None or queue.task.done():
            queue.task = asyncio.ensure_future(self._store_all(execution_id, queue))

    async def _store_all(self, execution_id: str, queue: _Queue) -> None:
        while queue.lines:
            batch = _batch(queue.lines)
            queue.stored_at = self._clock.monotonic()
            try:
                if not await self._sink.append(execution_id, batch):
                    self._full.put(execution_id, True)
            except NotFound:  # its execution was deleted
                self._full.put(execution_id, True)
            except Rejected:
                pass  # these lines cannot be stored
            except NoetlError:
                self._wake()  # the store does not answer: the next tick tries again
                return
            count = len(queue.lines) if execution_id in self._full else len(batch)
            self.waiting -= sum(map(_size, queue.lines[:count]))
            del queue.lines[:count]
        if self._clock.monotonic() - queue.stored_at >= FLUSH_S:
            self._queues.pop(execution_id, None)
        else:
            self._wake()  # the next tick removes the queue

    async def close(self) -> None:
        """Store the remaining lines, within CLOSE_S."""
        self._collect(list(self._changed))
        for execution_id, queue in list(self._queues.items()):
            self._store(execution_id, queue)
        if tasks := [queue.task for queue in self._queues.values() if queue.task is not None]:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await asyncio.gather(*tasks, return_exceptions=True)
        if self._timer is not None:
            self._timer.cancel()


def _size(line: PrintedLine) -> int:
    return len(line.text) + LINE_BYTES


def _batch(lines: list[PrintedLine]) -> list[PrintedLine]:
    size = count = 0
    for count, line in enumerate(lines, 1):  # noqa: B007  # its last value is the number of lines
        size += _size(line)
        if size >= BATCH_BYTES:
            break
    return lines[:count]
