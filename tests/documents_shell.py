"""One bash that runs commands one after the other, as in a terminal, in a clean environment.

Each command has a separate output, also in the background. Tests wait for output, with a generous timeout.
"""

from __future__ import annotations

import os
import re
import signal
import site
import subprocess
import sys
import tempfile
import threading
import venv
from collections.abc import Callable
from pathlib import Path

PATIENCE_S = 300  # far more than any command needs
OVER = re.compile(r"\x01over \d+\x01\n?")


def fresh_environment(folder: Path) -> dict[str, str]:
    """The environment of a fresh installation: Python with NoETL and pip in `folder`, and no other settings of ours.

    It uses the packages of the project; packages that a page installs are in `folder`, too.
    """
    venv.EnvBuilder(symlinks=True).create(folder)
    python = folder / "bin" / "python"
    (packages,) = (folder / "lib").glob("python*/site-packages")
    (packages / "project.pth").write_text(f"import site; site.addsitedir({site.getsitepackages()[0]!r})\n")
    for name, module in (("noetl", "noetl.__main__"), ("pip", "pip.__main__"), ("pytest", "pytest.__main__")):
        command = folder / "bin" / name
        words = f"import runpy, sys; sys.argv[0] = {name!r}; runpy.run_module({module!r}, run_name='__main__')"
        command.write_text(f"#!{python}\n{words}\n")
        command.chmod(0o755)
    for command in Path(sys.executable).parent.iterdir():  # programs from packages, such as nats-server
        if not (folder / "bin" / command.name).exists():
            (folder / "bin" / command.name).symlink_to(command)
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("NOETL_", "XDG_", "PYTEST_", "PYTHON", "VIRTUAL_ENV"))
    }
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return {**kept, "PATH": path, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


class CommandTimeout(Exception):
    """A command does not end."""

    def __init__(self, got: str) -> None:
        super().__init__(got)
        self.got = got


class _Outputs:
    """The output of each command so far."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._grown = threading.Condition()

    def add(self, pipe: Path) -> None:
        threading.Thread(target=self._read, args=(pipe, len(self.texts)), daemon=True).start()
        self.texts.append("")

    def _read(self, pipe: Path, number: int) -> None:
        with pipe.open("rb", buffering=0) as stream:
            left = b""
            while chunk := stream.read(65_536):
                left += chunk
                end = left.rfind(b"\n") + 1  # Complete lines, so that no character is split.
                with self._grown:
                    self.texts[number] += left[:end].decode("utf-8", "replace")
                    self._grown.notify_all()
                left = left[end:]

    def until(self, ready: Callable[[], bool]) -> bool:
        with self._grown:
            return self._grown.wait_for(ready, PATIENCE_S)


class Shell:
    """`begin` a command, then wait for its `end`, or `until` a condition on its output holds."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._pipes = tempfile.TemporaryDirectory(prefix="pipes")
        self._outputs = _Outputs()
        self._process = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-m"],  # -m: Ctrl-C reaches background jobs, and %1 names one
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True,
            encoding="utf-8", cwd=folder, env=environment, start_new_session=True,
        )  # fmt: skip

    def begin(self, command: str) -> int:
        number = len(self._outputs.texts)
        pipe = Path(self._pipes.name) / str(number)
        os.mkfifo(pipe)
        self._outputs.add(pipe)
        assert self._process.stdin is not None
        self._process.stdin.write(
            f"exec >{pipe} 2>&1\n"
            f"{{ {command}\n}} </dev/null\n"  # bash itself reads the next commands from its standard input
            f"printf '\\001over %s\\001\\n' $?\n"
            "exec >/dev/null 2>&1\n"
        )
        self._process.stdin.flush()
        return number

    def end(self, number: int) -> str:
        """Wait for its end; returns its output."""
        texts = self._outputs.texts
        if not self._outputs.until(lambda: OVER.search(texts[number]) is not None):
            raise CommandTimeout(self.output(number))
        return self.output(number)

    def until(self, ready: Callable[[], bool]) -> bool:
        """Wait for a condition on the `output` of commands; False after the timeout."""
        return self._outputs.until(ready)

    def output(self, number: int) -> str:
        return OVER.sub("", self._outputs.texts[number])

    def close(self) -> None:
        """End the shell and all processes of its session."""
        session = os.getsid(self._process.pid)
        for signalled in (signal.SIGTERM, signal.SIGKILL):
            for pid in _of_session(session):
                if pid != self._process.pid:
                    _signal(pid, signalled)
        self._process.kill()
        self._process.communicate()
        self._pipes.cleanup()


def _of_session(session: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.getsid(int(entry.name)) == session:
                    found.append(int(entry.name))
            except ProcessLookupError:
                continue
    return found


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
