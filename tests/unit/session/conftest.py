"""Deployments that sessions are opened on: a database file, and a real server in a process of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.processes import NOETL


@pytest.fixture(scope="session")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("server")
    command = [str(NOETL), "server", "--db", str(folder / "noetl.db"), "--port", "0"]
    environment = {**os.environ, "NOETL_LOG": "warning"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, cwd=folder) as process:
        try:
            assert process.stderr is not None
            ready = next(line for line in process.stderr if "ready: " in line)
            yield ready.partition("ready: ")[2].split()[0]
        finally:
            process.terminate()
            process.communicate(timeout=60)


@pytest.fixture(params=["file", "server"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a session works: the address of a server, or a new file."""
    if request.param == "server":
        return str(request.getfixturevalue("server_url"))
    return str(tmp_path / "noetl.db")
