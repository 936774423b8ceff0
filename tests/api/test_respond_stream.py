"""`respond` tasks with `more: true` stream the answer of POST /run/<path> (D110)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.api.servers import ROOT, ApiServer, serve
from tests.playbooks import HEAD

GATE = "{name: gate, kind: wait, signal: go}"
FAILS = "{name: fails, kind: python, code: \"def main(): raise ValueError('no')\"}"


def pipeline(*tasks: str) -> str:
    return HEAD + "workflow:\n- step: start\n  tool:\n" + "".join(f"  - {each}\n" for each in tasks)


ROWS = HEAD + (
    "workload: {count: 5}\nworkflow:\n"
    "- step: start\n  tool: {kind: respond, more: true, status: 201, body: {row: 0}}\n  next: {arcs: [{step: gate}]}\n"
    "- step: gate\n  tool: {kind: wait, signal: go}\n  next: {arcs: [{step: rows}]}\n"
    "- step: rows\n  loop: {in: '{{ range(1, workload.count) }}', iterator: row}\n"
    "  tool: {kind: respond, more: true, body: {row: '{{ iter.row }}'}}\n"
)


@asynccontextmanager
async def requested(server: ApiServer, body: Any = None, **headers: str) -> AsyncIterator[aiohttp.ClientResponse]:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    async with server.api.session.post(f"{server.api.url}/run/t", json=body, headers=sent) as response:
        yield response


async def signal(server: ApiServer, response: aiohttp.ClientResponse) -> None:
    path = f"/executions/{response.headers['Noetl-Execution-Id']}/signal"
    while (await server.api.ask("POST", path, {"name": "go"})).status != 200:
        pass  # the part comes before the next task waits for the signal


async def status_of(server: ApiServer, response: aiohttp.ClientResponse) -> str:
    return str((await server.api.get(f"/executions/{response.headers['Noetl-Execution-Id']}"))["status"])


def test_each_part_is_sent_when_the_log_contains_it(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(ROWS)
        async with requested(server, Idempotency_Key="1") as response:
            assert response.status == 201
            assert response.headers["Content-Type"] == "application/x-ndjson"
            assert response.headers["Transfer-Encoding"] == "chunked"
            assert "sandbox" in response.headers["Content-Security-Policy"]
            assert await response.content.readline() == b'{"row":0}\n'
            assert await status_of(server, response) == "running"
            await signal(server, response)
            rest = await response.read()
        assert rest == b"".join(b'{"row":%d}\n' % row for row in range(1, 5))
        # A repeated key gets the whole answer again, from its beginning.
        async with requested(server, Idempotency_Key="1") as response:
            assert await response.read() == b'{"row":0}\n' + rest

    serve(tmp_path, work)


def test_a_long_answer_is_complete_and_in_order(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(ROWS.replace("tool: {kind: wait, signal: go}", "tool: {kind: noop}"))
        async with requested(server, {"count": 700}) as response:
            assert await response.read() == b"".join(b'{"row":%d}\n' % row for row in range(700))

    serve(tmp_path, work)


def test_the_example_of_the_guide_sends_what_the_guide_shows(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "guides" / "inputs.md").read_text()
    example = guide.partition("```yaml\n# progress.yaml\n")[2].partition("```")[0]
    shown = guide.partition("/run/shop/progress\n")[2].partition("```")[0]

    async def work(server: ApiServer) -> None:
        await server.api.register(example)
        assert (await server.api.ask("POST", "/run/shop/progress")).body.decode() == shown
        assert shown

    serve(tmp_path, work)


def test_a_respond_without_more_ends_the_answer_while_the_execution_goes_on(tmp_path: Path) -> None:
    text = pipeline(
        "{name: one, kind: respond, more: true, headers: {Content-Type: text/csv}, body: \"a,b\\n\"}",
        "{name: make, kind: shell, sh: 'seq 1 100000', spec: {result: {inline_max_bytes: 0}}}",
        "{name: two, kind: respond, more: true, ref: '{{ make.shell.stdout_ref }}'}",
        "{name: three, kind: respond, status: 500, headers: {X-Late: 'yes'}, body: end}",
        GATE,
        "{name: four, kind: respond, body: no}",
        FAILS,
    )  # fmt: skip

    async def work(server: ApiServer) -> None:
        await server.api.register(text)
        async with requested(server) as response:
            body = await response.read()
            assert (response.status, response.headers["Content-Type"]) == (200, "text/csv")
            assert "X-Late" not in response.headers
            assert body == b"a,b\n" + b"".join(b"%d\n" % n for n in range(1, 100_001)) + b"end"
            assert await status_of(server, response) == "running"
            await signal(server, response)

    serve(tmp_path, work)


def test_values_are_messages_of_an_event_stream(tmp_path: Path) -> None:
    text = pipeline(
        "{name: head, kind: respond, more: true, headers: {Content-Type: text/event-stream}}",
        "{name: one, kind: respond, more: true, body: {n: 1}}",
        "{name: two, kind: respond, more: true, body: \"event: note\\ndata: two\\n\\n\"}",
        "{name: make, kind: python, code: 'def main(): return list(range(50_000))'}",
        "{name: last, kind: respond, body: '{{ _prev }}'}",
    )  # fmt: skip

    async def work(server: ApiServer) -> None:
        await server.api.register(text)
        async with requested(server) as response:
            messages = (await response.read()).split(b"\n\n")
        assert messages[:2] == [b'data: {"n":1}', b"event: note\ndata: two"]
        assert messages[2] == b"data: [" + b",".join(b"%d" % n for n in range(50_000)) + b"]"
        assert messages[3:] == [b""]

    serve(tmp_path, work)


@pytest.mark.parametrize("how", ["fail", "cancel", "stop"])
def test_an_answer_that_cannot_be_completed_breaks_off(how: str, tmp_path: Path) -> None:
    text = pipeline("{name: one, kind: respond, more: true, body: \"one\\n\"}", GATE, FAILS)  # fmt: skip

    async def work(server: ApiServer) -> None:
        await server.api.register(text)
        async with requested(server) as response:
            assert await response.content.readline() == b"one\n"
            if how == "fail":
                await signal(server, response)
            elif how == "cancel":
                await server.api.post(f"/executions/{response.headers['Noetl-Execution-Id']}/cancel", {})
            else:
                await server.server.stop()
            with pytest.raises(aiohttp.ClientPayloadError):
                await response.read()

    serve(tmp_path, work)


def test_a_client_that_disconnects_does_not_disturb_the_execution(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(ROWS)
        async with requested(server) as response:
            await response.content.readline()
            assert response.connection is not None
            response.connection.close()
        await signal(server, response)
        while (status := await status_of(server, response)) == "running":
            pass
        assert status == "ok"

    serve(tmp_path, work)


def test_http_1_0_cannot_show_the_end_of_a_stream(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(ROWS)
        reader, writer = await asyncio.open_connection(server.server.host, server.server.port)
        writer.write(b"POST /run/t HTTP/1.0\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
        answer = await reader.read()
        writer.close()
        assert answer.startswith(b"HTTP/1.1 505 ")
        assert b"old-http-version" in answer
        assert b"noetl-execution-id: " in answer.lower()

    serve(tmp_path, work)
