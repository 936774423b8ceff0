"""`noetl server` as a process with a temporary database. Tests stop, kill and restart it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.distributed.processes import Process, Program
from tests.ports import free_port

NOETL: Final = Path(sys.executable).with_name("noetl")
ANSWER_S: Final = 120.0


class UiServer:
    """A server, and its API for preparations and checks of a test; the test itself uses the browser."""

    def __init__(
        self, folder: Path, *options: str, port: int | None = None, variables: Mapping[str, str] | None = None
    ) -> None:
        """`variables`: further environment variables."""
        self.folder = folder
        self.options = options
        self.variables = variables or {}
        port = port or free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.process = Process(self._program(port))
        self.process.start()

    def start_again(self) -> None:
        """Start the server again on the same port and database."""
        self.process.start()

    def close(self) -> None:
        self.process.close()

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Send an API request and return the document. Raises AssertionError for an error status."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if data else {}
        request = Request(f"{self.url}{path}", data=data, headers=headers, method=method)
        try:
            with urlopen(request, timeout=ANSWER_S) as answer:
                text = answer.read()
        except HTTPError as error:
            detail = error.read().decode("utf-8", "replace")
            error.close()
            raise AssertionError(f"{method} {path}: {error.code} {detail}") from error
        return json.loads(text) if text else None

    def register(self, text: str) -> str:
        """Register a playbook; returns its path."""
        path: str = self.ask("POST", "/playbooks", {"text": text})["path"]
        return path

    def begin(self, text: str, **workload: object) -> str:
        """Start an execution; returns its id."""
        body = {"path": self.register(text), "workload": workload}
        id: str = self.ask("POST", "/executions", body)["execution_id"]
        return id

    def run(self, text: str, **workload: object) -> str:
        """Run an execution to its end; returns its id."""
        body = {"path": self.register(text), "workload": workload}
        ended: Mapping[str, Any] = self.ask("POST", "/executions?wait=100", body)
        assert ended["status"] != "running", ended
        id: str = ended["execution_id"]
        return id

    def follow(self, id: str, until: str) -> None:
        """Wait for an event that contains this text."""
        with urlopen(f"{self.url}/executions/{id}/stream", timeout=ANSWER_S) as stream:
            for line in stream:
                if line.startswith(b"data:") and until.encode() in line:
                    return
        raise AssertionError(f"{id} has ended without {until!r}")

    def signal(self, id: str, name: str, data: object = None) -> None:
        """Send a signal as soon as a task waits for it."""
        self.follow(id, f'{{"type":"signal","name":"{name}"}}')
        self.ask("POST", f"/executions/{id}/signal", {"name": name, "data": data})

    def head(self, id: str) -> Mapping[str, Any]:
        head: Mapping[str, Any] = self.ask("GET", f"/executions/{id}/head")
        return head

    def _program(self, port: int) -> Program:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("NOETL_")}
        environment |= self.variables
        database = self.folder / "noetl.db"
        command = [str(NOETL), "server", "--db", str(database), "--port", str(port), *self.options]
        return Program("server", command, environment, self.folder, ready=self.url)
