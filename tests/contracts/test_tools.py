"""All built-in tools fulfil the tool contract."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl.output import JSON
from noetl.secret import Secret
from noetl.testing.contracts.tools import ToolContract, call_of
from noetl.tool import Auth, Call, Tool
from noetl.tools.duckdb.tool import DuckdbTool
from noetl.tools.http.tool import HttpTool
from noetl.tools.mcp.tool import McpTool
from noetl.tools.nats.tool import NatsTool
from noetl.tools.noop import NoopTool
from noetl.tools.object.tool import ObjectInput, ObjectTool
from noetl.tools.postgres.tool import PostgresTool
from noetl.tools.python.tool import PythonTool
from noetl.tools.quantum.tool import QuantumTool
from noetl.tools.resolve import ResolveTool
from noetl.tools.respond import RespondTool
from noetl.tools.secrets import SecretsTool
from noetl.tools.shell.tool import ShellTool
from noetl.tools.sqlite.tool import SqliteTool
from noetl.tools.transfer.tool import TransferTool
from tests.services import postgres
from tests.services_nats import NatsServer, running_nats
from tests.sizes import NO_SERVICES

SILENT = socket.socket()  # it never accepts a connection
ROOT = Path(__file__).parents[2]
RECEIVER = """
import asyncio, sys, nats
async def main():
    client = await nats.connect(sys.argv[1])
    await client.subscribe("silent")
    await client.flush()
    print("ready", flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""
TEMPLATE = ROOT / "examples/tool-template"


class TestDuckdb(ToolContract):
    def make(self) -> Tool:
        return DuckdbTool(threads=1)

    def fields(self) -> dict[str, JSON]:
        return {"query": {"text": ["SELECT 1 AS n"]}}

    def endless(self) -> dict[str, JSON]:
        return {"query": {"text": ["SELECT count(*) FROM range(100000000000) r(i) WHERE hash(i) = 3"]}}


class TestShell(ToolContract):
    def make(self) -> Tool:
        return ShellTool(processes=1)

    def fields(self) -> dict[str, JSON]:
        return {"argv": ["true"]}

    def endless(self) -> dict[str, JSON]:
        return {"sh": "trap '' TERM; sleep 1000 & sleep 1000"}


class TestPython(ToolContract):
    def make(self) -> Tool:
        return PythonTool(children=1)

    def fields(self) -> dict[str, JSON]:
        return {"code": "result = 1"}

    def endless(self) -> dict[str, JSON]:
        return {"code": "while True: pass"}


class TestQuantum(ToolContract):
    def make(self) -> Tool:
        return QuantumTool()

    def fields(self) -> dict[str, JSON]:
        return {"op": "submit", "circuit": "OPENQASM 3.0;"}


class TestMcp(ToolContract):
    needs = "a server"  # tests/unit/tools/mcp has one
    reads_around = True

    def make(self) -> Tool:
        return McpTool()

    def fields(self) -> dict[str, JSON]:
        return {"command": ["true"], "tool": "a"}

    def endless(self) -> dict[str, JSON]:
        return {"command": ["sleep", "1000"], "tool": "a"}


class TestNoop(ToolContract):
    def make(self) -> Tool:
        return NoopTool()


class TestRespond(ToolContract):
    def make(self) -> Tool:
        return RespondTool()

    def fields(self) -> dict[str, JSON]:
        return {"status": 200, "headers": {"X-A": "1"}, "body": "x"}


class TestResolve(ToolContract):
    needs = "a result that an earlier task has stored"
    reads_around = True

    def make(self) -> Tool:
        return ResolveTool()

    def fields(self) -> dict[str, JSON]:
        return {"ref": {"type": "blob", "locator": {"key": "x"}, "meta": {}}}


class TestObject(ToolContract):
    needs = "a playbook file"  # tests/e2e/test_tool_examples.py has one
    reads_around = True

    def setup_method(self) -> None:
        """The first call starts the runtime of obstore, which stays for the life of the process."""
        asyncio.run(ObjectTool().run(ObjectInput(get="/no/such/file"), call_of({})))

    def make(self) -> Tool:
        return ObjectTool()

    def fields(self) -> dict[str, JSON]:
        return {"get": "/no/such/file"}


class TestTransfer(ToolContract):
    needs = "PostgreSQL"  # tests/e2e/test_tool_examples.py has one
    reads_around = True

    def setup_method(self) -> None:
        """As above."""
        asyncio.run(ObjectTool().run(ObjectInput(get="/no/such/file"), call_of({})))

    def make(self) -> Tool:
        return TransferTool()

    def fields(self) -> dict[str, JSON]:
        file: JSON = {"kind": "object", "url": "/no/such/file.csv"}
        return {"source": file, "target": file}


class TestSqlite(ToolContract):
    def make(self) -> Tool:
        return SqliteTool()

    def fields(self) -> dict[str, JSON]:
        return {"path": ":memory:", "query": {"text": ["SELECT 1"]}}


class TestHttp(ToolContract):
    needs = "a server"  # tests/e2e/test_tool_examples.py has one
    reads_around = True

    def make(self) -> Tool:
        return HttpTool()

    def fields(self) -> dict[str, JSON]:
        return {"url": "http://127.0.0.1:9/"}

    def endless(self) -> dict[str, JSON]:
        if not SILENT.getsockname()[1]:
            SILENT.bind(("127.0.0.1", 0))
            SILENT.listen()
        return {"url": f"http://127.0.0.1:{SILENT.getsockname()[1]}/"}


@pytest.mark.skipif(NO_SERVICES, reason="needs PostgreSQL")
class TestPostgres(ToolContract):
    needs = "a table"  # as above
    reads_around = True

    def setup_method(self) -> None:
        postgres()  # started before, so that it is not counted as left behind by a call

    def make(self) -> Tool:
        return PostgresTool()

    def fields(self) -> dict[str, JSON]:
        return {"query": {"text": ["SELECT 1 AS n"]}}

    def endless(self) -> dict[str, JSON]:
        return {"query": {"text": ["SELECT pg_sleep(1000)"]}}

    def call(self, spec: dict[str, JSON]) -> Call:
        async def renew() -> Auth:
            return auth

        auth = Auth("pg", "postgres_credential", {"dsn": Secret(postgres().dsn())}, renew)
        return super().call(spec)._replace(auth=auth)


@pytest.mark.skipif(NO_SERVICES, reason="needs NATS")
class TestNats(ToolContract):
    needs = "a keychain"  # as above
    reads_around = True
    server: NatsServer

    @pytest.fixture(autouse=True)
    def _running(self, tmp_path: Path) -> Iterator[None]:
        with running_nats(tmp_path) as self.server:
            yield

    def make(self) -> Tool:
        return NatsTool()

    def fields(self) -> dict[str, JSON]:
        return {"kv": "put", "bucket": "no-such", "key": "a.b", "text": "x"}

    def endless(self) -> dict[str, JSON]:
        return {"request": "silent"}

    def call(self, spec: dict[str, JSON]) -> Call:
        async def renew() -> Auth:
            return auth

        auth = Auth("broker", "nats_credential", {"url": Secret(self.server.url)}, renew)
        return super().call(spec)._replace(auth=auth)

    def test_a_cancelled_call_leaves_nothing_behind(self) -> None:
        """The request has a receiver that never replies."""
        command = [sys.executable, "-c", RECEIVER, self.server.url]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as receiver:
            assert receiver.stdout is not None
            assert receiver.stdout.readline() == b"ready\n"
            try:
                super().test_a_cancelled_call_leaves_nothing_behind()
            finally:
                receiver.kill()


class TestSecrets(ToolContract):
    needs = "a keychain"  # as above
    reads_around = True

    def make(self) -> Tool:
        return SecretsTool()

    def fields(self) -> dict[str, JSON]:
        return {"name": "api_token"}


def test_the_template_fulfils_the_contract() -> None:
    """As a tool author runs it: only the folder, with noetl installed."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rs", "."],
        cwd=TEMPLATE,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed, 2 skipped" in done.stdout
