"""The `mcp` tool with real servers: as a program, over HTTP, and hostile ones."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from noetl.adapters.memory import MemoryResults
from noetl.errors import Rejected
from noetl.output import Output
from noetl.secret import Secret
from noetl.tool import Auth, Call
from noetl.tools.mcp.tool import McpInput, McpTool
from tests.unit.tools.mcp.mcp_http import serving
from tests.unit.tools.mcp.mcp_server import server

PROGRAM = str(Path(__file__).with_name("mcp_server.py"))


def run_async(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*arguments: Any, **given: Any) -> None:
        async def work() -> None:
            async with asyncio.timeout(60):
                await test(*arguments, **given)

        asyncio.run(work())

    return run


def a_call(spec: dict[str, Any] | None = None, auth: Auth | None = None) -> Call:
    return Call(
        key="k",
        attempt=1,
        execution_id="e",
        arguments={},
        prev=None,
        spec=spec or {},
        results=MemoryResults(),
        auth=auth,
    )


@asynccontextmanager
async def tool_on(**options: Any) -> AsyncIterator[McpTool]:
    tool = McpTool(**options)
    try:
        yield tool
    finally:
        await tool.close()


async def call_program(tool: str, arguments: dict[str, Any], *behaviour: str, **spec: Any) -> Output:
    env = spec.pop("env", {})
    async with tool_on() as made:
        command = [sys.executable, PROGRAM, "stdio", *behaviour]
        return await made.run(McpInput(command=command, tool=tool, arguments=arguments, env=env), a_call(spec))


@asynccontextmanager
async def answering(handle: Callable[[web.Request], Coroutine[Any, Any, web.StreamResponse]]) -> AsyncIterator[str]:
    """A server that is not an MCP server."""
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"
    finally:
        await runner.cleanup()


async def call_url(url: str, tool: str = "add", *, auth: Auth | None = None, **options: Any) -> Output:
    spec = options.pop("spec", {})
    async with tool_on(**options) as made:
        return await made.run(McpInput(url=url, tool=tool, arguments={"a": 1, "b": 2}), a_call(spec, auth))


def failure(output: Output) -> tuple[str, str, bool]:
    assert output.status == "error"
    assert output.error is not None
    return output.error.kind, output.error.message, output.error.retryable


@run_async
async def test_a_program_answers_with_structured_content() -> None:
    output = await call_program("add", {"a": 1, "b": 2})
    assert (output.status, output.data) == ("ok", {"sum": 3})
    own = output.own["mcp"]
    assert own["server"].startswith("tests")
    assert (own["is_error"], own["content"][0]["type"]) == (False, "text")


@run_async
async def test_an_answer_of_one_text_is_this_text() -> None:
    assert (await call_program("greet", {"name": "Ada"})).data == "hello Ada"


@run_async
async def test_a_program_inherits_no_environment_but_what_the_task_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_WORKER", "x")
    assert "unset" in str((await call_program("environment", {"name": "SECRET_OF_THE_WORKER"})).data)
    assert "y" in str((await call_program("environment", {"name": "TOKEN"}, env={"TOKEN": "y"})).data)


@run_async
async def test_the_program_of_a_server_inherits_only_its_three_streams() -> None:
    program = "import os, sys; print(*sorted(os.listdir('/proc/self/fd')), file=sys.stderr); sys.exit(3)"
    async with tool_on() as made:
        output = await made.run(McpInput(tool="any", command=[sys.executable, "-c", program]), a_call())
    listed = failure(output)[1].rpartition(": ")[2]
    assert len(listed.split()) == 4, listed  # the fourth is the folder that is being listed


@run_async
async def test_a_tool_that_fails_is_an_error_of_kind_mcp() -> None:
    output = await call_program("refuse", {})
    kind, message, retryable = failure(output)
    assert (kind, retryable) == ("mcp", False)
    assert "no more of that" in message
    assert output.own["mcp"]["is_error"] is True
    kind, message, _ = failure(await call_program("nothing", {}))
    assert (kind, "nothing" in message) == ("mcp", True)


@pytest.mark.parametrize("behaviour", ["endless", "long-line"])
@run_async
async def test_a_server_that_sends_without_end_is_stopped(behaviour: str) -> None:
    kind, message, _ = failure(await call_program("add", {}, behaviour, max_bytes=1_000_000))
    assert (kind, "limit spec.max_bytes" in message) == ("payload-too-large", True)


@run_async
async def test_a_large_answer_is_only_in_the_data() -> None:
    output = await call_program("large", {"size": 200_000})
    assert len(str(output.data)) >= 200_000
    assert output.own["mcp"]["content"] == []


@run_async
async def test_a_large_answer_is_refused() -> None:
    assert failure(await call_program("large", {"size": 2_000_000}, max_bytes=1_000_000))[0] == "payload-too-large"


@run_async
async def test_an_answer_of_a_program_with_too_many_values_is_refused() -> None:
    kind, message, _ = failure(await call_program("add", {}, "many-values"))
    assert (kind, "limit spec.memory_mb" in message) == ("payload-too-large", True)


@pytest.mark.parametrize("behaviour", ["garbage", "wrong-types", "exit"])
@run_async
async def test_a_server_that_breaks_the_protocol_is_an_error(behaviour: str) -> None:
    kind, message, _ = failure(await call_program("add", {}, behaviour))
    assert kind == "mcp"
    if behaviour == "exit":
        assert "exit code 3" in message
        assert "there is no configuration" in message


@run_async
async def test_a_program_that_is_not_installed_and_auth_for_a_program_are_wrong_input() -> None:
    async with tool_on() as made:
        output = await made.run(McpInput(command=["no-such-program"], tool="a"), a_call())
        assert failure(output)[:2] == ("input", 'program "no-such-program" is not installed on this worker')
        output = await made.run(McpInput(command=["sh"], tool="a"), a_call(auth=bearer("x")))
        assert "pass the secret in `env`" in failure(output)[1]


@run_async
async def test_a_program_in_a_sandbox_writes_no_files(tmp_path: Path) -> None:
    path = tmp_path / "proof"
    kind, message, _ = failure(await call_program("write", {"path": str(path)}, sandbox={"network": True}))
    assert (kind, "write" in message) in (("mcp", True), ("sandbox", False))  # an old kernel has no sandbox
    assert not path.exists()
    assert (await call_program("write", {"path": str(path)})).status == "ok"
    assert path.read_text() == "written"


@run_async
async def test_a_call_that_is_cancelled_leaves_no_process() -> None:
    async with tool_on() as made:
        task = asyncio.ensure_future(
            made.run(McpInput(command=[sys.executable, PROGRAM, "stdio"], tool="slow"), a_call())
        )
        await asyncio.wait([task], timeout=1.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def bearer(token: str, renewed: str | None = None) -> Auth:
    async def renew() -> Auth:
        return bearer(renewed or token)

    return Auth("tools", "bearer", {"": Secret(token)}, renew)


@run_async
async def test_a_server_over_http() -> None:
    async with serving(server.streamable_http_app()) as url:
        output = await call_url(url)
        assert (output.data, output.own["mcp"]["status"]) == ({"sum": 3}, 200)


@run_async
async def test_the_credential_is_sent_and_renewed_after_a_401() -> None:
    seen: list[str] = []
    app = server.streamable_http_app()

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            token = dict(scope["headers"]).get(b"authorization", b"").decode()
            seen.append(token)
            if token != "Bearer new":
                await send({"type": "http.response.start", "status": 401, "headers": []})
                await send({"type": "http.response.body", "body": b""})
                return
        await app(scope, receive, send)

    async with serving(guarded) as url:
        assert (await call_url(url, auth=bearer("old", "new"))).data == {"sum": 3}
        assert (seen[0], seen[-1]) == ("Bearer old", "Bearer new")
        kind, message, retryable = failure(await call_url(url))
        assert (kind, "401" in message, retryable) == ("mcp", True, False)


@run_async
async def test_an_address_that_is_not_allowed_is_refused() -> None:
    async with serving(server.streamable_http_app()) as url:
        kind, message, retryable = failure(await call_url(url, allow_private=False))
        assert (kind, retryable) == ("http", False)
        assert "the address is not allowed" in message
        assert (await call_url(url, allow_private=False, allow=("127.0.0.0/8",))).data == {"sum": 3}


@run_async
async def test_a_redirect_to_another_server_is_not_followed() -> None:
    asked: list[str] = []

    async def other(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        return web.Response()

    async with answering(other) as elsewhere:

        async def redirect(_: web.Request) -> web.StreamResponse:
            raise web.HTTPTemporaryRedirect(elsewhere)

        async with answering(redirect) as url:
            failure(await call_url(url, auth=bearer("secret")))
    assert asked == []


@pytest.mark.parametrize(("status", "retryable"), [(503, True), (429, True), (404, False)])
@run_async
async def test_statuses_of_overload_can_be_retried(status: int, retryable: bool) -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status)

    async with answering(answer) as url:
        assert failure(await call_url(url))[2] is retryable


@run_async
async def test_an_endless_response_is_stopped() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        try:
            while True:
                await response.write(b"x" * 100_000)
        except ConnectionError:
            return response

    async with answering(answer) as url:
        assert failure(await call_url(url, spec={"max_bytes": 1_000_000}))[0] == "payload-too-large"


@run_async
async def test_a_server_that_cannot_be_reached_can_be_retried() -> None:
    async with serving(server.streamable_http_app()) as url:
        pass
    kind, message, retryable = failure(await call_url(url))
    assert (kind, retryable) == ("http", True)
    assert "no connection" in message


@pytest.mark.parametrize("url", ["ftp://a/b", "nothing", "http://user:secret@127.0.0.1/mcp"])
@run_async
async def test_an_address_that_is_none_is_wrong_input(url: str) -> None:
    kind, message, _ = failure(await call_url(url))
    assert (kind, "secret" in message) == ("input", False)


@run_async
async def test_the_tools_of_a_server_are_described_with_their_schemas() -> None:
    async with tool_on() as made:
        found = {each["name"]: each for each in await made.describe([sys.executable, PROGRAM, "stdio"], None)}
        assert found["add"]["description"] == "Add two numbers."
        assert found["add"]["schema"]["required"] == ["a", "b"]
        with pytest.raises(Rejected, match="is not installed"):
            await made.describe(["no-such-program"], None)
