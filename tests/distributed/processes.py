"""A process of a cluster in tests: its output is kept and shows when it is ready, and it ends with the test process."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import IO, NamedTuple

READY_S = 180.0
LINES_KEPT = 200
_PARENT_DEATH = 1  # PR_SET_PDEATHSIG
_forking = ThreadPoolExecutor(1)  # PR_SET_PDEATHSIG refers to the thread that started the child


class Program(NamedTuple):
    """The command and the environment of a process."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    ready: str  # text of the line that the process prints when it is ready


class Process:
    """A process that can be started again. Signals go to it alone, not to its children."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)
        self.ready_line = ""  # the line that it printed when it was ready
        self.starts = 0
        self._running: subprocess.Popen[bytes] | None = None
        self._reading: Thread | None = None

    @property
    def name(self) -> str:
        return self.program.name

    @property
    def pid(self) -> int:
        assert self._running is not None, f"{self.name} is not running"
        return self._running.pid

    @property
    def alive(self) -> bool:
        return self._running is not None and self._running.poll() is None

    def start(self, program: Program | None = None) -> None:
        """Start it and wait until it is ready. `program`: replaces the previous one."""
        self.begin(program)
        self.await_ready()

    def begin(self, program: Program | None = None) -> None:
        """Start it without waiting; `await_ready` waits. For several processes at the same time."""
        assert not self.alive, f"{self.name} runs already"
        self.program = program or self.program
        self.starts += 1
        self.ready_line, self._answered = "", Event()
        self.lines.append(f"--- start {self.starts}")
        self._running = _forking.submit(self._forked).result()
        assert self._running.stderr is not None
        self._reading = Thread(target=self._listen, args=(self._running.stderr, self._answered), daemon=True)
        self._reading.start()

    def await_ready(self) -> None:
        assert self._answered.wait(READY_S), f"{self.name} says nothing:\n{self.output()}"
        assert self.ready_line, f"{self.name} ended at once:\n{self.output()}"

    def send(self, which: signal.Signals) -> None:
        assert self._running is not None
        self._running.send_signal(which)

    def kill(self) -> None:
        """kill -9, even if it is not running."""
        if self._running is not None:
            self._running.kill()
            self.wait()

    def wait(self, timeout_s: float = READY_S) -> int:
        """Wait for its end, and return the exit code, negative for a signal."""
        assert self._running is not None
        assert self._reading is not None
        code = self._running.wait(timeout_s)
        self._reading.join(30.0)  # its children may keep the pipe open
        self._running = None
        return code

    def stop(self, timeout_s: float = READY_S) -> int:
        """Send SIGTERM, and wait for its end."""
        self.send(signal.SIGTERM)
        return self.wait(timeout_s)

    def close(self) -> None:
        """End it in any state."""
        if self._running is not None:
            with suppress(ProcessLookupError):
                self._running.send_signal(signal.SIGCONT)
            self.kill()

    def output(self) -> str:
        return "\n".join(self.lines)

    def _forked(self) -> subprocess.Popen[bytes]:
        library, parent = ctypes.CDLL(None), os.getpid()

        def end_with_parent() -> None:
            library.prctl(_PARENT_DEATH, int(signal.SIGKILL))
            if os.getppid() != parent:
                os._exit(1)

        return subprocess.Popen(
            [*self.program.command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            env=dict(self.program.environment), cwd=self.program.folder, preexec_fn=end_with_parent,
        )  # fmt: skip

    def _listen(self, said: IO[bytes], answered: Event) -> None:
        with said:
            for line in said:
                text = line.decode("utf-8", "replace").rstrip()
                self.lines.append(text)
                if not self.ready_line and self.program.ready in text:
                    self.ready_line = text
                    answered.set()
        answered.set()
