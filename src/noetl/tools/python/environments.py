"""Environments for the `requirements` of `python` tasks: made with uv, and cached by a digest.

An environment is built in a temporary folder and then renamed, so that other processes see it complete or not at all.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from noetl.output import Output, failed
from noetl.tool import ToolUser
from noetl.tools.environment import argument_text
from noetl.tools.errors import InvalidInput, ToolError
from noetl.tools.process_guard.guard import GuardPool
from noetl.tools.process_guard.lines import LineForwarder
from noetl.tools.shell.process import CapturedStream, ShellCommand, run_command

REQUIREMENTS_MAX = 200  # of one task
UNUSED_S = 30 * 24 * 3600  # an environment that no task has used for this long is removed
REPORT_BYTES_MAX = 64 * 1024  # of uv's output
REASON_CHARS_MAX = 1_000
# uv's own settings (the index, proxies, certificates) come from the worker; other variables may be secrets.
INHERITED = re.compile(
    r"PATH|HOME|LANG|TZ|TMPDIR|UV_.*|XDG_.*|SSL_CERT_(FILE|DIR)|(HTTPS?|ALL|NO)_PROXY", re.IGNORECASE
)
# `name`, `name[extra]`, `name==1.0`, `name @ https://…`; no option, and no path, which another worker may not have.
_REQUIREMENT = re.compile(r"[A-Za-z0-9][\w.-]*\s*(\[[^\]\n]*\])?\s*([(<>=!~;@][^\n]*)?")
_NETWORK = "Failed to fetch"


class EnvironmentFailure(ToolError):
    """uv is missing, or cannot install the packages."""

    kind = "python"

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self._retryable = retryable

    def output(self) -> Output:
        return failed(self.kind, str(self), retryable=self._retryable)


class Environments:
    """The cached environments of this machine. Two calls that need the same one wait for one installation."""

    def __init__(self, user: ToolUser | None = None) -> None:
        self._user = user
        self._locks: dict[Path, asyncio.Lock] = {}

    async def python(self, requirements: list[str], say: Callable[[str], None]) -> str:
        """The interpreter of the environment; `say` gets uv's lines. Raises ToolError and OSError."""
        needed = _checked(requirements)
        folder = _cache_folder(self._user) / _digest(needed)
        async with self._locks.setdefault(folder, asyncio.Lock()):
            if not folder.is_dir():
                await _make(folder, needed, say, self._user)
        os.utime(folder)
        return str(folder / "bin" / "python")


def _checked(requirements: list[str]) -> list[str]:
    """Sorted and without duplicates. Raises InvalidInput."""
    if len(requirements) > REQUIREMENTS_MAX:
        raise InvalidInput(f"the task has too many requirements (limit REQUIREMENTS_MAX: {REQUIREMENTS_MAX})")
    for each in requirements:
        if not _REQUIREMENT.fullmatch(argument_text(each, "`requirements`").strip()):
            raise InvalidInput(
                f'"{each[:80]}" under `requirements` is not a package; write `pandas` or `pandas==2.2.3`'
            )
    return sorted({each.strip() for each in requirements})


def _digest(requirements: list[str]) -> str:
    """The same requirements give another environment for another Python."""
    body = json.dumps([requirements, sys.version, sys.base_prefix, sysconfig.get_platform()])
    return hashlib.sha256(body.encode()).hexdigest()[:32]


def _cache_folder(user: ToolUser | None = None) -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(user.home if user else os.path.expanduser("~"), ".cache")
    return Path(base) / "noetl" / (f"python-{user.name}" if user else "python")


def find_uv(python: str = sys.executable, path: str | None = None) -> str:
    """The program `uv`, beside the interpreter or on the PATH. Raises EnvironmentFailure."""
    beside = Path(python).with_name("uv")
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("uv", path=path)
    if found is None:
        raise EnvironmentFailure(
            "the task has `requirements`, which are installed with uv, and uv is not installed on this worker: "
            "pip install uv"
        )
    return found


async def _make(folder: Path, requirements: list[str], say: Callable[[str], None], user: ToolUser | None) -> None:
    """Raises EnvironmentFailure and OSError. A cancelled or failed installation leaves nothing behind."""
    uv = find_uv()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
        if user is not None:
            user.give(str(draft))
    except OSError as error:
        where = f'the folder for environments, "{folder.parent}", cannot be written'
        raise EnvironmentFailure(f"{where}: {error.strerror}; set XDG_CACHE_HOME to another one") from error
    try:
        made = draft / "env"
        await _run(uv, ["venv", "--quiet", "--relocatable", "--python", sys.executable, str(made)], draft, say, user)
        python = str(made / "bin" / "python")
        await _run(uv, ["pip", "install", "--python", python, "--", *requirements], draft, say, user)
        _rename(made, folder)
        await asyncio.to_thread(_remove_unused, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _rename(made: Path, folder: Path) -> None:
    """Another process may have been faster; its environment is as good."""
    try:
        made.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise


async def _run(uv: str, arguments: list[str], cwd: Path, say: Callable[[str], None], user: ToolUser | None) -> None:
    """Raises EnvironmentFailure with uv's reason."""
    env = {name: value for name, value in os.environ.items() if INHERITED.fullmatch(name)}
    if user is not None:
        env.setdefault("UV_CACHE_DIR", str(cwd / "uv"))  # the user may not write to the cache of the worker
    command = ShellCommand([uv, "--color", "never", "--no-progress", *arguments], env, str(cwd), b"")
    guards = GuardPool(user)
    try:
        with (
            LineForwarder(say) as lines,
            CapturedStream("standard output", REPORT_BYTES_MAX) as stdout,
            CapturedStream("standard error", REPORT_BYTES_MAX, lines.add) as stderr,
        ):
            status = await run_command(command, stdout, stderr, guards)
            if status is not None and status.exit_code == 0:
                return
            report = stderr.body().decode(errors="replace")
    finally:
        await guards.close()
    raise EnvironmentFailure(f"the requirements cannot be installed: {_reason(report)}", retryable=_NETWORK in report)


def _reason(report: str) -> str:
    """uv's error with its causes, on one line."""
    lines = [" ".join(line.split()) for line in report.splitlines() if line.strip()]
    first = next((place for place, line in enumerate(lines) if line.startswith("error: ")), 0)
    words = (line.removeprefix("error: ").removeprefix("cause: ").rstrip(".") for line in lines[first:])
    return "; ".join(words)[:REASON_CHARS_MAX] or "uv gave no reason"


def _remove_unused(newest: Path) -> None:
    """Remove environments, and drafts of killed processes, that were not used for a long time."""
    limit = newest.stat().st_mtime - UNUSED_S
    for each in newest.parent.iterdir():
        with suppress(OSError):
            if each.stat().st_mtime < limit:
                shutil.rmtree(each)
