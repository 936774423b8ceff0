"""The calls that run in this process, in a file that survives its death: a call may have caused the death.

The file is not synchronised with the disk. It must survive the process, but not a power failure. It is mapped into
memory: a write needs no system call, and the kernel keeps it when the process dies.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from mmap import mmap
from pathlib import Path
from typing import Final

from msgspec import MsgspecError, Struct
from msgspec.json import Decoder, encode

from noetl.adapters.process_locks import LockFile, is_alive
from noetl.engine.commands import Lose
from noetl.errors import Unavailable
from noetl.ports import Epoch

SLOT_BYTES: Final = 512  # of one call; a longer one is not written
GROWTH_SLOTS: Final = 64
SUFFIX: Final = ".calls"
_FREE: Final = 0  # the first byte of a slot
_RECORDED: Final = 1  # its call is in the log, and still counts as one that ran at the same time as the others


class _RunningCall(Struct, array_like=True, frozen=True):
    execution_id: str
    frame: str
    epoch: Epoch
    pid: int


_decode = Decoder(_RunningCall).decode


class RunningCalls:
    """Writes the calls of this process, and reads those of dead processes with the same folder."""

    def __init__(self, folder: Path, lock: Callable[[], LockFile | None], is_open: Callable[[str], bool]) -> None:
        """`lock`: of this process in the folder; None: it has none yet, and calls are not written.

        `is_open`: whether an execution may still need the calls in files of dead processes.
        """
        self._folder = folder
        self._lock = lock
        self._is_open = is_open
        self._path: Path | None = None  # of our file; None: no call has run
        self._descriptor = -1
        self._map: mmap | None = None
        self._free: list[int] = []
        self._pid = os.getpid()

    def begin(self, execution_id: str, frame: str, epoch: Epoch) -> int:
        """The slot of the call, for `end`; -1: it could not be written."""
        line = encode(_RunningCall(execution_id, frame, epoch, self._pid)) + b"\n"
        if len(line) > SLOT_BYTES or not (self._free or self._grow()):
            return -1
        assert self._map is not None
        slot = self._free.pop()
        start = slot * SLOT_BYTES
        self._map[start : start + len(line)] = line
        return slot

    def end(self, slot: int) -> None:
        if slot >= 0 and self._map is not None:
            self._map[slot * SLOT_BYTES] = _FREE
            self._free.append(slot)

    def _grow(self) -> bool:
        """Whether there are more slots now. On a full disk there are none: the call runs without an entry."""
        slots = len(self._map) // SLOT_BYTES if self._map is not None else 0
        try:
            if self._path is None and not self._create():
                return False
            # Zeros are written, because writing to a mapped page that has no space on the disk would kill the process.
            zeros = bytes(GROWTH_SLOTS * SLOT_BYTES)
            if os.pwrite(self._descriptor, zeros, slots * SLOT_BYTES) < len(zeros):
                return False
            grown = mmap(self._descriptor, (slots + GROWTH_SLOTS) * SLOT_BYTES)
        except OSError:
            return False
        if self._map is not None:
            self._map.close()
        self._map = grown
        self._free.extend(reversed(range(slots, slots + GROWTH_SLOTS)))
        return True

    def _create(self) -> bool:
        lock = self._lock()
        if lock is None:
            return False
        path = _calls_file(self._folder, lock.name)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        self._path = path
        return True

    def close(self) -> None:
        if self._map is not None:
            self._map.close()
            self._map = None
            self._free.clear()
        if self._path is not None:
            os.close(self._descriptor)
            self._path.unlink(missing_ok=True)
            self._path = None
        with suppress(Unavailable, OSError):  # the next process tries again
            for file in self._dead():
                self._remove_if_over(file)

    def lost(self, execution_id: str) -> list[Lose]:
        """The calls of an execution that were running when their processes died."""
        return self.all_lost().get(execution_id, [])

    def all_lost(self) -> dict[str, list[Lose]]:
        """By execution."""
        found: dict[str, list[Lose]] = {}
        for file in self._dead():
            entries, held = _read(file)
            for _, call in entries:
                lose = Lose(frame=call.frame, worker=f"process {call.pid}", epoch=call.epoch, held=held)
                found.setdefault(call.execution_id, []).append(lose)
        return found

    def forget(self, execution_id: str) -> None:
        """They are in the log now. Files whose executions have all ended are removed."""
        for file in self._dead():
            for slot, call in _read(file)[0]:
                if call.execution_id == execution_id:
                    _mark_recorded(file, slot)
            self._remove_if_over(file)

    def _remove_if_over(self, file: Path) -> None:
        if not any(self._is_open(call.execution_id) for _, call in _read(file)[0]):
            file.unlink(missing_ok=True)

    def _dead(self) -> Iterator[Path]:
        for file in sorted(self._folder.glob(f"*{SUFFIX}")):
            with suppress(Unavailable):  # it cannot be read: it counts as alive
                if not is_alive(self._folder, f"{file.stem}.lock"):
                    yield file


def _calls_file(folder: Path, lock: str) -> Path:
    return folder / f"{Path(lock).stem}{SUFFIX}"


def _read(file: Path) -> tuple[list[tuple[int, _RunningCall]], int]:
    """The slots and calls that are not recorded, and the number of all calls. A damaged slot is only counted."""
    found: list[tuple[int, _RunningCall]] = []
    held, body = 0, b""
    with suppress(OSError):
        body = file.read_bytes()
    for start in range(0, len(body), SLOT_BYTES):
        held += body[start] != _FREE
        with suppress(MsgspecError, UnicodeDecodeError):
            found.append((start // SLOT_BYTES, _decode(body[start : start + SLOT_BYTES].partition(b"\n")[0])))
    return found, held


def _mark_recorded(file: Path, slot: int) -> None:
    with suppress(OSError), file.open("r+b") as opened:
        opened.seek(slot * SLOT_BYTES)
        opened.write(bytes([_RECORDED]))
