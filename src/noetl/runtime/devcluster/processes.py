"""Processes that `noetl up` starts: each says when it is ready, has a log of its own, and ends with us.

A child is in a session of its own, so that Ctrl-C in a terminal reaches us alone and all end in order.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from noetl.clock import Clock
from noetl.errors import Unavailable

READY_S: Final = 60.0
LAST_LINES: Final = 20  # that are told of one who died
LINE_BYTES_MAX: Final = 8_192
LOG_BYTES_MAX: Final = 16 << 20  # then it becomes the one before, of which one is kept
_PARENT_DEATH: Final = 1  # PR_SET_PDEATHSIG


class Account(NamedTuple):
    """A user of the system."""

    name: str
    uid: int
    gid: int


class Program(NamedTuple):
    """How a child is started, and how it is ended."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    ready: str  # a line that has these words says that it serves
    folder: Path
    stop: signal.Signals = signal.SIGTERM
    grace_s: float = 20.0  # then it is killed
    orphaned: signal.Signals = signal.SIGKILL  # what it gets when we die
    account: Account | None = None  # None: as whom we run
    before: Callable[[], Awaitable[None]] | None = None  # what each start needs


class Child:
    """One process after the other of the same program."""

    def __init__(self, program: Program, log: Path, clock: Clock, lock: int) -> None:
        """`lock`: a descriptor that it inherits, so that others see that it lives."""
        self.program = program
        self.name = program.name
        self.log = log
        self.last: deque[str] = deque(maxlen=LAST_LINES)
        self.said = ""  # the line that said it is ready
        self._clock = clock
        self._lock = lock
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()

    @property
    def pid(self) -> int | None:
        """None: it does not run."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def start(self) -> float:
        """The seconds until it was ready. Raises Unavailable with what it said last."""
        begun = self._clock.monotonic()
        program = self.program
        if program.before is not None:
            await program.before()
        self.last.clear()
        self._ready = asyncio.Event()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *program.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=dict(program.environment),
                cwd=program.folder,
                start_new_session=True,
                pass_fds=(self._lock,),
                preexec_fn=ending_with_parent(program.orphaned),
                user=program.account and program.account.uid,
                group=program.account and program.account.gid,
                extra_groups=None if program.account is None else [],
            )
        except OSError as error:
            raise Unavailable(f"{self.name} can not be started: {error.strerror or error}") from error
        self._reading = asyncio.ensure_future(self._read(self._process))
        await self._until_ready(self._process)
        return self._clock.monotonic() - begun

    async def _until_ready(self, process: asyncio.subprocess.Process) -> None:
        waiting = {asyncio.ensure_future(each) for each in (self._ready.wait(), self._whole(process))}
        try:
            async with asyncio.timeout(READY_S):
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError as error:
            await self.kill()
            raise Unavailable(self._told(f"was not ready within {READY_S:g} s")) from error
        finally:
            for each in waiting:
                each.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        if not self._ready.is_set():
            raise Unavailable(self._told(f"ended at once ({ending(process.returncode)})"))

    async def _whole(self, process: asyncio.subprocess.Process) -> int:
        """It has ended, and all that it said was read."""
        code = await process.wait()
        if self._reading is not None:
            # What it has started may keep the pipe open: nobody waits for that.
            await asyncio.wait({self._reading}, timeout=1.0)
        return code

    async def ended(self) -> int:
        """Wait for that; its exit code, negative for a signal."""
        assert self._process is not None
        return await self._whole(self._process)

    def _told(self, what: str) -> str:
        said = "\n".join(f"  {line}" for line in self.last)
        return f"{self.name} {what}; its log is {self.log}" + (f"\n{said}" if said else "")

    async def stop(self, *, at_once: bool = False) -> None:
        """Ask it to end, and wait; whoever does not is killed."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.send_signal(self.program.stop)
        with suppress(TimeoutError):
            async with asyncio.timeout(1.0 if at_once else self.program.grace_s):
                await self._whole(process)
        await self.kill()

    async def kill(self) -> None:
        """With all of its session that is left."""
        process = self._process
        if process is None:
            return
        if process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
            self._reading = None

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        with Log(self.log) as log:
            rest = b""
            while chunk := await process.stdout.read(1 << 16):
                log.write(chunk)
                *lines, rest = (rest + chunk).split(b"\n")
                rest = rest[:LINE_BYTES_MAX]
                for line in lines:
                    self._hear(line[:LINE_BYTES_MAX].decode("utf-8", "replace").rstrip())
            if rest:
                self._hear(rest.decode("utf-8", "replace").rstrip())

    def _hear(self, line: str) -> None:
        self.last.append(line)
        if not self._ready.is_set() and self.program.ready in line:
            self.said = line
            self._ready.set()


class Log:
    """A file for what a process says, and the one before it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = self._opened()
        self._size = os.fstat(self._descriptor).st_size

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_error: object) -> None:
        os.close(self._descriptor)

    def _opened(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(self._path, flags, 0o600)

    def write(self, chunk: bytes) -> None:
        with suppress(OSError):  # A full disk ends no house: what it said is lost, what it did is not.
            if self._size > LOG_BYTES_MAX:
                self._path.replace(self._path.with_suffix(".log.1"))
                full, self._descriptor, self._size = self._descriptor, self._opened(), 0
                os.close(full)
            self._size += os.write(self._descriptor, chunk)


def ending(code: int | None) -> str:
    """An exit code in words."""
    if code is not None and code < 0:
        with suppress(ValueError):
            return f"by {signal.Signals(-code).name}"
    return f"exit code {code}"


def ending_with_parent(orphaned: signal.Signals) -> Callable[[], None] | None:
    """On Linux a child gets a signal when the thread that made it dies: we are killed, and nothing stays."""
    if sys.platform != "linux":
        return None
    library, parent = ctypes.CDLL(None), os.getpid()

    def prepare() -> None:
        library.prctl(_PARENT_DEATH, int(orphaned))
        if os.getppid() != parent:  # it died before we had said so
            os._exit(1)

    return prepare
