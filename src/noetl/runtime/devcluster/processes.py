"""The processes of `noetl up`: each prints a line when it is ready, has a log, and ends with this process.

Each runs in its own session, so that Ctrl-C reaches only `noetl up`, which stops them in order.
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
LAST_LINES: Final = 20  # of a failed process in the error message
LINE_BYTES_MAX: Final = 8_192
LOG_BYTES_MAX: Final = 16 << 20  # then the log is rotated; one old log is kept
_PARENT_DEATH: Final = 1  # PR_SET_PDEATHSIG


class Account(NamedTuple):
    """A system user."""

    name: str
    uid: int
    gid: int


class ServiceSpec(NamedTuple):
    """How a process is started and stopped."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    ready: str  # the text of the line that it prints when it is ready
    folder: Path
    stop: signal.Signals = signal.SIGTERM
    grace_s: float = 20.0  # until it is killed
    orphaned: signal.Signals = signal.SIGKILL  # the signal that it receives when this process dies
    account: Account | None = None  # None: our own
    before: Callable[[], Awaitable[None]] | None = None  # called before each start
    fault: Callable[[], Awaitable[str]] | None = None  # called now and then: why it must be restarted; "": it need not


class ManagedProcess:
    """A process that can be restarted."""

    def __init__(self, spec: ServiceSpec, log: Path, clock: Clock, lock: int) -> None:
        """`lock`: a descriptor that it inherits, so that a later `noetl up` sees that it runs."""
        self.spec = spec
        self.name = spec.name
        self.log = log
        self.last: deque[str] = deque(maxlen=LAST_LINES)
        self.ready_line = ""
        self._clock = clock
        self._lock = lock
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()

    @property
    def pid(self) -> int | None:
        """None: it is not running."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def start(self) -> float:
        """The seconds until it was ready. Raises Unavailable with its last lines."""
        begun = self._clock.monotonic()
        spec = self.spec
        if spec.before is not None:
            await spec.before()
        self.last.clear()
        self._ready = asyncio.Event()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *spec.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=dict(spec.environment),
                cwd=spec.folder,
                start_new_session=True,
                pass_fds=(self._lock,),
                preexec_fn=exit_with_parent(spec.orphaned),
                user=spec.account and spec.account.uid,
                group=spec.account and spec.account.gid,
                extra_groups=None if spec.account is None else [],
            )
        except OSError as error:
            raise Unavailable(f"{self.name} cannot be started: {error.strerror or error}") from error
        self._reading = asyncio.ensure_future(self._read(self._process))
        await self._until_ready(self._process)
        return self._clock.monotonic() - begun

    async def _until_ready(self, process: asyncio.subprocess.Process) -> None:
        waiting = {asyncio.ensure_future(each) for each in (self._ready.wait(), self._wait_for(process))}
        try:
            async with asyncio.timeout(READY_S):
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError as error:
            await self.kill()
            raise Unavailable(self._describe(f"was not ready within {READY_S:g} s")) from error
        finally:
            for each in waiting:
                each.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        if not self._ready.is_set():
            raise Unavailable(self._describe(f"ended at once ({describe_exit(process.returncode)})"))

    async def _wait_for(self, process: asyncio.subprocess.Process) -> int:
        """Wait until it has ended and its output is read."""
        code = await process.wait()
        if self._reading is not None:
            # Its own child processes may keep the pipe open: do not wait for them.
            await asyncio.wait({self._reading}, timeout=1.0)
        return code

    async def wait(self) -> int:
        """Wait until it has ended; its exit code, negative for a signal."""
        assert self._process is not None
        return await self._wait_for(self._process)

    def _describe(self, what: str) -> str:
        lines = "\n".join(f"  {line}" for line in self.last)
        return f"{self.name} {what}; its log is {self.log}" + (f"\n{lines}" if lines else "")

    async def stop(self, *, at_once: bool = False) -> None:
        """Ask it to end and wait; kill it if it does not."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.send_signal(self.spec.stop)
        with suppress(TimeoutError):
            async with asyncio.timeout(1.0 if at_once else self.spec.grace_s):
                await self._wait_for(process)
        await self.kill()

    async def kill(self) -> None:
        """Kill it with its whole session."""
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
        with RotatingLog(self.log) as log:
            rest = b""
            while chunk := await process.stdout.read(1 << 16):
                log.write(chunk)
                *lines, rest = (rest + chunk).split(b"\n")
                rest = rest[:LINE_BYTES_MAX]
                for line in lines:
                    self._on_line(line[:LINE_BYTES_MAX].decode("utf-8", "replace").rstrip())
            if rest:
                self._on_line(rest.decode("utf-8", "replace").rstrip())

    def _on_line(self, line: str) -> None:
        self.last.append(line)
        if not self._ready.is_set() and self.spec.ready in line:
            self.ready_line = line
            self._ready.set()


class RotatingLog:
    """The log file of a process; one older file is kept."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = self._open()
        self._size = os.fstat(self._descriptor).st_size

    def __enter__(self) -> RotatingLog:
        return self

    def __exit__(self, *_error: object) -> None:
        os.close(self._descriptor)

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(self._path, flags, 0o600)

    def write(self, chunk: bytes) -> None:
        with suppress(OSError):  # a full disk must not stop the cluster: only log lines are lost
            if self._size > LOG_BYTES_MAX:
                self._path.replace(self._path.with_suffix(".log.1"))
                full, self._descriptor, self._size = self._descriptor, self._open(), 0
                os.close(full)
            self._size += os.write(self._descriptor, chunk)


def describe_exit(code: int | None) -> str:
    if code is not None and code < 0:
        with suppress(ValueError):
            return f"by {signal.Signals(-code).name}"
    return f"exit code {code}"


def exit_with_parent(orphaned: signal.Signals) -> Callable[[], None] | None:
    """On Linux: the child receives a signal when this process dies, so that none remains after a kill."""
    if sys.platform != "linux":
        return None
    library, parent = ctypes.CDLL(None), os.getpid()

    def prepare() -> None:
        library.prctl(_PARENT_DEATH, int(orphaned))
        if os.getppid() != parent:  # the parent died before the call
            os._exit(1)

    return prepare
