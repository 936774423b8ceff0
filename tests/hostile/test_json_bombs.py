"""A small compressed response becomes large JSON, and must not fill the memory of a worker: of `http` and of `mcp`."""

from __future__ import annotations

import asyncio
import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from noetl.output import JSON
from noetl.tools.http.tool import HttpInput, HttpTool
from noetl.tools.mcp.tool import McpInput, McpTool
from tests.unit.tools.calls import call, server

ROOT = Path(__file__).parents[2]
SHAPES = {
    "lists": b"[]",
    "mappings": b"{}",
    "rows": b'{"a":1}',
    "nested": b"[[[[]]]]",
    "texts": b'"a"',
    "numbers": b"0.5",
}
BODY_BYTES = 60_000_000
PEAK_MB = 300


def run(shape: str) -> None:
    """In a process of its own: prints the answer, and how much memory the process needed at most."""
    item = SHAPES[shape]
    packed = gzip.compress(b"[" + b",".join([item] * (BODY_BYTES // (len(item) + 1))) + b"]", 9)
    before = _peak_mb(reset=True)

    async def bomb(_request: web.Request) -> web.Response:
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        return web.Response(body=packed, headers=headers)

    async def go() -> None:
        http = HttpTool()
        try:
            async with server(bomb) as url:
                output = await http.run(HttpInput(url=url), call())
        finally:
            await http.close()
        error = output.error
        assert error is not None
        print(json.dumps([len(packed), error.kind, error.message, _peak_mb() - before]))

    asyncio.run(go())


def _peak_mb(*, reset: bool = False) -> int:
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_small_response_cannot_fill_the_memory(shape: str) -> None:
    size, kind, message, peak_mb = _result(f"run({shape!r})")
    assert size < 200_000
    assert kind == "payload-too-large"
    assert "MB of memory (the limit is 256 MB); increase `spec.memory_mb`, or use `response: file`" in message
    assert peak_mb <= PEAK_MB


def _result(code: str) -> Any:
    """The size of the response, kind and message of the error, and the memory."""
    words = f"from tests.hostile.test_json_bombs import run, run_mcp; {code}"
    done = subprocess.run([sys.executable, "-c", words], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2_000:]
    return json.loads(done.stdout)


# mcp: the SDK parses the messages and validates their contents

MCP_BYTES = 15_900_000  # below the default of spec.max_bytes
SSE_BYTES = 1_000_000  # the SDK limits an event
CONTENTS = {
    "contents": b'{"type":"text","text":""}',
    "links": b'{"type":"resource_link","uri":"a:b","name":""}',
    "wrong contents": b"[]",  # each of them is several errors
    "audiences": b'{"type":"text","text":"","annotations":{"audience":[' + b",".join([b"0"] * 1_000) + b"]}}",
}
RESULTS = {
    **{shape: (b'{"content":[],"structuredContent":{"v":[', item, b"]}}") for shape, item in SHAPES.items()},
    **{shape: (b'{"content":[', item, b"]}") for shape, item in CONTENTS.items()},
}


def run_mcp(shape: str, size: int, method: str, media: str) -> None:
    """As `run`; a server answers requests for a method with a result of about this size."""
    first, item, last = RESULTS[shape]
    result = first + b",".join([item] * (size // (len(item) + 1))) + last
    before = size_sent = 0

    async def bomb(request: web.Request) -> web.Response:
        nonlocal before, size_sent
        message = await request.json() if request.method == "POST" else {}
        if "id" not in message:
            return web.Response(status=202 if message else 405)
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        body = b'{"jsonrpc":"2.0","id":%s,"result":%s}' % (json.dumps(message["id"]).encode(), result)
        if message["method"] != method:
            return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": ANSWERS[message["method"]]})
        if media == "text/event-stream":
            body, headers["Content-Type"] = b"event: message\ndata: " + body + b"\n\n", media
        packed = gzip.compress(body, 9)
        before, size_sent = _peak_mb(reset=True), len(packed)
        return web.Response(body=packed, headers=headers)

    async def go() -> None:
        mcp = McpTool()
        try:
            async with server(bomb) as url:
                output = await mcp.run(McpInput(url=url, tool="any"), call())
        finally:
            await mcp.close()
        error = output.error
        print(json.dumps([size_sent, error and error.kind, error and error.message, _peak_mb() - before]))

    asyncio.run(go())


SERVER = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
ANSWERS: dict[str, JSON] = {"initialize": SERVER, "tools/list": {"tools": []}}


@pytest.mark.parametrize("shape", RESULTS)
def test_a_small_answer_of_an_mcp_server_cannot_fill_the_memory(shape: str) -> None:
    size, kind, message, peak_mb = _result(f"run_mcp({shape!r}, {MCP_BYTES}, 'tools/call', 'application/json')")
    assert size < 100_000
    assert (kind, message) == (
        "payload-too-large", "the messages of the server need more than 256 MB of memory (limit spec.memory_mb)"
    )  # fmt: skip
    assert peak_mb <= PEAK_MB


@pytest.mark.parametrize("method", ["initialize", "tools/call"])
@pytest.mark.parametrize("media", ["application/json", "text/event-stream"])
def test_wrong_contents_of_an_mcp_server_cannot_fill_the_memory(media: str, method: str) -> None:
    """Fewer of them, so that the memory of their JSON is within the limit, but not that of the errors."""
    _, kind, message, peak_mb = _result(f"run_mcp('wrong contents', {SSE_BYTES // 2}, {method!r}, {media!r})")
    assert (kind, "limit spec.memory_mb" in message) == ("payload-too-large", True)
    assert peak_mb <= PEAK_MB


@pytest.mark.parametrize("shape", ["nested", "rows", "links"])
def test_an_answer_of_an_mcp_server_within_the_limit_needs_no_more_memory(shape: str) -> None:
    size = 500_000 if shape == "links" else 1_500_000
    _, kind, message, peak_mb = _result(f"run_mcp({shape!r}, {size}, 'tools/call', 'application/json')")
    assert (kind, message) == (None, None)
    assert peak_mb <= PEAK_MB
