"""Child processes for the `python` tool. Each makes one call at a time and is reused for calls of one playbook.

Code can change the process that runs it, and so read the input of the next call. Another playbook may have another
author, so it gets another process.

Each has its own guard, which ends it together with all processes that the playbook's code has started.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import struct
import sys
from asyncio import AbstractEventLoop, Future
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

import msgspec

from noetl.json_slices import join_large
from noetl.output import JSON
from noetl.tool import ToolUser, discard
from noetl.tools.errors import TooLarge
from noetl.tools.process_guard.child import CHANNEL
from noetl.tools.process_guard.guard import END_S, TOO_MANY_PROCESSES, ExitStatus, GuardPool, ProcessGuard, ProcessSpec
from noetl.tools.process_guard.lines import LineForwarder, forwarding
from noetl.tools.sandbox import Restrictions

IDLE_MAX = 8  # processes that are kept for other playbooks, or as many as calls can run at once
CALLS_PER_CHILD_MAX = 1_000  # then it is replaced, which frees accumulated memory
FRAME_BYTES_MAX = 64 * 1024 * 1024 + 4_096  # a response of maximum size, with its envelope
PRINTED_BYTES_MAX = 64 * 1024  # of each stream and call
GRACE_S = 0.5  # for a child that closed its socket to exit, so that its exit status is known
INHERITED = ("PATH", "HOME", "LANG", "TZ")  # other variables of the worker may be secrets
NO_LIBS: Mapping[str, str] = MappingProxyType({})
CHILD = Path(__file__).with_name("child.py")

_LENGTH = struct.Struct(">I")


class ChildResponse(NamedTuple):
    """The result of a call. Without a `body`, `error` says how the child ended."""

    body: bytes | None
    stdout: str  # cut to the limit
    stderr: str
    error: str = ""
    kind: str = "python"  # of the error


class OutputPipe:
    """A pipe for the output of a child. Bytes above the limit are counted and dropped."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._kept = bytearray()
        self._dropped = 0
        self.forward: Callable[[bytes], None] | None = None  # receives every chunk
        self._open = True
        self._ours, self.theirs = os.pipe()  # file descriptors of the worker and of the child
        os.set_blocking(self._ours, False)
        loop.add_reader(self._ours, self._read)

    def _read(self) -> bool:
        """False: no data at the moment, or the end of the stream."""
        try:
            chunk = os.read(self._ours, 262_144)
        except BlockingIOError:
            return False
        if not chunk:
            self._loop.remove_reader(self._ours)
            return False
        if self.forward is not None:
            self.forward(chunk)
        room = PRINTED_BYTES_MAX - len(self._kept)
        self._kept += chunk[:room] if room > 0 else b""
        self._dropped += max(0, len(chunk) - max(0, room))
        return True

    def take(self) -> str:
        """The output so far. The number of reads is limited, because a child can write without end."""
        for _ in range(16):
            if not self._open or not self._read():
                break
        text = self._kept.decode(errors="replace")
        if self._dropped:
            text += f"\n… {self._dropped:,} more bytes"
        self._kept.clear()
        self._dropped = 0
        return text

    def close(self) -> None:
        if self._open:
            self._open = False
            self._loop.remove_reader(self._ours)
            os.close(self._ours)


