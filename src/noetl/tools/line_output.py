"""What a process prints is told line by line to whoever watches, while the call lasts.

What a quick call prints is in its output soon enough; of what a slow one prints, the last lines now and then.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Final

EVERY_S: Final = 0.5
LINES_MAX: Final = 20  # of each time
LINE_BYTES_MAX: Final = 2_000


class Lines:
    """Takes pieces of a stream, and says whole lines. With it ends what was not said yet."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._rest = b""
        self._waiting: deque[bytes] = deque(maxlen=LINES_MAX)
        self._count = 0  # lines since the last time
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Lines:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def add(self, piece: bytes) -> None:
        *whole, rest = (self._rest + piece).split(b"\n")
        self._rest = rest[:LINE_BYTES_MAX]
        found = [line for line in whole if not line.isspace() and line]
        if not found:
            return
        self._count += len(found)
        self._waiting.extend(line[:LINE_BYTES_MAX] for line in found[-LINES_MAX:])
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(EVERY_S, self._tell)

    def _tell(self) -> None:
        self._timer = None
        left_out = self._count - len(self._waiting)
        if left_out:
            self._say(f"… {left_out:,} lines more")
        for line in self._waiting:
            self._say(line.decode(errors="replace").rstrip())
        self._waiting.clear()
        self._count = 0
