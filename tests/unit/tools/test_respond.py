"""`respond`: which answers it accepts, and what its output says about them (D110)."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from noetl.adapters.memory import MemoryResults
from noetl.output import Output
from noetl.tools.respond import BODY_BYTES_MAX, TEXT_INLINE_MAX, RespondInput, RespondTool
from noetl.worker.refs import ExecutionResults
from tests.unit.tools.calls import call


def respond(results: MemoryResults | None = None, **fields: Any) -> Output:
    own = call(results=ExecutionResults(results or MemoryResults(), None, "e1", {}))
    return asyncio.run(RespondTool().run(msgspec.convert(fields, RespondInput), own))


def failure(**fields: Any) -> tuple[str, str]:
    output = respond(**fields)
    assert output.error is not None
    assert output.own == {}
    return output.error.kind, output.error.message


@pytest.mark.parametrize(("body", "kind"), [(None, "none"), ("hello", "text"), ({"n": 1}, "json"), (False, "json")])
def test_the_output_says_what_the_answer_is(body: Any, kind: str) -> None:
    output = respond(status=201, headers={"X-Total": "3"}, body=body)
    assert output.data == body
    assert output.own == {"respond": {"status": 201, "headers": {"x-total": "3"}, "body": kind, "more": False}}


@pytest.mark.parametrize(
    "name",
    ["Set-Cookie", "Connection", "transfer-encoding", "Content-Length", "Proxy-Authenticate", "Noetl-Execution-Id",
     "Access-Control-Allow-Origin", "Content-Security-Policy", "Clear-Site-Data", "Sec-WebSocket-Accept"],
)  # fmt: skip
def test_headers_of_the_server_and_the_connection_are_refused(name: str) -> None:
    kind, message = failure(headers={name: "x"})
    assert kind == "input"
    assert f'cannot set the header "{name}"' in message


@pytest.mark.parametrize("value", ["a\r\nSet-Cookie: x", "a\nb", "a\x00b", "caf\u00e9", "\u0130"])
def test_a_value_cannot_begin_another_header(value: str) -> None:
    kind, message = failure(headers={"X-Note": value})
    assert (kind, message) == ("input", 'the value of the header "X-Note" may contain printable ASCII characters only')


@pytest.mark.parametrize("name", ["", "a b", "X:", "X\r\nY", "x" * 65, "caf\u00e9"])
def test_a_name_is_a_token(name: str) -> None:
    assert failure(headers={name: "x"})[0] == "input"


def test_headers_are_limited() -> None:
    assert "limit 64" in failure(headers={f"x-{n}": "" for n in range(65)})[1]
    assert "limit 8,192" in failure(headers={"x": "y" * 8192})[1]
    assert "two entries" in failure(headers={"X": "1", "x": "2"})[1]
    assert "media type" in failure(headers={"Content-Type": "html"})[1]


@pytest.mark.parametrize("status", [204, 205, 304])
def test_some_statuses_have_no_body(status: int) -> None:
    assert respond(status=status).own["respond"]["status"] == status
    assert "has no body" in failure(status=status, body="x")[1]
    assert "has no body" in failure(status=status, more=True)[1]


def test_a_stored_result_of_this_execution_is_an_answer_and_another_is_not() -> None:
    results = MemoryResults()
    own = asyncio.run(results.put("e1", b"a,b\n", "text/csv"))
    other = asyncio.run(results.put("e2", b"secret", "text/csv"))
    output = respond(results, ref=own)
    assert (output.ref, output.own["respond"]["body"]) == (own, "stored")
    refused = respond(results, ref=other)
    assert refused.error is not None
    assert "which this execution did not start" in refused.error.message
    assert "Ref of a stored result" in failure(ref={"type": "blob"})[1]
    assert "not both" in failure(ref=own, body=1)[1]


def test_a_long_text_is_stored_as_text() -> None:
    results, text = MemoryResults(), "x" * (TEXT_INLINE_MAX + 1)
    output = respond(results, body=text)
    assert output.ref is not None
    assert asyncio.run(results.get(output.ref)) == text.encode()


def test_a_body_is_limited() -> None:
    assert failure(body="x" * (BODY_BYTES_MAX + 1))[0] == "payload-too-large"
