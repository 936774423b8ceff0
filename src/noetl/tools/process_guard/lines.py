"""Lines that a process prints are shown to watching clients while the call runs.

They are sent every half second, and only the last ones of many. A call that ends sooner sends none: its
output contains what it has printed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Final, Literal

EVERY_S: Final = 0.5
LINES_MAX: Final = 20  # in each interval
LINE_BYTES_MAX: Final = 2_000


class LineForwarder:
    """Splits a stream into lines and passes them to `say`. On exit, lines that wait are discarded."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._rest = b""
        self._waiting: deque[bytes] = deque(maxlen=LINES_MAX)
        self._count = 0  # lines in this interval
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> LineForwarder:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def add(self, chunk: bytes) -> None:
        *whole, rest = (self._rest + chunk).rsplit(b"\n", LINES_MAX + 1)
        self._rest = rest[:LINE_BYTES_MAX]
        if len(whole) > LINES_MAX:  # of many lines, only the last are split: a task may print millions
            self._count += whole.pop(0).count(b"\n") + 1
        lines = [line for line in whole if not line.isspace() and line]
        if not lines:
            return
        self._count += len(lines)
        self._waiting.extend(line[:LINE_BYTES_MAX] for line in lines)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(EVERY_S, self._send)

    def _send(self) -> None:
        self._timer = None
        skipped = self._count - len(self._waiting)
        if skipped:
            self._say(f"… {skipped:,} more lines")
        for line in self._waiting:
            self._say(line.decode(errors="replace").rstrip())
        self._waiting.clear()
        self._count = 0


def forwarding(
    lines: LineForwarder, write: Callable[[Literal["out", "err"], bytes], None], stream: Literal["out", "err"]
) -> Callable[[bytes], None]:
    """Passes each chunk of a stream to watching clients and to the logs of the call."""

    def forward(chunk: bytes) -> None:
        lines.add(chunk)
        write(stream, chunk)

    return forward
