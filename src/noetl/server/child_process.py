"""Processes for texts of callers: messages over pipes, no credentials, and limits of memory.

Both sides use this module, so it imports no web framework: such a process must start fast.
"""

from __future__ import annotations

import asyncio
import os
import signal
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

MEMORY_BYTES: Final = 512 << 20  # beside what a process has when it begins
_LENGTH: Final = struct.Struct(">I")
# What an interpreter needs; credentials and addresses of the server are not passed on.
_ENVIRONMENT: Final = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "SYSTEMROOT", "TMPDIR")


class MessageTooLarge(Exception):
    """The process sends more than its parent accepts."""


class ChildProcess:
    """The parent's side. `send` and `receive` raise EOFError when the process has ended."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._in, self._out = process, process.stdin, process.stdout

    @classmethod
    async def start(cls, module: str) -> ChildProcess:
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", module, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL, env=environment, cwd=os.sep,
        )  # fmt: skip
        return cls(process)

    async def send(self, message: msgspec.Struct) -> None:
        body = msgspec.msgpack.encode(message)
        try:
            self._in.write(_LENGTH.pack(len(body)))
            self._in.write(body)
            await self._in.drain()
        except ConnectionError as error:
            raise EOFError from error

    async def receive(self, bytes_max: int) -> bytes:
        """Raises MessageTooLarge."""
        try:
            size: int = _LENGTH.unpack(await self._out.readexactly(_LENGTH.size))[0]
            if size > bytes_max:
                raise MessageTooLarge
            return await self._out.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise EOFError from error

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()

    async def end(self) -> None:
        self.kill()
        await self._process.wait()


# The side of the process


def write_message(stream: BinaryIO, message: msgspec.Struct) -> None:
    body = msgspec.msgpack.encode(message)
    stream.write(_LENGTH.pack(len(body)) + body)
    stream.flush()


def read_message(stream: BinaryIO) -> bytes:
    """Raises EOFError when the parent has ended."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    return stream.read(_LENGTH.unpack(head)[0])


def limit_resources(*, cpu_s: int | None = None, nice: int = 0) -> None:
    """`cpu_s`: CPU time until the process is killed. `nice`: how much lower its priority is than that of the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    with suppress(ImportError):  # not on every platform
        import resource

        with suppress(OSError):  # only on Linux
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            limit = pages * resource.getpagesize() + MEMORY_BYTES
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        if cpu_s is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        os.nice(nice)


def peak_kib() -> int:
    """The most memory that this process has used; 0 where it is not known.

    `getrusage` would also count the memory of the parent at the time of its fork.
    """
    with suppress(OSError):  # only on Linux
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    return 0
