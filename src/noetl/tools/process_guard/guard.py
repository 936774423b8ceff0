"""Guards: warm processes through which tools run programs of an author's, and end them with all they started.

A guard has one program at a time. What the program starts stays below its guard, whatever it does to get
away; more than so many processes are a failure. See guard_child for the other side.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from asyncio import AbstractEventLoop, Future, TimerHandle
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from noetl.tools.process_guard.child import END, PROCESSES_MAX, RUN, WATCH

SAY_S = 0.1  # between two words to a guard to look at its program
END_S = 6.0  # a guard that takes longer to end its program is no guard any more
CHILD = Path(__file__).with_name("child.py")
CROWDED = f"it had more than {PROCESSES_MAX} processes at once (limit PROCESSES_MAX), and was ended with them"

_LENGTH = struct.Struct(">I")


class Program(NamedTuple):
    """What is to be run."""

    argv: list[str]  # the first one is a path
    env: dict[str, str]
    cwd: str
    fds: Sequence[int]  # its descriptors 0, 1, 2 and so on


class Ended(NamedTuple):
    """How a program ended: by one of the two; none when nobody knows."""

    exit_code: int | None = None
    signal: str | None = None


class Guard(asyncio.Protocol):
    """One guard, and the program that it has."""

    def __init__(self, line: socket.socket, process: subprocess.Popen[bytes]) -> None:
        self.dead = False  # it takes no further program
        self.crowded = False  # the program was ended because of what it started
        self._loop = loop = asyncio.get_running_loop()
        self._line, self._process = line, process
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._started: Future[str] = loop.create_future()
        self._ended: Future[Ended] = loop.create_future()
        self._program: int | None = None  # a handle of it
        self._watching: TimerHandle | None = None
        self._said_at = 0.0  # when it was told to look

    @classmethod
    async def start(cls) -> Guard:
        """Raises OSError when there can be no more processes."""
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        try:
            guard = cls(ours, _guarding(theirs.fileno()))
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        try:
            guard._transport, _ = await loop.create_connection(lambda: guard, sock=ours)
        except BaseException:
            ours.close()  # It sees that, and ends.
            guard._process.kill()
            guard._process.wait()
            raise
        return guard

    async def run(self, program: Program) -> None:
        """Start it. Raises OSError when that can not be done."""
        assert self._transport is not None
        self.crowded, self._said_at = False, 0.0
        self._started, self._ended = self._loop.create_future(), self._loop.create_future()
        body = json.dumps({"argv": program.argv, "env": program.env, "cwd": program.cwd}).encode()
        # Nothing else is on the line, so that there is room for this.
        socket.send_fds(self._line, [RUN], list(program.fds))
        self._transport.write(_LENGTH.pack(len(body)) + body)
        word, _, number = (await self._started).partition(" ")
        if word == "refused":
            self._settle(Ended())
            raise OSError(int(number), os.strerror(int(number)))
        if word != "started":
            raise OSError(0, "the process that should have started it has ended")
        if hasattr(os, "pidfd_open"):
            with suppress(OSError):
                self._program = os.pidfd_open(int(number))

    @property
    def idle(self) -> bool:
        """Has it ended what it had, and can it take another?"""
        return self._ended.done() and not self.dead

    async def over(self) -> Ended:
        """Until the program has ended, and all that it started."""
        return await asyncio.shield(self._ended)

    def end(self) -> None:
        """Now; `over` tells when."""
        self.unwatch()
        self._say(END)

    def watch(self) -> None:
        """Have it look how many processes there are, until `unwatch`."""
        now = self._loop.time()
        if now - self._said_at >= SAY_S:
            self._said_at = now
            self._say(WATCH)
        self._watching = self._loop.call_later(SAY_S, self.watch)

    def unwatch(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None

    def _say(self, word: bytes) -> None:
        if not self._ended.done() and self._transport is not None:
            self._transport.write(word)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        *lines, rest = self._buffer.split(b"\n")
        self._buffer = bytearray(rest)
        for line in lines:
            text = line.decode("ascii", errors="replace")
            if text.startswith("ended "):
                self.crowded = text == "ended crowded"
                self._settle(_ended(text))
            elif not self._started.done():
                self._started.set_result(text)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002  # asyncio's signature
        """The guard is gone. Without it we end the program's own group, and can do no more."""
        self.dead = True
        if self._program is not None and not self._ended.done():
            with suppress(OSError):
                signal.pidfd_send_signal(self._program, signal.SIGKILL)
        if not self._started.done():
            self._started.set_result("")
        self._settle(Ended())

    def _settle(self, ended: Ended) -> None:
        self.unwatch()
        if self._program is not None:
            os.close(self._program)
            self._program = None
        if not self._ended.done():
            self._ended.set_result(ended)

    async def close(self) -> None:
        """With its program, if it has one."""
        self.dead = True
        if self._transport is not None:
            self._transport.abort()
        self.unwatch()
        with suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                await _until_gone(self._loop, self._process)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def _ended(text: str) -> Ended:
    _, how, *number = text.split(" ")
    if how == "exit":
        return Ended(exit_code=int(number[0]))
    if how == "signal":
        known = int(number[0]) in signal.valid_signals()
        return Ended(signal=signal.Signals(int(number[0])).name if known else f"signal {number[0]}")
    return Ended()


async def _until_gone(loop: AbstractEventLoop, process: subprocess.Popen[bytes]) -> None:
    if not hasattr(os, "pidfd_open"):
        await loop.run_in_executor(None, process.wait)
        return
    handle = os.pidfd_open(process.pid)  # It is not buried yet, so that its number is its own.
    gone = asyncio.Event()
    loop.add_reader(handle, gone.set)
    try:
        await gone.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)


def _guarding(line: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-X", "utf8", str(CHILD), str(line)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={},
        cwd="/",
        pass_fds=(line,),
        start_new_session=True,  # a key pressed at our terminal is not for it
    )


class Guards:
    """Guards that have no program at the moment, to be taken and given back."""

    def __init__(self) -> None:
        self._idle: list[Guard] = []
        self._closing: set[asyncio.Task[None]] = set()

    async def take(self) -> Guard:
        """Raises OSError when there can be no more processes."""
        while self._idle:
            guard = self._idle.pop()
            if not guard.dead:
                return guard
            self._close(guard)
        return await Guard.start()

    def give(self, guard: Guard) -> None:
        """Back, when its program has ended; or let it end by itself what it has."""
        if guard.idle:
            self._idle.append(guard)
        else:
            self._close(guard)

    def _close(self, guard: Guard) -> None:
        closing = asyncio.ensure_future(guard.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        while self._idle:
            self._close(self._idle.pop())
        if self._closing:
            await asyncio.wait(self._closing)
