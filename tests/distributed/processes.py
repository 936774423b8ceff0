"""A process of a house in tests: it says when it is ready, what it says is kept, and it ends with the test process."""

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
_forking = ThreadPoolExecutor(1)  # a child that ends with its parent ends with the thread that made it


class Program(NamedTuple):
    """How a process is started."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    ready: str  # a line that has these words says that it serves


class Process:
    """One process after the other of the same program. Signals go to it alone, and not to what it has started."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)
        self.said = ""  # the line that said it is ready
        self.starts = 0
        self._running: subprocess.Popen[bytes] | None = None
        self._reading: Thread | None = None

    @property
    def name(self) -> str:
        return self.program.name

    @property
    def pid(self) -> int:
        assert self._running is not None, f"{self.name} does not run"
        return self._running.pid

    @property
    def alive(self) -> bool:
        return self._running is not None and self._running.poll() is None

    def start(self, program: Program | None = None) -> None:
        """Returns when it is ready. `program`: what it is from now on."""
        self.begin(program)
        self.await_ready()

    def begin(self, program: Program | None = None) -> None:
        """As `start`, for several at once: `await_ready` comes next."""
        assert not self.alive, f"{self.name} runs already"
        self.program = program or self.program
        self.starts += 1
        self.said, self._answered = "", Event()
        self.lines.append(f"--- start {self.starts}")
        self._running = _forking.submit(self._forked).result()
        assert self._running.stderr is not None
        self._reading = Thread(target=self._listen, args=(self._running.stderr, self._answered), daemon=True)
        self._reading.start()

    def await_ready(self) -> None:
        assert self._answered.wait(READY_S), f"{self.name} says nothing:\n{self.told()}"
        assert self.said, f"{self.name} ended at once:\n{self.told()}"

    def send(self, which: signal.Signals) -> None:
        assert self._running is not None
        self._running.send_signal(which)

    def kill(self) -> None:
        """-9, as a crash; right at any time."""
        if self._running is not None:
            self._running.kill()
            self.wait()

    def wait(self, timeout_s: float = READY_S) -> int:
        """Its exit code, negative for a signal, when it has ended and all that it said was read."""
        assert self._running is not None
        assert self._reading is not None
        code = self._running.wait(timeout_s)
        self._reading.join(5.0)  # what it has started may keep the pipe open: nobody waits for that
        self._running = None
        return code

    def stop(self, timeout_s: float = READY_S) -> int:
        """Ask it to end, and wait for that."""
        self.send(signal.SIGTERM)
        return self.wait(timeout_s)

    def close(self) -> None:
        """Whatever state it is in."""
        if self._running is not None:
            with suppress(ProcessLookupError):
                self._running.send_signal(signal.SIGCONT)
            self.kill()

    def told(self) -> str:
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
                if not self.said and self.program.ready in text:
                    self.said = text
                    answered.set()
        answered.set()
