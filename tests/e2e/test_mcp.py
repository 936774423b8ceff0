"""An agent with the official SDK: it writes a playbook with mistakes and continues until its fork has succeeded.

It knows only what the server tells it: the language, the tools, the problems with their edits, and the answers.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.e2e.processes import Workspace
from tests.e2e.terminals import terminal

NOETL = str(Path(sys.executable).with_name("noetl"))
DEADLINE_S = 120


class Agent:
    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, verb: str, /, *, failing: bool = False, **arguments: Any) -> Any:
        result = await self.client.call_tool(verb, arguments)
        assert result.is_error is failing, result.structured_content
        return result.structured_content


def apply_edits(text: str, edits: list[dict[str, Any]]) -> str:
    """As a client would do it, by lines and columns."""
    lines = text.split("\n")
    for edit in sorted(edits, key=lambda each: (each["start"]["line"], each["start"]["column"]), reverse=True):
        start, end = edit["start"], edit["end"]
        before, after = lines[start["line"] - 1][: start["column"] - 1], lines[end["line"] - 1][end["column"] - 1 :]
        lines[start["line"] - 1 : end["line"]] = f"{before}{edit['insert']}{after}".split("\n")
    return "\n".join(lines)


async def write_playbook(agent: Agent) -> str:
    """From the example that the server shows; with three mistakes, which its problems correct."""
    overview = await agent.call("describe_language")
    head = re.search(r"apiVersion:.*\nkind:.*\n", overview["text"])
    assert head is not None
    kinds = [each["kind"] for each in (await agent.call("list_tools"))["tools"]]
    assert {"python", "noop"} <= set(kinds)
    assert "code" in [each["name"] for each in (await agent.call("describe_tool", kind="python"))["fields"]]
    return head[0] + (
        "metadata: {name: prices, path: agent/prices}\n"
        "workload: {prices: [1, 2, 3]}\n"
        "workflow:\n"
        "- step: start\n"
        "  tool:\n"
        "    kind: pyton\n"  # the first mistake
        '    input: {prices: "{{ workload.prices }}"}\n'
        "    code: |\n"
        "      def main(prices):\n"
        "          print('adding', len(prices))\n"
        "          return sum(prices)\n"
        "  set: {ctx.total: '{{ output.data }}'}\n"
        "  next: {arcs: [{step: reprot}]}\n"  # the second
        "- step: report\n"
        "  tol: {kind: noop, input: {share: '{{ 100 / ctx.total }}'}}\n"  # the third
    )


async def correct(agent: Agent, text: str) -> str:
    for _ in range(3):
        checked = await agent.call("check", text=text)
        if checked["ok"]:
            return text
        assert checked["edits"], checked
        text = apply_edits(text, checked["edits"])
    raise AssertionError("the fixes do not lead to a correct playbook")


async def journey(agent: Agent) -> None:
    wrong = await write_playbook(agent)
    problems = (await agent.call("check", text=wrong))["problems"]
    assert {each["code"] for each in problems if each["severity"] == "error"} >= {
        "unknown-kind",
        "unknown-step",
        "unknown-key",
    }
    refused = await agent.call("run", text=wrong, failing=True)
    assert refused["error"]["code"] == "problems"
    assert (await agent.call("list"))["executions"] == []

    text = await correct(agent, wrong)
    assert [each["step"] for each in (await agent.call("plan", text=text))["effects"]] == ["start"]
    assert "stubs" in (await agent.call("describe_language", topic="tests"))["text"]
    tests = (
        "playbook: prices\ntests:\n- name: the share of a hundred\n  stubs: [{call: start, output: 50}]\n"
        "  expect: {status: ok, route: [start, report], output: {share: 2}}\n"
    )
    tested = await agent.call("test", text=text, tests=tests)
    assert (tested["ok"], tested["passed"]) == (True, 1), tested

    ran = await agent.call("run", text=text)
    assert ran["status"] == "ok"
    assert round(ran["output"]["share"], 3) == 16.667
    assert "adding 3" in (await agent.call("logs", execution=ran["execution"]))["lines"][0]

    broken = await agent.call("run", text=text, workload={"prices": [0]}, failing=True)
    assert (broken["status"], broken["failed_steps"]) == ("error", ["report"])
    why = await agent.call("why", execution=broken["execution"], step="report")
    assert "division" in why["text"] or "zero" in why["text"], why["text"]
    assert (await agent.call("state", execution=broken["execution"]))["ctx"] == {"total": 0}

    corrected = text.replace("100 / ctx.total", "100 / ctx.total if ctx.total else 0")
    assert (await agent.call("check", text=corrected))["ok"]
    what_if = await agent.call("what_if", execution=broken["execution"], text=corrected)
    assert (what_if["differs"], what_if["status"]) == (True, ["error", "ok"])
    planned = await agent.call("fork", execution=broken["execution"], text=corrected, dry_run=True)
    assert planned["plan"]["kept"] == ["start#1"]
    forked = await agent.call("fork", execution=broken["execution"], text=corrected)
    assert (forked["status"], forked["output"]) == ("ok", {"share": 0})
    assert (await agent.call("logs", execution=forked["execution"]))["lines"] == []  # `start` did not run again
    listed = await agent.call("list", path="agent/*")
    assert [each["status"] for each in listed["executions"]] == ["ok", "error", "ok"]


@asynccontextmanager
async def on_stdio(folder: Path) -> AsyncIterator[Client]:
    server = StdioServerParameters(command=NOETL, args=["mcp", "--db", str(folder / "agent.db")])
    async with Client(stdio_client(server)) as client:
        yield client


@asynccontextmanager
async def on_http(folder: Path) -> AsyncIterator[Client]:
    """A server with tokens, and a token that may run and write."""
    database = str(folder / "server.db")
    created = await asyncio.create_subprocess_exec(
        NOETL, "token", "create", "agent", "--scope", "run", "--scope", "write", "--db", database, "--format", "json",
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    token = re.search(rb"noetl_[\w-]+", (await created.communicate())[0])
    assert token is not None
    server = await asyncio.create_subprocess_exec(
        NOETL, "server", "--db", database, "--port", "0", "--auth", stderr=asyncio.subprocess.PIPE
    )
    assert server.stderr is not None
    try:
        while (address := re.search(rb"ready: (\S+)", await server.stderr.readline())) is None:
            pass
        drained = asyncio.ensure_future(server.stderr.read())
        headers = {"Authorization": f"Bearer {token[0].decode()}"}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            transport = streamable_http_client(f"{address[1].decode()}/mcp", http_client=http)
            async with Client(transport) as client:
                yield client
    finally:
        server.terminate()
        assert await server.wait() == 0
        assert b"Traceback" not in await drained


@pytest.mark.parametrize("connect", [on_stdio, on_http])
def test_an_agent_writes_corrects_tests_runs_breaks_and_forks_a_playbook(tmp_path: Path, connect: Any) -> None:
    async def work() -> None:
        async with asyncio.timeout(DEADLINE_S), connect(tmp_path) as client:
            await journey(Agent(client))

    asyncio.run(work())


def test_read_only_on_stdio_has_no_tool_that_changes_something(tmp_path: Path) -> None:
    async def work() -> None:
        server = StdioServerParameters(command=NOETL, args=["mcp", "--read-only", "--db", str(tmp_path / "agent.db")])
        async with asyncio.timeout(DEADLINE_S), Client(stdio_client(server)) as client:
            tools = (await client.list_tools()).tools
            assert all(each.annotations and each.annotations.read_only_hint for each in tools)
            result = await client.call_tool("run", {"text": "a"})
            assert result.is_error

    asyncio.run(work())


def test_reading_alone_creates_no_database(tmp_path: Path) -> None:
    database = tmp_path / "none.db"

    async def work() -> None:
        parameters = StdioServerParameters(command=NOETL, args=["mcp", "--read-only", "--db", str(database)])
        async with asyncio.timeout(DEADLINE_S), Client(stdio_client(parameters)) as client:
            agent = Agent(client)
            assert (await agent.call("check", text="kind: Playbook\n"))["ok"] is False
            refused = await agent.call("list", failing=True)
            assert "there is no such database" in str(refused)

    asyncio.run(work())
    assert list(tmp_path.iterdir()) == []


def test_a_person_who_starts_it_in_a_terminal_is_told_what_it_waits_for(tmp_path: Path) -> None:
    with terminal(Workspace(tmp_path), "mcp") as shown:
        shown.read_until("end it with Ctrl+D")
        shown.type("\x04")
        assert shown.process.wait(DEADLINE_S) == 0
