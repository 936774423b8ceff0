"""One process of the `shell` tool: under a guard, its output caught, ended with all that it started.

What it writes is held in memory up to a limit, then in a file without a name.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, NamedTuple

from noetl.output import JSON
from noetl.tools.json_values import text_or_base64
from noetl.tools.process_guard.guard import END_S, Ended, Guard, Guards, Program

if TYPE_CHECKING:
    from noetl.tools.shell.tool import ShellInput

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

    def __init__(self, name: str, most: int, tell: Callable[[bytes], None] | None = None) -> None:
        self.name = name
        self._tell = tell  # every piece, as it comes
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
        if self._tell is not None:
            self._tell(chunk)
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


async def ran(wish: Wish, stdout: Captured, stderr: Captured, guards: Guards) -> Ended | None:
    """Until it has ended; None: it was ended, for all the processes that it had. Cancelled, it is ended, too.

    Raises OSError when it can not be started, and Unfit.
    """
    guard = await guards.take()
    try:
        with Process(guard) as process:
            await process.start(wish, stdout, stderr)
            ended = await process.over()
    finally:
        guards.give(guard)
    return None if guard.crowded else ended


class Process:
    """One program under a guard, and the pipes that it writes to."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._loop = asyncio.get_running_loop()
        self._streams: dict[int, Captured] = {}
        self._full = asyncio.Event()

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._guard.end()
        for pipe, captured in list(self._streams.items()):
            self._loop.remove_reader(pipe)
            _drain(pipe, captured)
            os.close(pipe)
        self._streams.clear()

    async def start(self, wish: Wish, stdout: Captured, stderr: Captured) -> None:
        """Raises OSError when it can not be started, and Unfit."""
        theirs: list[int] = []
        try:
            for captured in (stdout, stderr):
                ours, its = os.pipe()
                theirs.append(its)
                os.set_blocking(ours, False)
                self._streams[ours] = captured
                self._loop.add_reader(ours, self._read, ours)
            with tempfile.TemporaryFile() as stdin:
                stdin.write(wish.stdin)
                stdin.seek(0)
                fds = (stdin.fileno(), *theirs)
                await _started(self._guard, Program(wish.argv, wish.env, wish.cwd or os.getcwd(), fds))
        finally:
            for each in theirs:
                os.close(each)
        self._guard.watch()

    async def over(self) -> Ended:
        """Until the process and all that it started have ended; when it writes more than it may, at once."""
        ended = asyncio.ensure_future(self._guard.over())
        full = asyncio.ensure_future(self._full.wait())
        try:
            await asyncio.wait((ended, full), return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                self._guard.end()
                async with asyncio.timeout(END_S):
                    await asyncio.wait((ended,))
            return ended.result()
        except TimeoutError:
            return Ended()
        finally:
            ended.cancel()
            full.cancel()

    def _read(self, pipe: int) -> None:
        captured = self._streams[pipe]
        try:
            chunk = os.read(pipe, CHUNK_BYTES)
        except BlockingIOError:
            return
        if chunk:
            captured.add(chunk)
            if captured.full:
                self._full.set()
        else:
            self._loop.remove_reader(pipe)
            del self._streams[pipe]
            os.close(pipe)


def _drain(pipe: int, captured: Captured) -> None:
    """A process that nobody could end may still hold the pipe: what is there now is all that is read."""
    with suppress(BlockingIOError):
        while not captured.full and (chunk := os.read(pipe, CHUNK_BYTES)):
            captured.add(chunk)


async def _started(guard: Guard, program: Program) -> None:
    try:
        await guard.run(program)
    except OSError as error:
        if error.errno == errno.E2BIG:
            raise Unfit(
                "the arguments and the environment are too long; hand them over by `stdin`"
            ) from error
        if error.errno in (errno.ENOEXEC, errno.EACCES, errno.ENOENT):
            raise Unfit(f'"{program.argv[0]}" can not be run: {error.strerror}') from error
        raise
