"""What a server sends beside the body: a little is skipped, and one that sends it without end is not read further."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from noetl.output import Output
from noetl.tools.http.framing import CHUNKS_MAX, FRAMING_BYTES_MAX, INTERIM_MAX
from noetl.tools.http.tool import HttpInput, HttpTool
from tests.unit.tools.calls import call, raw_server

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 300000\r\n\r\n" + b"1".ljust(300_000)

CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def fetch(*answers: bytes) -> list[Output]:
    """One request after the other, on one connection where the server keeps it open."""

    async def go() -> list[Output]:
        tool = HttpTool()
        try:
            found = []
            for answer in answers:
                async with asyncio.timeout(60), raw_server(answer) as url:
                    found.append(await tool.run(HttpInput(url=url), call()))
            return found
        finally:
            await tool.close()

    return asyncio.run(go())


def test_a_few_interim_responses_are_skipped() -> None:
    for output in fetch(ANSWER, HINTS * INTERIM_MAX + ANSWER, CONTINUE + ANSWER):
        assert (output.error, output.data) == (None, 1)


def test_more_than_the_limit_are_an_error() -> None:
    for output in fetch(HINTS * (INTERIM_MAX + 1) + ANSWER, CONTINUE * 100_000, CONTINUE * 100_000 + ANSWER):
        assert output.error is not None
        assert output.error.message.startswith("the response is not valid HTTP")


def test_a_long_chunk_extension_and_many_small_chunks_are_skipped() -> None:
    extension = b"1;" + b"a" * (FRAMING_BYTES_MAX // 2) + b"\r\n1\r\n"
    for output in fetch(CHUNKED + extension + END, CHUNKED + b"1\r\n1\r\n" + b"1\r\n \r\n" * 300_000 + END):
        assert (output.error, output.data) == (None, 1)


def test_small_chunks_are_read_a_few_at_a_time() -> None:
    """Others have a turn of the event loop after each part."""
    parts: list[float] = []

    async def go() -> Output:
        tool = HttpTool()
        try:
            async with asyncio.timeout(60), raw_server(CHUNKED + b"1\r\n1\r\n" * 50_000 + END) as url:
                task = call()._replace(progress=lambda size, _total: parts.append(size))
                return await tool.run(HttpInput(url=url, response="file"), task)
        finally:
            await tool.close()

    assert asyncio.run(go()).error is None
    assert parts[-1] == 50_000
    first = parts[0]  # the chunks that came with the head
    assert max(after - before for before, after in pairwise([first, *parts])) <= 2 * CHUNKS_MAX


def test_framing_without_end_is_an_error() -> None:
    more = b"a" * (2 * FRAMING_BYTES_MAX)
    trailers = b"1\r\n1\r\n0\r\n" + b"T: 1\r\n" * (FRAMING_BYTES_MAX // 2) + b"\r\n"
    for output in fetch(CHUNKED + b"1;" + more + b"\r\n1\r\n" + END, CHUNKED + trailers):
        assert output.error is not None
        assert output.error.kind == "http"
