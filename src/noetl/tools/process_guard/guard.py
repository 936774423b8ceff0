"""Guards: helper processes that run programs of playbooks, and end them with all processes they have started.

A guard runs one program at a time and is reused. Processes that the program starts cannot leave the guard,
and their number is limited. child.py is the code of the guard process.
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
import tempfile
from asyncio import AbstractEventLoop, Future, TimerHandle
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from noetl.tool import ToolUser
from noetl.tools.process_guard.child import END, PROCESSES_MAX, RUN, WATCH
from noetl.tools.sandbox import Restrictions, SandboxFailed

WATCH_EVERY_S = 0.1  # between two requests to a guard to count processes
END_S = 6.0  # a guard that needs longer to end its program is dropped
CHILD = Path(__file__).with_name("child.py")
TOO_MANY_PROCESSES = (
    f"the program had more than {PROCESSES_MAX} processes at once (limit PROCESSES_MAX); all were killed"
)

_LENGTH = struct.Struct(">I")


class ProcessSpec(NamedTuple):
    """A program to run."""

    argv: list[str]  # the first item is a path
    env: dict[str, str]
    cwd: str
    fds: Sequence[int]  # become its file descriptors 0, 1, 2, …
    restrictions: Restrictions | None = None  # None: it may do what the worker may do


class ExitStatus(NamedTuple):
    """How a program ended: one of the two is set; neither if it is not known."""

    exit_code: int | None = None
    signal: str | None = None


class ProcessGuard(asyncio.Protocol):
    """One guard process, and the program that it runs."""

    def __init__(self, channel: socket.socket, process: subprocess.Popen[bytes], user: ToolUser | None = None) -> None:
        self._user = user
        self.dead = False  # it can run no further program
        self.over_limit = False  # the program was killed because it had too many processes
        self._loop = loop = asyncio.get_running_loop()
        self._socket, self._process = channel, process
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._started: Future[str] = loop.create_future()
        self._ended: Future[ExitStatus] = loop.create_future()
        self._program: int | None = None  # pidfd of the program
        self._watching: TimerHandle | None = None
        self._watched_at = 0.0  # time of the last WATCH message

    @classmethod
    async def start(cls, user: ToolUser | None = None, nice: int = 0) -> ProcessGuard:
        """`user`: of its programs; the guard itself stays what it is. `nice`: how much lower their priority is.

        Raises OSError if no process can be started.
        """
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        try:
            guard = cls(ours, _start_process(theirs.fileno(), nice), user)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        try:
            guard._transport, _ = await loop.create_connection(lambda: guard, sock=ours)
        except BaseException:
            ours.close()  # the guard process detects this and exits
            guard._process.kill()
            guard._process.wait()
            raise
        return guard

    async def run(self, program: ProcessSpec) -> None:
        """Start a program. Raises OSError if that fails, and SandboxFailed."""
        assert self._transport is not None
        self.over_limit, self._watched_at = False, 0.0
        self._started, self._ended = self._loop.create_future(), self._loop.create_future()
        limits = None if program.restrictions is None else program.restrictions._asdict()
        env, user = program.env, self._user
        if user is not None and env.get("HOME") == os.environ.get("HOME"):
            env = {**env, "HOME": user.home}
        as_user = None if user is None else user._asdict()
        request = {"argv": program.argv, "env": env, "cwd": program.cwd, "restrictions": limits, "user": as_user}
        body = json.dumps(request).encode()
        # Nothing else is being sent, so the socket buffer has space for this.
        socket.send_fds(self._socket, [RUN], list(program.fds))
        self._transport.write(_LENGTH.pack(len(body)) + body)
        message, _, number = (await self._started).partition(" ")
        if message == "refused":
            self._settle(ExitStatus())
            raise OSError(int(number), os.strerror(int(number)))
        if message == "denied":
            self._settle(ExitStatus())
            raise SandboxFailed(number)
        if message != "started":
            raise OSError(0, "the guard process has ended")
        if hasattr(os, "pidfd_open"):
            with suppress(OSError):
                self._program = os.pidfd_open(int(number))

    def new_folder(self, prefix: str) -> str:
        """An empty folder in which programs may write. The caller removes it."""
        return new_folder(prefix, self._user)

    @property
    def idle(self) -> bool:
        """Has its program ended, and can it run another one?"""
        return self._ended.done() and not self.dead

    async def wait(self) -> ExitStatus:
        """Wait until the program and all processes that it has started have ended."""
        return await asyncio.shield(self._ended)

    def end(self) -> None:
        """Kill the program. `wait` returns when it has ended."""
        self.unwatch()
        self._send(END)

    def watch(self) -> None:
        """Have the guard count the processes of the program, until `unwatch`."""
        now = self._loop.time()
        if now - self._watched_at >= WATCH_EVERY_S:
            self._watched_at = now
            self._send(WATCH)
        self._watching = self._loop.call_later(WATCH_EVERY_S, self.watch)

    def unwatch(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None

    def _send(self, message: bytes) -> None:
        if not self._ended.done() and self._transport is not None:
            self._transport.write(message)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        *lines, rest = self._buffer.split(b"\n")
        self._buffer = bytearray(rest)
        for line in lines:
            text = line.decode(errors="replace")
            if text.startswith("ended "):
                self.over_limit = text == "ended crowded"
                self._settle(_exit_status(text))
            elif not self._started.done():
                self._started.set_result(text)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002  # asyncio's signature
        """The guard has died. The worker kills the program itself; it cannot reach other processes of it."""
        self.dead = True
        if self._program is not None and not self._ended.done():
            with suppress(OSError):
                signal.pidfd_send_signal(self._program, signal.SIGKILL)
        if not self._started.done():
            self._started.set_result("")
        self._settle(ExitStatus())

    def _settle(self, status: ExitStatus) -> None:
        self.unwatch()
        if self._program is not None:
            os.close(self._program)
            self._program = None
        if not self._ended.done():
            self._ended.set_result(status)

    async def close(self) -> None:
        """End the guard, and its program if it has one."""
        self.dead = True
        if self._transport is not None:
            self._transport.abort()
        self.unwatch()
        with suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                await _wait_for_exit(self._loop, self._process)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def _exit_status(text: str) -> ExitStatus:
    _, how, *number = text.split(" ")
    if how == "exit":
        return ExitStatus(exit_code=int(number[0]))
    if how == "signal":
        known = int(number[0]) in signal.valid_signals()
        return ExitStatus(signal=signal.Signals(int(number[0])).name if known else f"signal {number[0]}")
    return ExitStatus()


async def _wait_for_exit(loop: AbstractEventLoop, process: subprocess.Popen[bytes]) -> None:
    if not hasattr(os, "pidfd_open"):
        await loop.run_in_executor(None, process.wait)
        return
    handle = os.pidfd_open(process.pid)  # the process is not reaped yet, so its id has not been reused
    ended = asyncio.Event()
    loop.add_reader(handle, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)


def _start_process(channel: int, nice: int = 0) -> subprocess.Popen[bytes]:
    """Signals of the worker's terminal, such as Ctrl-C, do not reach it, not even before it has its own session."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # the guard drops it and unblocks it
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-X", "utf8", str(CHILD), str(channel), str(nice)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
            pass_fds=(channel,),
            start_new_session=True,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def new_folder(prefix: str, user: ToolUser | None) -> str:
    folder = tempfile.mkdtemp(prefix=prefix)
    if user is not None:
        user.give(folder)
    return folder


class GuardPool:
    """Idle guards."""

    def __init__(self, user: ToolUser | None = None, nice: int = 0) -> None:
        """`user`: runs the programs; None: that of this process. `nice`: how much lower their priority is."""
        self._user, self._nice = user, nice
        self._idle: list[ProcessGuard] = []
        self._closing: set[asyncio.Task[None]] = set()

    async def take(self) -> ProcessGuard:
        """An idle guard or a new one. Raises OSError if no process can be started."""
        while self._idle:
            guard = self._idle.pop()
            if not guard.dead:
                return guard
            self._close(guard)
        return await ProcessGuard.start(self._user, self._nice)

    def new_folder(self, prefix: str) -> str:
        """An empty folder in which programs may write. The caller removes it."""
        return new_folder(prefix, self._user)

    def give(self, guard: ProcessGuard) -> None:
        """Return a guard. If its program is still running, both are ended in the background."""
        if guard.idle:
            self._idle.append(guard)
        else:
            self._close(guard)

    def _close(self, guard: ProcessGuard) -> None:
        closing = asyncio.ensure_future(guard.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        while self._idle:
            self._close(self._idle.pop())
        if self._closing:
            await asyncio.wait(self._closing)
