"""A program of the same user reads neither the environment nor the memory of `noetl server` and `noetl worker`."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import noetl
from tests.e2e.processes import PATIENCE_S

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc/PID/environ")

NOBODY = "nobody"
SYSTEM_PYTHON = "/usr/bin/python3"
MAIN = "import sys; from noetl.__main__ import main; sys.exit(main())"
READ = """
import json, os, sys
def attempt(name):
    try:
        os.close(os.open(f"/proc/{sys.argv[1]}/{name}", os.O_RDONLY))
    except PermissionError:
        return "refused"
    return "read"
print(json.dumps([os.getuid(), attempt("environ"), attempt("mem")]))
"""


class User:
    """An account without rights, and a Python that it may execute: for root `nobody`; otherwise the user of the tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._options: dict[str, Any] = {}
        self.uid = os.geteuid()
        candidates = [sys.executable]
        if self.uid == 0:
            account = pwd.getpwnam(NOBODY)
            self.uid = account.pw_uid
            self._options = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
            os.chown(folder, account.pw_uid, account.pw_gid)
            candidates.append(SYSTEM_PYTHON)
        path = os.pathsep.join([str(Path(noetl.__file__).parents[1]), *filter(None, sys.path)])
        self._environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": path, "TERM": "dumb"}
        self._python = next(filter(self._can_execute, candidates), "")
        if not self._python:
            pytest.skip(f"{NOBODY} may execute neither the Python of the tests nor {SYSTEM_PYTHON}")

    def _can_execute(self, python: str) -> bool:
        self._python = python
        try:
            with self.started("-c", "import msgspec, uvicorn, noetl") as process:
                return process.wait(PATIENCE_S) == 0
        except OSError:
            return False

    @contextmanager
    def started(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        with subprocess.Popen(
            [self._python, *arguments], cwd=self.folder, env=self._environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **self._options,
        ) as process:  # fmt: skip
            try:
                yield process
            finally:
                process.kill()

    def read(self, pid: int) -> tuple[str, str]:
        """What another program of this user gets: of the environment, and of the memory."""
        with self.started("-c", READ, str(pid)) as process:
            stdout, stderr = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, stderr
        uid, environment, memory = json.loads(stdout)
        assert uid == self.uid
        return environment, memory


@pytest.fixture
def user() -> Iterator[User]:
    """Not pytest's own folder, which no other user may enter."""
    folder = Path(tempfile.mkdtemp(prefix="noetl-test-"))
    folder.chmod(0o700)
    try:
        yield User(folder)
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("command", ["server", "worker"])
def test_a_program_of_the_same_user_reads_neither_memory_nor_environment_of(command: str, user: User) -> None:
    with ExitStack() as stack:
        other = stack.enter_context(user.started("-c", "import signal; print(1, flush=True); signal.pause()"))
        assert other.stdout is not None
        assert other.stdout.readline() == "1\n"
        assert user.read(other.pid)[0] == "read", "of a program that does not protect itself"

        if command == "server":
            database = str(user.folder / "noetl.db")
            process = stack.enter_context(user.started("-c", MAIN, "server", "--db", database, "--port", "0"))
            assert process.stderr is not None
            said = process.stderr.readline()
            assert "ready: http://127.0.0.1:" in said, said + process.stderr.read()
        else:
            nats = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            nats.settimeout(PATIENCE_S)
            url = f"nats://127.0.0.1:{nats.getsockname()[1]}"
            process = stack.enter_context(user.started("-c", MAIN, "worker", "--nats", url))
            stack.enter_context(nats.accept()[0])  # it has begun its work
        assert user.read(process.pid) == ("refused", "refused")
