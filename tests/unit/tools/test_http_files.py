"""`response: file` streams a body to the result store: complete, decompressed, and within the limit."""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path

import pytest
from aiohttp import web

from noetl.adapters.files import FileResults
from noetl.output import JSON, Output
from noetl.tools.http.tool import HttpInput, HttpTool
from tests.unit.tools.calls import Handler, call, server

PIECE = b"0123456789abcdef" * 8_192  # 128 KiB
PIECES = 40


def streaming(*, head: dict[str, str] | None = None, known: bool = False) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers=head or {})
        if known:
            answer.content_length = len(PIECE) * PIECES
        await answer.prepare(request)
        try:
            for _ in range(PIECES):
                await answer.write(PIECE)
        except ConnectionError:
            pass
        return answer

    return handler


def fetched(handler: Handler, root: Path, spec: dict[str, JSON] | None = None) -> Output:
    async def work() -> Output:
        http = HttpTool()
        async with server(handler) as at:
            output = await http.run(HttpInput(url=at, response="file"), call(results=FileResults(root), spec=spec))
        await http.close()
        return output

    return asyncio.run(work())


def stored(root: Path) -> list[bytes]:
    return [file.read_bytes() for file in root.rglob("*") if file.is_file()]


@pytest.mark.parametrize("known", [True, False], ids=["with its length", "without"])
def test_a_body_is_stored_completely(known: bool, tmp_path: Path) -> None:
    output = fetched(streaming(head={"Content-Type": "text/csv"}, known=known), tmp_path)
    assert output.status == "ok"
    assert output.data is None
    assert output.ref is not None
    assert output.ref["meta"]["content_type"] == "text/csv"
    assert output.ref["meta"]["bytes"] == len(PIECE) * PIECES
    assert stored(tmp_path) == [PIECE * PIECES]


def test_a_compressed_body_is_decompressed(tmp_path: Path) -> None:
    async def handler(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=gzip.compress(PIECE * 4), headers={"Content-Encoding": "gzip"})

    assert fetched(handler, tmp_path).status == "ok"
    assert stored(tmp_path) == [PIECE * 4]


@pytest.mark.parametrize("known", [True, False], ids=["with its length", "without"])
def test_more_than_max_bytes_is_an_error_and_leaves_nothing(known: bool, tmp_path: Path) -> None:
    output = fetched(streaming(known=known), tmp_path, {"max_bytes": 1_000_000})
    assert output.error is not None
    assert output.error.kind == "payload-too-large"
    assert "(spec.max_bytes: 1,000,000 bytes)" in output.error.message
    assert output.own["http"]["status"] == 200
    assert stored(tmp_path) == []


def test_a_compressed_body_that_decompresses_above_the_limit_is_an_error(tmp_path: Path) -> None:
    async def handler(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=gzip.compress(bytes(20_000_000)), headers={"Content-Encoding": "gzip"})

    output = fetched(handler, tmp_path, {"max_bytes": 1_000_000})
    assert output.error is not None
    assert output.error.kind == "payload-too-large"
    assert stored(tmp_path) == []


def test_a_body_that_ends_early_is_a_retryable_error_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        answer.content_length = len(PIECE) * PIECES
        await answer.prepare(request)
        await answer.write(PIECE)
        assert request.transport is not None
        request.transport.abort()
        return answer

    output = fetched(handler, tmp_path)
    assert output.error is not None
    assert output.error.retryable
    assert stored(tmp_path) == []


def test_progress_is_reported(tmp_path: Path) -> None:
    seen: list[tuple[float, float | None]] = []

    async def work() -> None:
        http = HttpTool()
        async with server(streaming(known=True)) as at:
            watched = call(results=FileResults(tmp_path))._replace(
                progress=lambda done, total: seen.append((done, total))
            )
            await http.run(HttpInput(url=at, response="file"), watched)
        await http.close()

    asyncio.run(work())
    assert seen[-1] == (len(PIECE) * PIECES, len(PIECE) * PIECES)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
