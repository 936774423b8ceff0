"""One process of the `shell` tool. A guard runs it and ends it with all processes that it has started.

Its output is kept in memory up to a limit, and in an unnamed temporary file above that.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import IO, TYPE_CHECKING, NamedTuple

from noetl.output import JSON
from noetl.playbook.kinds import Shell
from noetl.tools.environment import argument_text, environment_variables
from noetl.tools.errors import InvalidInput
from noetl.tools.paths import absolute_path
from noetl.tools.payload import text_or_base64
from noetl.tools.process_guard.guard import END_S, ExitStatus, GuardPool, ProcessGuard, ProcessSpec
from noetl.tools.sandbox import Restrictions
from noetl.tools.shell.script import script_with_variables

if TYPE_CHECKING:
    from noetl.tools.shell.tool import ShellInput

STORED_CHUNK_BYTES = 1 << 20  # as result stores keep them
INLINE_BYTES_MAX = 64 * 1024  # of each stream, in the output itself
PARSED_BYTES_MAX = 64 * 1024 * 1024  # of standard output that is parsed as JSON
CHUNK_BYTES = 64 * 1024  # the capacity of a pipe
AT_ONCE_BYTES = 1 << 20  # of a stream that are read as fast as they arrive
LARGE_CHUNK_BYTES = 256 * 1024  # of the rest: a turn of the event loop costs as much as reading 64 KiB
PAUSE = 32  # times the duration of a read: a program that prints more has to wait, and not the other calls
PAUSE_S_MAX = 0.05
INHERITED = ("PATH", "HOME", "LANG")
PATH = "/usr/local/bin:/usr/bin:/bin"  # if the worker has no PATH
SHELL = "/bin/sh"
# A process with threads cannot safely set limits between fork and exec, so a shell sets them. The program and
# its arguments are "$@": the shell does not interpret them.
LIMITED = 'ulimit -c 0; ulimit -v "$1" || exit 125; shift; exec "$@"'


class ShellCommand(NamedTuple):
    """A program to start."""

    argv: list[str]
    env: dict[str, str]
    cwd: str | None
    stdin: bytes
    restrictions: Restrictions | None = None


def build_command(
    input: ShellInput, folder: str | None, memory_mb: int | None, restrictions: Restrictions | None = None
) -> ShellCommand:
    """Raises InvalidInput."""
    env = {name: os.environ[name] for name in INHERITED if name in os.environ}
    env |= environment_variables(input.env)
    cwd = _directory(input.cwd, folder)
    if input.sh is not None:
        script = input.sh
        if isinstance(script, Shell):
            script, variables = script_with_variables(script)
            env |= environment_variables({**variables})
        argv = [SHELL, "-c", argument_text(script, "`sh`")]
    elif input.argv:
        argv = [argument_text(each, "`argv`") for each in input.argv]
        argv[0] = _find_program(argv[0], env.get("PATH", PATH), cwd)
    else:
        raise InvalidInput("`argv` or `sh` is required")
    if memory_mb is not None:
        argv = [SHELL, "-c", LIMITED, SHELL, str(memory_mb * 1024), *argv]
    return ShellCommand(argv, env, cwd, (input.stdin or "").encode(errors="replace"), restrictions)


def _directory(cwd: str | None, folder: str | None) -> str | None:
    if cwd is None:
        return folder
    path = absolute_path("`cwd`", argument_text(cwd, "`cwd`"), folder)
    if not path.is_dir():
        raise InvalidInput(f'`cwd` "{path}" is not a directory on this worker')
    return str(path)


def _find_program(name: str, path: str, cwd: str | None) -> str:
    """The path of a program. Searched here, so that a missing program differs from one that fails."""
    if "/" in name:
        found = shutil.which(os.path.join(cwd or os.getcwd(), name))
    else:
        found = shutil.which(name, path=path)
    if found is None:
        raise InvalidInput(f'program "{name}" is not installed on this worker')
    return found


class CapturedStream:
    """The output of one stream: its beginning in memory, and all of it in a file if it is longer."""

    def __init__(self, name: str, most: int, forward: Callable[[bytes], None] | None = None) -> None:
        self.name = name
        self._forward = forward  # receives every chunk
        self.size = 0
        self.full = False  # the limit was reached, and the rest was dropped
        self._most = most
        self._head = bytearray()
        self._tail = b""  # the last chunk, for the last line
        self._file: IO[bytes] | None = None

    def __enter__(self) -> CapturedStream:
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
        if self._forward is not None:
            self._forward(chunk)
        self._tail = chunk if len(chunk) >= CHUNK_BYTES else (self._tail + chunk)[-CHUNK_BYTES:]
        if self._file is None and self.size > INLINE_BYTES_MAX:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115  # closed at the end of the call
            self._file.write(self._head)
        if self._file is not None:
            self._file.write(chunk)
        self._head += chunk[: INLINE_BYTES_MAX - len(self._head)]

    def head(self) -> JSON:
        """The first bytes as text; an incomplete character at the end is omitted."""
        if not self.overflowed:
            return text_or_base64(bytes(self._head))
        return self._head.decode(errors="ignore")

    def text(self) -> JSON:
        """Without newlines at the end, as `$(…)` in a shell."""
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
        while chunk := await asyncio.to_thread(file.read, STORED_CHUNK_BYTES):
            yield chunk


async def run_command(
    command: ShellCommand, stdout: CapturedStream, stderr: CapturedStream, guards: GuardPool
) -> ExitStatus | None:
    """Run a program to its end; None: it was killed because it had too many processes.

    A cancellation kills it. Raises OSError if it cannot be started, InvalidInput and SandboxFailed.
    """
    async with with_temp_folder(command, guards) as prepared:
        return await _run(prepared, stdout, stderr, guards)


@asynccontextmanager
async def with_temp_folder(command: ShellCommand, guards: GuardPool) -> AsyncIterator[ShellCommand]:
    """With restrictions: a folder for temporary files, because the program may not write into /tmp."""
    if command.restrictions is None:
        yield command
        return
    folder = guards.new_folder("noetl-program-")
    limits = command.restrictions._replace(writable=(*command.restrictions.writable, folder))
    try:
        yield command._replace(env={**command.env, "TMPDIR": folder}, restrictions=limits)
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def _run(
    command: ShellCommand, stdout: CapturedStream, stderr: CapturedStream, guards: GuardPool
) -> ExitStatus | None:
    guard = await guards.take()
    try:
        with ShellProcess(guard) as process:
            await process.start(command, stdout, stderr)
            status = await process.wait()
    finally:
        guards.give(guard)
    return None if guard.over_limit else status


class ShellProcess:
    """A program run by a guard, and the pipes for its output."""

    def __init__(self, guard: ProcessGuard) -> None:
        self._guard = guard
        self._loop = asyncio.get_running_loop()
        self._streams: dict[int, CapturedStream] = {}
        self._pauses: dict[int, asyncio.TimerHandle] = {}  # pipe → when it is read again
        self._full = asyncio.Event()

    def __enter__(self) -> ShellProcess:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._guard.end()
        for pause in self._pauses.values():
            pause.cancel()
        for pipe, captured in list(self._streams.items()):
            self._loop.remove_reader(pipe)
            _drain(pipe, captured)
            os.close(pipe)
        self._streams.clear()

    async def start(self, command: ShellCommand, stdout: CapturedStream, stderr: CapturedStream) -> None:
        """Raises OSError if it cannot be started, and InvalidInput."""
        theirs: list[int] = []
        try:
            for captured in (stdout, stderr):
                ours, its = os.pipe()
                theirs.append(its)
                os.set_blocking(ours, False)
                self._streams[ours] = captured
                self._loop.add_reader(ours, self._read, ours)
            with tempfile.TemporaryFile() as stdin:
                stdin.write(command.stdin)
                stdin.seek(0)
                fds = (stdin.fileno(), *theirs)
                spec = ProcessSpec(command.argv, command.env, command.cwd or os.getcwd(), fds, command.restrictions)
                await start_program(self._guard, spec)
        finally:
            for each in theirs:
                os.close(each)
        self._guard.watch()

    async def wait(self) -> ExitStatus:
        """Wait until the program and all its processes have ended. Kills it if its output is too large."""
        ended = asyncio.ensure_future(self._guard.wait())
        full = asyncio.ensure_future(self._full.wait())
        try:
            await asyncio.wait((ended, full), return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                self._guard.end()
                async with asyncio.timeout(END_S):
                    await asyncio.wait((ended,))
            return ended.result()
        except TimeoutError:
            return ExitStatus()
        finally:
            ended.cancel()
            full.cancel()

    def _read(self, pipe: int) -> None:
        captured, began = self._streams[pipe], self._loop.time()
        try:
            chunk = os.read(pipe, LARGE_CHUNK_BYTES)
        except BlockingIOError:
            return
        if chunk:
            few = captured.size <= AT_ONCE_BYTES
            captured.add(chunk)
            if captured.full:
                self._full.set()
            elif captured.size > AT_ONCE_BYTES:
                if few:
                    _enlarge(pipe)
                self._pause(pipe, min((self._loop.time() - began) * PAUSE, PAUSE_S_MAX))
        else:
            self._loop.remove_reader(pipe)
            del self._streams[pipe]
            os.close(pipe)

    def _pause(self, pipe: int, seconds: float) -> None:
        self._loop.remove_reader(pipe)
        self._pauses[pipe] = self._loop.call_later(seconds, self._read_again, pipe)

    def _read_again(self, pipe: int) -> None:
        del self._pauses[pipe]
        self._loop.add_reader(pipe, self._read, pipe)


def _enlarge(pipe: int) -> None:
    """So that a turn reads more of it. Without the permission, or elsewhere than on Linux, it stays as it is."""
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with suppress(OSError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, LARGE_CHUNK_BYTES)


def _drain(pipe: int, captured: CapturedStream) -> None:
    """Read what is available. Not up to the end: a process that cannot be killed may keep the pipe open."""
    with suppress(BlockingIOError):
        while not captured.full and (chunk := os.read(pipe, CHUNK_BYTES)):
            captured.add(chunk)


async def start_program(guard: ProcessGuard, program: ProcessSpec) -> None:
    try:
        await guard.run(program)
    except OSError as error:
        if error.errno == errno.E2BIG:
            raise InvalidInput(
                "the arguments and environment variables are too long; pass data with `stdin`"
            ) from error
        if error.errno in (errno.ENOEXEC, errno.EACCES, errno.ENOENT):
            raise InvalidInput(f'"{program.argv[0]}" cannot be executed: {error.strerror}') from error
        raise
