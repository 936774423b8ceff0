"""A command in a pseudo-terminal: what it writes, and what a person types."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.processes import NOETL, PATIENCE_S, Workspace

if sys.platform == "win32":
    pytest.skip("pseudo-terminals of POSIX", allow_module_level=True)

import fcntl
import pty
import select
import struct
import termios

ROWS = 40


class Terminal:
    """The terminal of one process, which it controls, so that Ctrl-C reaches the process as a signal."""

    def __init__(self, handle: int, process: subprocess.Popen[bytes]) -> None:
        self._handle, self.process = handle, process

    def type(self, keys: str) -> None:
        os.write(self._handle, keys.encode())

    def read_until(self, words: str) -> str:
        """What it has written since the last call, up to and with these words."""
        seen = b""
        while words.encode() not in seen:
            ready, _, _ = select.select([self._handle], [], [], PATIENCE_S)
            assert ready, f"{words!r} never came: {seen!r}"
            try:
                seen += os.read(self._handle, 1)
            except OSError:  # the process has ended
                raise AssertionError(f"{words!r} never came: {seen!r}") from None
        return seen.decode()

    def resize(self, columns: int) -> None:
        fcntl.ioctl(self._handle, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))

    def edits_lines(self) -> bool:
        """Whether it is as a shell expects it: it echoes, and collects lines."""
        flags = termios.tcgetattr(self._handle)[3]
        return bool(flags & termios.ECHO and flags & termios.ICANON)


@contextmanager
def terminal(workspace: Workspace, *arguments: str | Path, columns: int = 100) -> Iterator[Terminal]:
    mine, theirs = pty.openpty()
    environment = {**workspace.environment, "TERM": "xterm-256color", "INPUTRC": os.devnull}
    for name in ("NO_COLOR", "COLUMNS", "LINES"):
        environment.pop(name, None)
    # A session of its own, whose terminal this becomes.
    command = [sys.executable, "-c", _TAKE_TERMINAL, str(NOETL), *map(str, arguments)]
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=workspace.folder, env=environment,
        start_new_session=True,
    ) as process:  # fmt: skip
        shown = Terminal(mine, process)
        shown.resize(columns)
        try:
            yield shown
        finally:
            process.kill()
            os.close(theirs)
            os.close(mine)


_TAKE_TERMINAL = """\
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
