"""The tools for agents at `/mcp`: the same tokens, scopes and roles as every other route."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from noetl.control.api_tokens import digest_of, new_token
from noetl.mcp.endpoint import McpEndpoint
from noetl.mcp.verbs import VERBS
from noetl.ports import RoleGrant
from noetl.replay.trials import TrialProcesses
from noetl.server.services import ServerSettings
from tests.api.servers import HELLO, NOOP, ApiServer, serve
from tests.api.test_trials import ENDLESS

SETTINGS = ServerSettings(agents=McpEndpoint, trials=TrialProcesses())
OPEN = SETTINGS._replace(open=True)
INITIALIZE = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}  # fmt: skip
ACCEPT = {"Accept": "application/json, text/event-stream"}


@asynccontextmanager
async def connected(server: ApiServer, token: str | None, mode: str = "auto") -> AsyncIterator[Client]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(f"{server.api.url}/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


async def names(client: Client) -> set[str]:
    return {each.name for each in (await client.list_tools()).tools}


async def error_of(client: Client, verb: str, arguments: dict[str, Any]) -> Any:
    result = await client.call_tool(verb, arguments)
    assert result.is_error, result.structured_content
    return result.structured_content["error"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_an_agent_runs_a_playbook_over_http(tmp_path: Path, mode: str) -> None:
    async def work(server: ApiServer) -> None:
        async with connected(server, None, mode) as client:
            assert await names(client) == set(VERBS)
            ran = (await client.call_tool("run", {"text": HELLO, "workload": {"name": "Ada"}})).structured_content
            assert (ran["status"], ran["output"]) == ("ok", {"greeting": "hello Ada"})
            what_if = await client.call_tool("what_if", {"execution": ran["execution"], "text": HELLO})
            assert what_if.structured_content["differs"] is False
            tests = "playbook: a\ntests: [{name: a, stubs: [{call: start, output: {greeting: hi}}]}]\n"
            tested = await client.call_tool("test", {"text": HELLO, "tests": tests})
            assert tested.structured_content["passed"] == 1

    serve(tmp_path, work, OPEN)


def test_tests_and_what_ifs_have_the_answers_and_errors_of_those_without_a_server(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        async with connected(server, None) as client:
            tests = "playbook: a\ntests: [{name: a}]\n"
            tested = (await client.call_tool("test", {"text": NOOP, "tests": tests})).structured_content
            assert (tested["ok"], tested.keys()) == (True, {"ok", "passed", "failed", "tests", "problems"})
            error = await error_of(client, "test", {"text": NOOP, "tests": tests, "only": "b"})
            assert error["message"] == 'no name of a test contains "b"'
            wrong = NOOP.replace("step: start", "step: begin")
            broken = (await client.call_tool("test", {"text": wrong, "tests": tests})).structured_content
            assert (broken["ok"], broken["problems"][0]["code"]) == (False, "no-start")
            ran = (await client.call_tool("run", {"text": NOOP})).structured_content["execution"]
            error = await error_of(client, "what_if", {"execution": ran, "text": wrong})
            assert (error["code"], error["problems"][0]["code"]) == ("problems", "no-start")

    serve(tmp_path, work, OPEN)


def test_a_hostile_text_of_an_agent_ends_with_its_process(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        async with connected(server, None) as client:
            tests = "playbook: a\ntests: [{name: a}]\n"
            error = await error_of(client, "test", {"text": ENDLESS, "tests": tests})
            assert (error["code"], "did not end within 0.5 s" in error["message"]) == ("too-large", True)
            ran = (await client.call_tool("run", {"text": NOOP})).structured_content["execution"]
            error = await error_of(client, "what_if", {"execution": ran, "text": ENDLESS})
            assert (error["code"], "did not end within 0.5 s" in error["message"]) == ("too-large", True)

    serve(tmp_path, work, OPEN._replace(trials=TrialProcesses(0.5)))


def test_a_viewer_sees_only_tools_that_read(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        async with connected(server, await server.token("read")) as client:
            assert set(VERBS) - await names(client) == {"run", "fork", "signal", "cancel"}
            error = await error_of(client, "run", {"text": NOOP})
            assert (error["code"], 'lacks the scope "run"' in error["message"]) == ("not-allowed", True)
            assert (await client.call_tool("check", {"text": NOOP})).structured_content["ok"]
        async with connected(server, await server.token("run")) as client:
            assert await names(client) == set(VERBS)
            error = await error_of(client, "run", {"text": NOOP})  # a text is stored, which needs the scope write
            assert error["code"] == "low-scope"
        async with connected(server, await server.token("run", "write")) as client:
            assert (await client.call_tool("run", {"text": NOOP})).structured_content["status"] == "ok"

    serve(tmp_path, work, SETTINGS)


def test_a_role_is_limited_to_its_paths(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        root = await server.token("admin")
        roles = (RoleGrant(role="author", paths=("in/*",), pools=("*",)),)
        limited, text = new_token("limited", (), None, server.services.clock, lambda n: bytes(range(n)), roles=roles)
        await server.services.tokens.add(limited, digest_of(text))
        async with connected(server, root) as client:
            ran = (await client.call_tool("run", {"text": NOOP})).structured_content
        async with connected(server, text) as client:
            assert (await client.call_tool("list", {})).structured_content == {"executions": []}
            error = await error_of(client, "status", {"execution": ran["execution"]})
            assert error["code"] in ("not-found", "usage")
            error = await error_of(client, "run", {"text": NOOP})
            assert error["code"] == "outside-limits"
            inside = await client.call_tool("run", {"text": NOOP.replace("path: t", "path: in/a")})
            assert inside.structured_content["status"] == "ok"

    serve(tmp_path, work, SETTINGS)


def test_requests_without_a_right_token_or_from_other_sites_are_refused(tmp_path: Path) -> None:
    async def with_tokens(server: ApiServer) -> None:
        for token in (None, "noetl_wrong_token"):
            answer = await server.api.ask("POST", "/mcp", INITIALIZE, headers=ACCEPT, token=token)
            assert answer.status == 401
        large = await server.api.ask(
            "POST", "/mcp", b'{"a": "' + b"x" * (3 << 20) + b'"}', headers=ACCEPT, token=await server.token("read")
        )
        assert large.status == 413

    async def without(server: ApiServer) -> None:
        assert (await server.api.ask("POST", "/mcp", INITIALIZE, headers=ACCEPT)).status == 200
        for name, value in (("Origin", "https://evil.example"), ("Host", "evil.example")):
            answer = await server.api.ask("POST", "/mcp", INITIALIZE, headers={**ACCEPT, name: value})
            assert answer.status == 403

    serve(tmp_path, with_tokens, SETTINGS)
    serve(tmp_path, without, OPEN)


def test_a_server_without_the_package_says_how_to_get_it(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        answer = await server.api.ask("POST", "/mcp", INITIALIZE, headers=ACCEPT)
        assert (answer.status, answer.json["code"]) == (501, "not-installed")
        assert "pip install '.[mcp]'" in answer.json["detail"]

    serve(tmp_path, work, ServerSettings(open=True))


def test_a_path_never_names_a_file_of_the_server(tmp_path: Path) -> None:
    (tmp_path / "hello.yaml").write_text(HELLO)

    async def work(server: ApiServer) -> None:
        async with connected(server, None) as client:
            for verb, arguments in (
                ("run", {"path": str(tmp_path / "hello.yaml")}),
                ("explain", {"path": str(tmp_path / "hello.yaml")}),
                ("plan", {"path": "-"}),
                ("diff", {"a": str(tmp_path / "hello.yaml"), "b": "/etc/passwd"}),
            ):
                assert "registered" in (await error_of(client, verb, arguments))["message"]

    serve(tmp_path, work, OPEN)


def test_a_server_that_stops_ends_the_calls_of_agents(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        arguments = {"text": NOOP.replace("kind: noop", "kind: wait, signal: go"), "wait_s": 200}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "run", "arguments": arguments}}
        call = asyncio.ensure_future(server.api.ask("POST", "/mcp", body, headers=ACCEPT))
        while not (await server.api.get("/executions"))["items"]:
            pass
        assert not call.done()
        await server.server.stop()
        await asyncio.wait([call])
        assert call.exception() is not None or b"running" not in call.result().body

    serve(tmp_path, work, OPEN)
