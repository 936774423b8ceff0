"""Warm child processes for the `python` tool: each makes one call at a time, and is replaced when worn out.

Processes are started from the loop's own thread: the kernel ends a child with the thread that started it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import struct
import subprocess
import sys
from asyncio import AbstractEventLoop, Future
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from noetl.output import JSON

CALLS_PER_CHILD_MAX = 1_000  # then another takes its place, whatever it has gathered
FRAME_BYTES_MAX = 64 * 1024 * 1024 + 4_096  # an answer with its frame around it
PRINTED_BYTES_MAX = 64 * 1024  # of each stream, for each call
GRACE_S = 0.5  # for a child that hung up to end by itself, so that we can tell how
INHERITED = ("PATH", "HOME", "LANG", "TZ")  # whatever else stands in our environment may be a secret
CHILD = Path(__file__).with_name("python_child.py")

_LENGTH = struct.Struct(">I")


class TooLarge(Exception):
    """The request is over the limit."""


class Printed(NamedTuple):
    """What a call wrote to its streams, cut to the limit."""

    stdout: str
    stderr: str


class Answer(NamedTuple):
    """How a call went; `error` is a text when there was no answer, and says what became of the child."""

    body: bytes | None
    printed: Printed
    error: str | None = None


class Stream:
    """One end of a pipe that a child writes to; what is over the limit is counted and dropped."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._kept = bytearray()
        self._cut = 0
        self._open = True
        self._ours, self.theirs = os.pipe()
        os.set_blocking(self._ours, False)
        loop.add_reader(self._ours, self._some)

    def _some(self) -> bool:
        """False: there is nothing more at the moment, or never will be."""
        try:
            part = os.read(self._ours, 262_144)
        except BlockingIOError:
            return False
        if not part:
            self._loop.remove_reader(self._ours)
            return False
        room = PRINTED_BYTES_MAX - len(self._kept)
        self._kept += part[:room] if room > 0 else b""
        self._cut += max(0, len(part) - max(0, room))
        return True

    def taken(self) -> str:
        """All that was written up to now. A child that writes without end can not keep us here."""
        for _ in range(16):
            if not self._open or not self._some():
                break
        text = self._kept.decode(errors="replace")
        if self._cut:
            text += f"\n… {self._cut:,} bytes more"
        self._kept.clear()
        self._cut = 0
        return text

    def close(self) -> None:
        if self._open:
            self._open = False
            self._loop.remove_reader(self._ours)
            os.close(self._ours)


