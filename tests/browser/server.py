"""`noetl server` in a process of its own on a database that is gone with the test: stopped, killed, started again."""

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
    """A server, and the API for what a test prepares or looks up: what it is about is done in the browser."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.options = options
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.process = Process(self._program(port))
        self.process.start()

    def start_again(self) -> None:
        """On the same port and database, after it was stopped or killed."""
        self.process.start()

    def close(self) -> None:
        self.process.close()

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """The document that the API gives; what it refuses is raised."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if data else {}
        asked = Request(f"{self.url}{path}", data=data, headers=headers, method=method)
        try:
            with urlopen(asked, timeout=ANSWER_S) as answer:
                text = answer.read()
        except HTTPError as error:
            told = error.read().decode("utf-8", "replace")
            error.close()
            raise AssertionError(f"{method} {path}: {error.code} {told}") from error
        return json.loads(text) if text else None

    def register(self, text: str) -> str:
        """The path of the playbook."""
        path: str = self.ask("POST", "/playbooks", {"text": text})["path"]
        return path

    def begin(self, text: str, **workload: object) -> str:
        """The id of an execution that goes on."""
        asked = {"path": self.register(text), "workload": workload}
        id: str = self.ask("POST", "/executions", asked)["execution_id"]
        return id

    def run(self, text: str, **workload: object) -> str:
        """The id of an execution that has ended, well or not."""
        asked = {"path": self.register(text), "workload": workload}
        ended: Mapping[str, Any] = self.ask("POST", "/executions?wait=100", asked)
        assert ended["status"] != "running", ended
        id: str = ended["execution_id"]
        return id

    def follow(self, id: str, until: str) -> None:
        """Until an event with these words in it has happened."""
        with urlopen(f"{self.url}/executions/{id}/stream", timeout=ANSWER_S) as told:
            for line in told:
                if line.startswith(b"data:") and until.encode() in line:
                    return
        raise AssertionError(f"{id} has ended without {until!r}")

    def signal(self, id: str, name: str, data: object = None) -> None:
        """As soon as something waits for it."""
        self.follow(id, f'{{"type":"signal","name":"{name}"}}')
        self.ask("POST", f"/executions/{id}/signal", {"name": name, "data": data})

    def head(self, id: str) -> Mapping[str, Any]:
        head: Mapping[str, Any] = self.ask("GET", f"/executions/{id}/head")
        return head

    def _program(self, port: int) -> Program:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("NOETL_")}
        database = self.folder / "noetl.db"
        command = [str(NOETL), "server", "--db", str(database), "--port", str(port), *self.options]
        return Program("server", command, environment, self.folder, ready=self.url)
