"""Warm child processes for the `python` tool: each makes one call at a time, and is replaced when worn out.

Each has a guard of its own, which ends it with all that an author's code has started.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import sys
from asyncio import AbstractEventLoop, Future
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from noetl.output import JSON
from noetl.tool import silent
from noetl.tools.line_output import Lines
from noetl.tools.process_guard.child import CHANNEL
from noetl.tools.process_guard.guard import CROWDED, END_S, Ended, Guard, Guards, Program

CALLS_PER_CHILD_MAX = 1_000  # then another takes its place, whatever it has gathered
FRAME_BYTES_MAX = 64 * 1024 * 1024 + 4_096  # an answer with its frame around it
PRINTED_BYTES_MAX = 64 * 1024  # of each stream, for each call
GRACE_S = 0.5  # for a child that hung up to end by itself, so that we can tell how
INHERITED = ("PATH", "HOME", "LANG", "TZ")  # whatever else stands in our environment may be a secret
CHILD = Path(__file__).with_name("child.py")

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
    kind: str = "python"  # of the error


class Stream:
    """One end of a pipe that a child writes to; what is over the limit is counted and dropped."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._kept = bytearray()
        self._cut = 0
        self.tell: Callable[[bytes], None] | None = None  # every piece, as it comes
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
        if self.tell is not None:
            self.tell(part)
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
    """One process, its guard, its socket and its streams."""

    def __init__(self, guard: Guard, stdout: Stream, stderr: Stream) -> None:
        self.calls = 0
        self.dead = False  # it makes no further call
        self.guard = guard
        self._stdout, self._stderr = stdout, stderr
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._waiting: Future[bytes | None] | None = None
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def start(cls, guard: Guard) -> Child:
        """Raises OSError when there can be no more processes; the guard is the caller's to give back."""
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        stdout, stderr = Stream(loop), Stream(loop)
        child = cls(guard, stdout, stderr)
        nothing = os.open(os.devnull, os.O_RDONLY)
        try:
            await guard.run(_program(nothing, stdout.theirs, stderr.theirs, theirs.fileno()))
            ours.setblocking(False)
            child._transport, _ = await loop.create_connection(lambda: child, sock=ours)
        except BaseException:
            child.kill()
            ours.close()
            raise
        finally:
            theirs.close()
            os.close(nothing)
            os.close(stdout.theirs)
            os.close(stderr.theirs)
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

    async def ask(self, request: bytes, tell: Callable[[bytes], None]) -> Answer:
        """One call. Whoever cancels it must `kill` the child, which goes on with it."""
        assert self._transport is not None
        assert self._waiting is None
        self._printed()  # A thread that lives on may have written between calls: that is nobody's output.
        self._stdout.tell = self._stderr.tell = tell
        self.calls += 1
        self._waiting = self._loop.create_future()
        self._transport.write(_LENGTH.pack(len(request)) + request)
        self.guard.watch()
        body = await self._waiting
        self.guard.unwatch()
        if body is None:
            how = await self._end_told()
            return Answer(None, self._printed(), how, "limit" if self.guard.crowded else "python")
        if not body.startswith(b"+"):
            self.dead = True  # It says of itself that it is worn out.
        return Answer(body[1:], self._printed())

    def _printed(self) -> Printed:
        """What was printed up to now; whatever comes later is not told."""
        self._stdout.tell = self._stderr.tell = None
        return Printed(self._stdout.taken(), self._stderr.taken())

    async def _end_told(self) -> str:
        ended = Ended()
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                ended = await self.guard.over()
        if self.guard.crowded:
            return CROWDED
        if ended.exit_code is not None:
            return f"the child process ended with exit code {ended.exit_code} before it answered"
        if ended.signal is not None:
            why = "; the system may have been out of memory" if ended.signal == "SIGKILL" else ""
            return f"the child process was ended by {ended.signal}{why}"
        return "the child process hung up; the code may have closed file descriptors that are not its own"

    def kill(self) -> None:
        """The process and all that it has started, at once."""
        self.dead = True
        self.guard.end()
        if self._transport is not None:
            self._transport.abort()
        self._stdout.close()
        self._stderr.close()

    async def bury(self) -> None:
        """Wait for the end of one that was killed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                await self.guard.over()


def _program(stdin: int, stdout: int, stderr: int, channel: int) -> Program:
    argv = [sys.executable, "-I", "-u", "-X", "utf8", str(CHILD), str(CHANNEL)]
    env = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return Program(argv, env, os.getcwd(), (stdin, stdout, stderr, channel))


class Pool:
    """As many children as may work at once; they start when first needed."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._free = asyncio.Semaphore(size)
        self._idle: list[Child] = []
        self._guards = Guards()
        self._burials: set[asyncio.Task[None]] = set()

    async def call(self, request: dict[str, JSON], say: Callable[[str], None] = silent) -> Answer:
        """Raises OSError when no process can be started, TooLarge."""
        body = msgspec.json.encode(request)
        if len(body) > FRAME_BYTES_MAX:
            raise TooLarge(f"the input is {len(body):,} bytes (limit FRAME_BYTES_MAX: {FRAME_BYTES_MAX:,})")
        async with self._free:
            child = await self._child()
            try:
                with Lines(say) as lines:
                    answer = await child.ask(body, lines.add)
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
        guard = await self._guards.take()
        try:
            return await Child.start(guard)
        except BaseException:
            self._guards.give(guard)
            raise

    def _drop(self, child: Child) -> None:
        child.kill()
        burial = asyncio.ensure_future(self._bury(child))
        self._burials.add(burial)
        burial.add_done_callback(self._burials.discard)

    async def _bury(self, child: Child) -> None:
        await child.bury()
        self._guards.give(child.guard)

    async def close(self) -> None:
        for child in self._idle:
            self._drop(child)
        self._idle.clear()
        if self._burials:
            await asyncio.wait(self._burials)
        await self._guards.close()