class Child(asyncio.Protocol):
    """One process, its socket and its streams."""

    def __init__(self, process: subprocess.Popen[bytes], stdout: Stream, stderr: Stream) -> None:
        self.calls = 0
        self.dead = False  # it makes no further call
        self._process = process
        self._stdout, self._stderr = stdout, stderr
        self._reaped = False
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._waiting: Future[bytes | None] | None = None
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def start(cls) -> Child:
        """Raises OSError when there can be no more processes."""
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        stdout, stderr = Stream(loop), Stream(loop)
        try:
            child = cls(_spawned(theirs.fileno(), stdout.theirs, stderr.theirs), stdout, stderr)
        except BaseException:
            ours.close()
            stdout.close()
            stderr.close()
            raise
        finally:
            theirs.close()
            os.close(stdout.theirs)
            os.close(stderr.theirs)
        ours.setblocking(False)
        try:
            child._transport, _ = await loop.create_connection(lambda: child, sock=ours)
        except BaseException:
            child.kill()
            ours.close()
            child._process.wait()  # Nobody else knows of it; it was killed, so this takes no time.
            child._reaped = True
            raise
        return child

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        if len(buffer) < _LENGTH.size:
            return
        (length,) = _LENGTH.unpack_from(buffer)
        if length > FRAME_BYTES_MAX or self._waiting is None:
            self._hang_up()
        elif len(buffer) >= _LENGTH.size + length:
            body = bytes(buffer[_LENGTH.size : _LENGTH.size + length])
            del buffer[: _LENGTH.size + length]
            self._settle(body)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002  # asyncio's signature
        self.dead = True
        self._settle(None)

    def _settle(self, body: bytes | None) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result(body)

    def _hang_up(self) -> None:
        self.dead = True
        if self._transport is not None:
            self._transport.abort()

    async def ask(self, request: bytes) -> Answer:
        """One call. Whoever cancels it must `kill` the child, which goes on with it."""
        assert self._transport is not None
        assert self._waiting is None
        self._printed()  # A thread that lives on may have written between calls: that is nobody's output.
        self.calls += 1
        self._waiting = self._loop.create_future()
        self._transport.write(_LENGTH.pack(len(request)) + request)
        body = await self._waiting
        if body is None:
            how = await self._end_told()
            return Answer(None, self._printed(), how)
        if not body.startswith(b"+"):
            self.dead = True  # It says of itself that it is worn out.
        return Answer(body[1:], self._printed())

    def _printed(self) -> Printed:
        return Printed(self._stdout.taken(), self._stderr.taken())

    async def _end_told(self) -> str:
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                await self._over()
        code = self._exit_code()
        if code is None:
            return "the child process hung up; the code may have closed file descriptors that are not its own"
        if code >= 0:
            return f"the child process ended with exit code {code} before it answered"
        name = signal.Signals(-code).name if -code in signal.valid_signals() else f"signal {-code}"
        why = "; the system may have been out of memory" if code == -signal.SIGKILL else ""
        return f"the child process was ended by {name}{why}"

    async def _over(self) -> None:
        """Until the process has ended. It keeps its number until it is buried."""
        if not hasattr(os, "pidfd_open"):
            await self._loop.run_in_executor(None, self._process.wait)
            self._reaped = True
            return
        handle = os.pidfd_open(self._process.pid)
        over = asyncio.Event()
        self._loop.add_reader(handle, over.set)
        try:
            await over.wait()
        finally:
            self._loop.remove_reader(handle)
            os.close(handle)

    def _exit_code(self) -> int | None:
        """As Popen gives it, negative for a signal; None: it has not ended."""
        if self._reaped:
            return self._process.returncode
        found = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status

    def kill(self) -> None:
        """The process and all of its group, at once."""
        self.dead = True
        if not self._reaped:
            # Only now is the number surely its own: after its burial the system may give it to another.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        if self._transport is not None:
            self._transport.abort()
        self._stdout.close()
        self._stderr.close()

    async def bury(self) -> None:
        """Wait for the end of one that was killed."""
        if not self._reaped:
            await self._over()
            self._process.wait()
            self._reaped = True


def _spawned(channel: int, stdout: int, stderr: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-u", "-X", "utf8", str(CHILD), str(channel), str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        env={name: os.environ[name] for name in INHERITED if name in os.environ},
        pass_fds=(channel,),
        start_new_session=True,  # a group of its own, so that it can be ended with all that it started
    )


class Pool:
    """As many children as may work at once; they start when first needed."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._free = asyncio.Semaphore(size)
        self._idle: list[Child] = []
        self._burials: set[asyncio.Task[None]] = set()

    async def call(self, request: dict[str, JSON]) -> Answer:
        """Raises OSError when no process can be started, TooLarge."""
        body = msgspec.json.encode(request)
        if len(body) > FRAME_BYTES_MAX:
            raise TooLarge(f"the input is {len(body):,} bytes (limit FRAME_BYTES_MAX: {FRAME_BYTES_MAX:,})")
        async with self._free:
            child = await self._child()
            try:
                answer = await child.ask(body)
            except BaseException:
                self._drop(child)
                raise
            if child.dead or child.calls >= CALLS_PER_CHILD_MAX:
                self._drop(child)
            else:
                self._idle.append(child)
            return answer

    async def _child(self) -> Child:
        while self._idle:
            child = self._idle.pop()
            if not child.dead:
                return child
            self._drop(child)
        return await Child.start()

    def _drop(self, child: Child) -> None:
        child.kill()
        burial = asyncio.ensure_future(child.bury())
        self._burials.add(burial)
        burial.add_done_callback(self._burials.discard)

    async def close(self) -> None:
        for child in self._idle:
            self._drop(child)
        self._idle.clear()
        if self._burials:
            await asyncio.wait(self._burials)
