"""Idle connections of a stranger cannot use up the descriptors of a server."""

from __future__ import annotations

import re
import resource
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.e2e.processes import Workspace

FILES = 200  # that the server may open
IDLE = 2 * FILES


@contextmanager
def open_files(most: int) -> Iterator[None]:
    """The limit of this process and of those that it starts."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_server_answers_while_there_are_more_idle_connections_than_it_may_open_files(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    with ExitStack() as stack:
        with open_files(FILES):
            server = stack.enter_context(workspace.started("server", "--port", "0"))
        found = re.search(r"http://[\d.]+:(\d+)", server.error_line())
        assert found is not None
        with open_files(max(3 * IDLE, resource.getrlimit(resource.RLIMIT_NOFILE)[0])):
            for _ in range(IDLE):
                stack.enter_context(socket.create_connection(("127.0.0.1", int(found[1])), timeout=30))
            with urllib.request.urlopen(f"{found[0]}/health", timeout=30) as response:
                assert response.status == 200
        server.process.terminate()
        assert server.end()[0] == 0
