"""One process of the `shell` tool: in a group of its own, its output caught, ended with all that it started.

What it writes is held in memory up to a limit, then in a file without a name.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, NamedTuple

from noetl.output import JSON
from noetl.tools.plain import text_or_base64

if TYPE_CHECKING:
    from noetl.tools.shell import ShellInput

INLINE_BYTES_MAX = 64 * 1024  # of each stream that stand in the output itself
PARSED_BYTES_MAX = 64 * 1024 * 1024  # of standard output that is read as JSON
CHUNK_BYTES = 64 * 1024  # what a pipe holds
INHERITED = ("PATH", "HOME", "LANG")
PATH = "/usr/local/bin:/usr/bin:/bin"  # where programs are looked for when the worker itself has no PATH
SHELL = "/bin/sh"
# Limits can not be set between fork and exec from a process with threads; this is a text of ours with the
# program and its arguments as "$@", so no shell reads what the author wrote.
LIMITED = 'ulimit -c 0; ulimit -v "$1" || exit 125; shift; exec "$@"'


class Unfit(Exception):
    """It can not be run as it was asked for; the message is for the author."""


class Wish(NamedTuple):
    """What is to be started."""

    argv: list[str]
    env: dict[str, str]
    cwd: str | None
    stdin: bytes


class Ended(NamedTuple):
    """How a process ended: by one of the two; none when it lives on out of our reach."""

    exit_code: int | None
    signal: str | None


def wish_of(input: ShellInput, folder: str | None, memory_mb: int | None) -> Wish:
    """Raises Unfit."""
    env = {name: os.environ[name] for name in INHERITED if name in os.environ}
    for name, value in (input.env or {}).items():
        if not name or "=" in name or "\0" in name:
            raise Unfit(f'"{name}" can not be the name of an environment variable')
        if value is not None:
            env[_plain(name, "`env`")] = _plain(value, f"environment variable {name}")
    cwd = _folder(input.cwd, folder)
    if input.sh is not None:
        argv = [SHELL, "-c", _plain(input.sh, "`sh`")]
    elif input.argv:
        argv = [_plain(each, "`argv`") for each in input.argv]
        argv[0] = _program(argv[0], env.get("PATH", PATH), cwd)
    else:
        raise Unfit("`argv` names a program, or `sh` gives text for the shell")
    if memory_mb is not None:
        argv = [SHELL, "-c", LIMITED, SHELL, str(memory_mb * 1024), *argv]
    return Wish(argv, env, cwd, (input.stdin or "").encode(errors="replace"))


def _plain(value: JSON, what: str) -> str:
    """A text that a process can be given."""
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, str | int | float):
        text = str(value)
    else:
        raise Unfit(f"{what} takes a text or a number; `| tojson` makes a text of other values")
    if "\0" in text:
        raise Unfit(f"{what} can not hold the character NUL")
    return text.encode(errors="replace").decode()


def _folder(wanted: str | None, own: str | None) -> str | None:
    if wanted is None:
        return own
    path = Path(_plain(wanted, "`cwd`"))
    if not path.is_absolute():
        if own is None:
            raise Unfit(f'`cwd` "{wanted}" is relative to the playbook, and this one came from no file')
        path = Path(own) / path
    if not path.is_dir():
        raise Unfit(f'`cwd` "{path}" is no folder here')
    return str(path)


def _program(name: str, path: str, cwd: str | None) -> str:
    """Where it is, so that one that is missing is told from one that failed."""
    if "/" in name:
        found = shutil.which(os.path.join(cwd or os.getcwd(), name))
    else:
        found = shutil.which(name, path=path)
    if found is None:
        raise Unfit(f'there is no program "{name}" where this worker runs')
    return found


class Captured:
    """What came out of one stream: the beginning in memory, and the whole in a file once it is longer."""

    def __init__(self, name: str, most: int) -> None:
        self.name = name
        self.size = 0
        self.full = False  # It was more than may be, and the rest was thrown away.
        self._most = most
        self._head = bytearray()
        self._tail = b""  # the last chunk, for the last line
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Captured:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    @property
    def overflowed(self) -> bool:
        return self._file is not None

    def add(self, chunk: bytes) -> None:
        if self.size + len(chunk) > self._most:
            chunk = chunk[: self._most - self.size]
            self.full = True
        if not chunk:
            return
        self.size += len(chunk)
        self._tail = (self._tail + chunk)[-CHUNK_BYTES:]
        if self._file is None and self.size > INLINE_BYTES_MAX:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115  # closed at the end of the call
            self._file.write(self._head)
        if self._file is not None:
            self._file.write(chunk)
        self._head += chunk[: INLINE_BYTES_MAX - len(self._head)]

    def head(self) -> JSON:
        """A character that the cut goes through is left out."""
        if not self.overflowed:
            return text_or_base64(bytes(self._head))
        return self._head.decode(errors="ignore")

    def text(self) -> JSON:
        """As `$(…)` of a shell gives it: without the line ends behind it."""
        return text_or_base64(bytes(self._head).rstrip(b"\n"))

    def body(self) -> bytes:
        if self._file is None:
            return bytes(self._head)
        self._file.seek(0)
        return self._file.read()

    def last_line(self) -> str:
        lines = self._tail.decode(errors="replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    async def chunks(self) -> AsyncIterator[bytes]:
        file = self._file
        assert file is not None
        file.seek(0)
        while chunk := await asyncio.to_thread(file.read, CHUNK_BYTES * 4):
            yield chunk


async def ran(wish: Wish, stdout: Captured, stderr: Captured) -> Ended:
    """Until it has ended; cancelled, it is ended. Raises OSError when it can not be started, and Unfit."""
    process = Process(wish, stdout, stderr)
    try:
        await process.over()
    finally:
        process.end()
    return process.ended()


class Process:
    """It runs from the start. `end` must be called, and leaves nothing of it and of its group."""

    def __init__(self, wish: Wish, stdout: Captured, stderr: Captured) -> None:
        self._loop = asyncio.get_running_loop()
        self._streams: dict[int, Captured] = {}
        self._over = asyncio.Event()
        self._watched: int | None = None
        with tempfile.TemporaryFile() as stdin:
            stdin.write(wish.stdin)
            stdin.seek(0)
            self._popen = _started(wish, stdin)
        assert self._popen.stdout is not None
        assert self._popen.stderr is not None
        for pipe, captured in ((self._popen.stdout, stdout), (self._popen.stderr, stderr)):
            os.set_blocking(pipe.fileno(), False)
            self._streams[pipe.fileno()] = captured
            self._loop.add_reader(pipe.fileno(), self._read, pipe.fileno())

    async def over(self) -> None:
        """Until the process itself has ended, or has written more than it may."""
        if not hasattr(os, "pidfd_open"):
            self._popen_waits()
        else:
            self._watched = os.pidfd_open(self._popen.pid)
            self._loop.add_reader(self._watched, self._over.set)
        await self._over.wait()

    def _popen_waits(self) -> None:
        """Where the system has no handle for a process, a thread waits for it."""
        waiting = self._loop.run_in_executor(None, self._popen.wait)
        waiting.add_done_callback(lambda _done: self._over.set())

    def _read(self, pipe: int) -> None:
        captured = self._streams[pipe]
        try:
            chunk = os.read(pipe, CHUNK_BYTES)
        except BlockingIOError:
            return
        if chunk:
            captured.add(chunk)
            if captured.full:
                self._over.set()
        else:
            self._loop.remove_reader(pipe)
            del self._streams[pipe]

    def end(self) -> None:
        """The whole group goes, then what is still in the pipes is read: nobody is left to write more."""
        if self._watched is not None:
            self._loop.remove_reader(self._watched)
            os.close(self._watched)
        # The process is not asked after before this, so its number is still its own.
        try:
            with suppress(ProcessLookupError):
                os.killpg(self._popen.pid, signal.SIGKILL)
            self._popen.wait()
        except PermissionError:
            # It has become another user, as sudo does: whoever can not end it can not wait for it either.
            if self._popen.poll() is None:
                threading.Thread(target=self._popen.wait, daemon=True).start()
        for pipe, captured in list(self._streams.items()):
            self._loop.remove_reader(pipe)
            _drain(pipe, captured)
        for stream in (self._popen.stdout, self._popen.stderr):
            if stream is not None:
                stream.close()

    def ended(self) -> Ended:
        code = self._popen.returncode
        if code is None or code >= 0:
            return Ended(code, None)
        known = -code in signal.valid_signals()
        return Ended(None, signal.Signals(-code).name if known else f"signal {-code}")


def _drain(pipe: int, captured: Captured) -> None:
    """A process that has left the group may still hold the pipe: what is there now is all that is read."""
    with suppress(BlockingIOError):
        while not captured.full and (chunk := os.read(pipe, CHUNK_BYTES)):
            captured.add(chunk)


def _started(wish: Wish, stdin: IO[bytes]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            wish.argv,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=wish.env,
            cwd=wish.cwd,
            bufsize=0,
            start_new_session=True,  # a group of its own, so that it can be ended with all that it started
        )
    except OSError as error:
        if error.errno == errno.E2BIG:
            raise Unfit(
                "the arguments and the environment are too long; hand them over by `stdin`"
            ) from error
        if error.errno in (errno.ENOEXEC, errno.EACCES, errno.ENOENT):
            raise Unfit(f'"{wish.argv[0]}" can not be run: {error.strerror}') from error
        raise
