"""Interim responses: a few are skipped, and a server that sends them without end gets no more attention."""

from __future__ import annotations

import asyncio

from noetl.output import Output
from noetl.tools.http.interim import INTERIM_MAX
from noetl.tools.http.tool import HttpInput, HttpTool
from tests.unit.tools.calls import call, raw_server

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 300000\r\n\r\n" + b"1".ljust(300_000)


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