class PythonChild(asyncio.Protocol):
    """One child process with its guard, its socket and its output pipes."""

    def __init__(self, guard: ProcessGuard, stdout: OutputPipe, stderr: OutputPipe, python: str, folder: str) -> None:
        self.python = python  # the interpreter
        self.playbook: object = None  # whose code it has run; None: of no playbook yet
        self.restrictions: Restrictions | None = None
        self.has_libs = False  # it has the modules of its playbook
        self.folder = folder  # its working directory, empty between calls
        self.calls = 0
        self.dead = False  # it can make no further call
        self._asks_replacement = False  # in its last response
        self.guard = guard
        self._stdout, self._stderr = stdout, stderr
        self._loop = asyncio.get_running_loop()
        self._parts: list[bytes] = []  # received, of one response; a large one is joined in a thread
        self._size = 0  # of the parts
        self._waiting: Future[list[bytes] | None] | None = None
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def start(cls, guard: ProcessGuard, python: str, restrictions: Restrictions | None = None) -> PythonChild:
        """Raises OSError if no process can be started, and SandboxFailed; the caller then returns the guard."""
        loop = asyncio.get_running_loop()
        folder = guard.new_folder("noetl-python-")
        ours, theirs = socket.socketpair()
        stdout, stderr = OutputPipe(loop), OutputPipe(loop)
        child = cls(guard, stdout, stderr, python, folder)
        child.restrictions = restrictions
        nothing = os.open(os.devnull, os.O_RDONLY)
        try:
            fds = (nothing, stdout.theirs, stderr.theirs, theirs.fileno())
            await guard.run(_process_spec(python, folder, fds, restrictions))
            ours.setblocking(False)
            child._transport, _ = await loop.create_connection(lambda: child, sock=ours)
        except BaseException:
            child.kill()
            ours.close()
            child.remove_folder()
            raise
        finally:
            theirs.close()
            os.close(nothing)
            os.close(stdout.theirs)
            os.close(stderr.theirs)
        return child

    @property
    def serves(self) -> tuple[str, object, Restrictions | None]:
        """The calls that it may make: interpreter, playbook and restrictions are the same."""
        return self.python, self.playbook, self.restrictions

    def data_received(self, data: bytes) -> None:
        parts = self._parts
        parts.append(data)
        self._size += len(data)
        while len(parts) > 1 and len(parts[0]) <= _LENGTH.size:
            parts[:2] = [parts[0] + parts[1]]
        if self._size < _LENGTH.size:
            return
        (length,) = _LENGTH.unpack_from(parts[0])
        if length > FRAME_BYTES_MAX or self._waiting is None:
            self._close_socket()
        elif self._size >= (end := _LENGTH.size + length):
            over = self._size - end  # it is not of the child: the playbook's code has written to the socket
            self._asks_replacement = over > 0 or parts[0][_LENGTH.size :][:1] != b"+"
            parts[-1] = parts[-1][: len(parts[-1]) - over]
            parts[0] = parts[0][_LENGTH.size + 1 :]
            self._parts, self._size = [], 0
            self._settle(parts)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002  # asyncio's signature
        self.dead = True
        self._settle(None)

    def _settle(self, parts: list[bytes] | None) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result(parts)

    def _close_socket(self) -> None:
        self.dead = True
        if self._transport is not None:
            self._transport.abort()

    async def call(
        self, request: bytes, on_stdout: Callable[[bytes], None], on_stderr: Callable[[bytes], None]
    ) -> ChildResponse:
        """Make one call. If it is cancelled, the caller must `kill` the child, which continues to run."""
        assert self._transport is not None
        assert self._waiting is None
        self._take_output()  # discard what a thread of an earlier call has written since
        self._stdout.forward, self._stderr.forward = on_stdout, on_stderr
        self.calls += 1
        self._waiting = self._loop.create_future()
        self._transport.write(_LENGTH.pack(len(request)) + request)
        self.guard.watch()
        parts = await self._waiting
        self.guard.unwatch()
        if parts is None:
            reason = await self._exit_reason()
            kind = "limit" if self.guard.over_limit else "python"
            return ChildResponse(None, *self._take_output(), reason, kind)
        if self._asks_replacement:
            self.dead = True
        output = self._take_output()
        return ChildResponse(await join_large(parts), *output)

    async def load(self, libs: Mapping[str, str]) -> ChildResponse | None:
        """Send the modules of the playbook, once. Returns a response if the child has ended."""
        self.has_libs = True
        response = await self.call(msgspec.json.encode({"libs": libs}), discard, discard)
        return response if self.dead else None

    def _take_output(self) -> tuple[str, str]:
        """Standard output and standard error so far; later output is not forwarded."""
        taken = self._stdout.take(), self._stderr.take()
        self._stdout.forward = self._stderr.forward = None
        return taken

    async def _exit_reason(self) -> str:
        status = ExitStatus()
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                status = await self.guard.wait()
        if self.guard.over_limit:
            return TOO_MANY_PROCESSES
        if status.exit_code is not None:
            return f"the child process exited with code {status.exit_code} before it returned a result"
        if status.signal is not None:
            hint = "; the system may have been out of memory" if status.signal == "SIGKILL" else ""
            return f"the child process was killed by {status.signal}{hint}"
        return "the child process closed its socket; the code may have closed file descriptors of the process"

    def kill(self) -> None:
        """End the process and all processes that it has started, immediately."""
        self.dead = True
        self.guard.end()
        if self._transport is not None:
            self._transport.abort()
        self._stdout.close()
        self._stderr.close()

    async def wait(self) -> None:
        """After `kill`: wait for the end."""
        with suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                await self.guard.wait()
        try:
            os.rmdir(self.folder)  # it is empty, unless the child was killed
        except OSError:
            await asyncio.to_thread(self.remove_folder)

    def remove_folder(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def _process_spec(python: str, folder: str, fds: tuple[int, ...], restrictions: Restrictions | None) -> ProcessSpec:
    argv = [python, "-I", "-u", "-X", "utf8", str(CHILD), str(CHANNEL)]
    env = {name: os.environ[name] for name in INHERITED if name in os.environ}
    if restrictions is not None:
        env["TMPDIR"] = folder
        restrictions = restrictions._replace(writable=(*restrictions.writable, folder))
    return ProcessSpec(argv, env, folder, fds, restrictions)


class PythonPool:
    """A limited number of child processes, started on demand.

    If several playbooks use it, an unused process is kept ready for the next one.
    """

    def __init__(self, size: int, user: ToolUser | None = None, nice: int = 0) -> None:
        self.size = size
        self._free = asyncio.Semaphore(size)
        self._idle: list[PythonChild] = []
        self._guards = GuardPool(user, nice)
        self._ending: set[asyncio.Task[None]] = set()
        self._spare: asyncio.Task[PythonChild | None] | None = None
        self._first: object = None  # the first playbook

    async def call(
        self,
        request: dict[str, JSON],
        say: Callable[[str], None] = discard,
        python: str = sys.executable,
        playbook: object = None,
        restrictions: Restrictions | None = None,
        *,
        write: Callable[[Literal["out", "err"], bytes], None] = discard,
        libs: Mapping[str, str] = NO_LIBS,
    ) -> ChildResponse:
        """`python`: the interpreter. `libs`: the modules of the playbook.

        Raises OSError if no process can be started, TooLarge and SandboxFailed.
        """
        body = msgspec.json.encode(request)
        if len(body) > FRAME_BYTES_MAX:
            raise TooLarge(f"the input has {len(body):,} bytes (limit FRAME_BYTES_MAX: {FRAME_BYTES_MAX:,})")
        async with self._free:
            child = await self._child(python, playbook, restrictions)
            try:
                response = await child.load(libs) if libs and not child.has_libs else None
                if response is None:
                    with LineForwarder(say) as lines:
                        out, err = forwarding(lines, write, "out"), forwarding(lines, write, "err")
                        response = await child.call(body, out, err)
            except BaseException:
                self._drop(child)
                raise
            if child.dead or child.calls >= CALLS_PER_CHILD_MAX:
                self._drop(child)
            else:
                self._idle.append(child)
            return response

    async def _child(self, python: str, playbook: object, restrictions: Restrictions | None) -> PythonChild:
        """An idle child of the playbook and the interpreter, the last one used first, or a new one."""
        wanted = python, playbook, restrictions
        for child in [each for each in reversed(self._idle) if each.dead or each.serves == wanted]:
            self._idle.remove(child)
            if not child.dead:
                return child
            self._drop(child)
        while len(self._idle) >= max(self.size, IDLE_MAX):
            self._drop(self._idle.pop(0))  # of another playbook or interpreter
        self._first = self._first or playbook
        spare = await self._take_spare() if python == sys.executable and restrictions is None else None
        child = spare or await self._start(python, restrictions)
        child.playbook = playbook
        if self._spare is None and playbook is not self._first:
            self._spare = asyncio.ensure_future(self._start_spare())
        return child

    async def _take_spare(self) -> PythonChild | None:
        spare, self._spare = self._spare, None
        child = None if spare is None else await spare
        if child is not None and child.dead:
            self._drop(child)
            return None
        return child

    async def _start_spare(self) -> PythonChild | None:
        with suppress(OSError):
            return await self._start(sys.executable)
        return None

    async def _start(self, python: str, restrictions: Restrictions | None = None) -> PythonChild:
        guard = await self._guards.take()
        try:
            return await PythonChild.start(guard, python, restrictions)
        except BaseException:
            self._guards.give(guard)
            raise

    def _drop(self, child: PythonChild) -> None:
        child.kill()
        ending = asyncio.ensure_future(self._end(child))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def _end(self, child: PythonChild) -> None:
        await child.wait()
        self._guards.give(child.guard)

    async def close(self) -> None:
        if (spare := await self._take_spare()) is not None:
            self._idle.append(spare)
        for child in self._idle:
            self._drop(child)
        self._idle.clear()
        if self._ending:
            await asyncio.wait(self._ending)
        await self._guards.close()
