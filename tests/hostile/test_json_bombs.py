"""A small compressed response becomes large JSON, and must not fill the memory of a worker."""

from __future__ import annotations

import asyncio
import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from aiohttp import web

from noetl.tools.http.tool import HttpInput, HttpTool
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
    code = f"from tests.hostile.test_json_bombs import run; run({shape!r})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2_000:]
    size, kind, message, peak_mb = json.loads(done.stdout)
    assert size < 200_000
    assert kind == "payload-too-large"
    assert "MB of memory (the limit is 256 MB); increase `spec.memory_mb`, or use `response: file`" in message
    assert peak_mb <= PEAK_MB
