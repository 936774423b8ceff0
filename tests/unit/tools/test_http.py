"""`http` against a server on loopback: requests, responses, redirects, limits and failures."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import subprocess
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.client_reqrep import ConnectionKey
from yarl import URL

from noetl.adapters.memory import MemoryResults
from noetl.clock import SystemClock
from noetl.errors import Unavailable
from noetl.output import JSON, Failure, Output, failed
from noetl.testing import FakeClock
from noetl.tools.http.client import Timeouts, failure_of
from noetl.tools.http.encoding import PIECE_BYTES
from noetl.tools.http.request import HttpRequest
from noetl.tools.http.response import BODY_BYTES_MAX
from noetl.tools.http.tool import HttpInput, HttpTool
from tests.unit.tools.calls import Handler, call, raw_server, server

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


IMPORTED = """
import asyncio, sys, threading
from noetl.adapters.memory import MemoryResults
from noetl.tool import Call
from noetl.tools.http.tool import HttpInput, HttpTool

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "aiohttp":
            print(threading.current_thread() is threading.main_thread())

async def go():
    http = HttpTool()
    call = Call("e1/fetch#1/1", 1, "e1", {}, None, {}, MemoryResults(), None)
    made = await asyncio.gather(*(http.run(HttpInput(url="http://127.0.0.1:1/"), call) for _ in range(3)))
    print(*{each.error.kind for each in made})
    await http.close()

assert "aiohttp" not in sys.modules
sys.meta_path.insert(0, Finder())
asyncio.run(go())
"""


class Full(MemoryResults):
    """A store that is full."""

    async def put(self, execution_id: str, body: bytes, content_type: str) -> dict[str, JSON]:
        raise Unavailable(f"no room for {len(body)} bytes of {execution_id} ({content_type})")


def with_http(use: Callable[[HttpTool], Awaitable[Any]], tool: HttpTool | None = None) -> Any:
    async def go() -> Any:
        http = tool or HttpTool()
        try:
            return await use(http)
        finally:
            await http.close()

    return asyncio.run(go())


def sent(handler: Handler, fields: dict[str, JSON], spec: dict[str, JSON] | None = None) -> Output:
    """One request to a server with this handler; "{at}" in the url is its address."""

    async def use(http: HttpTool) -> Output:
        async with server(handler) as at:
            merged = {"url": "{at}/items", **fields}
            merged["url"] = merged["url"].replace("{at}", at)
            return await http.run(HttpInput(**merged), call(spec=spec))

    result: Output = with_http(use)
    return result


async def echo(request: web.Request) -> web.StreamResponse:
    return web.json_response(
        {
            "method": request.method,
            "path": request.path,
            "query": [list(each) for each in request.query.items()],
            "headers": {name.lower(): value for name, value in request.headers.items()},
            "body": (await request.read()).decode("latin-1"),
        }
    )


def answering(body: bytes, content_type: str | None = None, status: int = 200, *headers: tuple[str, str]) -> Handler:
    async def handler(_: web.Request) -> web.StreamResponse:
        response = web.Response(body=body, status=status, headers=dict(headers))
        if content_type is not None:
            response.headers["Content-Type"] = content_type
        return response

    return handler


def error_of(output: Output) -> Failure:
    assert output.status == "error"
    assert output.error is not None
    return output.error


def test_a_get_returns_the_parsed_body_and_its_http_part_d82() -> None:
    output = sent(answering(b'{"a":1}', "application/json", 200, ("X-Request-Id", "r1"), ("X-Odd", "1")), {})
    assert (output.status, output.data) == ("ok", {"a": 1})
    http = output.own["http"]
    assert {name: http[name] for name in ("status", "request_id")} == {"status": 200, "request_id": "r1"}
    assert (http["headers"]["content-type"], http["headers"]["x-odd"]) == ("application/json", "1")
    assert http["url"].startswith("http://127.0.0.1:")
    assert http["url"].endswith("/items")
    assert http["elapsed_ms"] > 0


def test_query_parameters_omit_nulls_and_repeat_lists() -> None:
    params = {"a": None, "b": [1, "x&y"], "c": True, "d": 1.5, "e": "ä"}
    data = sent(echo, {"url": "{at}/p?z=0", "params": params}).data
    assert data["query"] == [["z", "0"], ["b", "1"], ["b", "x&y"], ["c", "true"], ["d", "1.5"], ["e", "ä"]]


@pytest.mark.parametrize(
    ("fields", "content_type", "body"),
    [
        ({"json": {"a": [1, None]}}, "application/json", '{"a":[1,null]}'),
        ({"json": False}, "application/json", "false"),
        ({"form": {"a": "1 2", "b": [True, None]}}, "application/x-www-form-urlencoded", "a=1+2&b=true"),
        ({"body": "hi"}, "text/plain; charset=utf-8", "hi"),
        ({"body": "<x/>", "headers": {"content-type": "text/xml"}}, "text/xml", "<x/>"),
    ],
)
def test_a_body_is_sent_as_json_as_a_form_or_as_text(fields: dict[str, JSON], content_type: str, body: str) -> None:
    data = sent(echo, {"method": "POST", **fields}).data
    assert (data["headers"]["content-type"], data["body"]) == (content_type, body)


def test_a_large_body_is_sent_in_parts_with_its_length() -> None:
    async def count(request: web.Request) -> web.StreamResponse:
        return web.json_response([request.headers.get("Content-Length"), len(await request.content.read())])

    assert sent(count, {"method": "POST", "body": "x" * 2_000_000}).data == ["2000000", 2_000_000]


def test_a_multipart_body_has_values_and_refs() -> None:
    async def use(http: HttpTool) -> Output:
        async with server(echo) as at:
            results = MemoryResults()
            ref = await results.put("e1", b"\x01\x02", "image/png")
            parts = [
                {"name": "n", "value": 1},
                {"name": "f", "ref": ref, "filename": "a.png", "content_type": "image/png"},
            ]
            return await http.run(HttpInput(url=at, method="POST", multipart=parts), call(results=results))

    data = with_http(use).data
    assert data["headers"]["content-type"].startswith("multipart/form-data; boundary=")
    assert 'name="n"\r\n\r\n1\r\n' in data["body"]
    assert 'name="f"; filename="a.png"' in data["body"]
    assert "\x01\x02" in data["body"]


@pytest.mark.parametrize(
    ("method", "headers", "key"),
    [
        ("POST", {}, "e1/fetch#1/1"),
        ("PUT", {}, "e1/fetch#1/1"),
        ("PATCH", {}, "e1/fetch#1/1"),
        ("DELETE", {}, "e1/fetch#1/1"),
        ("POST", {"idempotency-key": "mine"}, "mine"),
        ("GET", {}, None),
    ],
)
def test_a_request_with_side_effects_has_an_idempotency_key(
    method: str, headers: dict[str, JSON], key: str | None
) -> None:
    assert sent(echo, {"method": method, "headers": headers}).data["headers"].get("idempotency-key") == key


def test_proxies_of_the_environment_and_cookies_are_not_used() -> None:
    async def use(http: HttpTool) -> list[JSON]:
        async with server(answering(b"", None, 200, ("Set-Cookie", "a=1"))) as at:
            await http.run(HttpInput(url=at), call())
        async with server(echo) as at:
            return [(await http.run(HttpInput(url=at), call())).data["headers"].get("cookie")]

    assert with_http(use) == [None]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"url": "ftp://127.0.0.1/x"}, '`url` must begin with http:// or https://, not with "ftp"'),
        ({"url": "file:///etc/passwd"}, '`url` must begin with http:// or https://, not with "file"'),
        ({"url": "items"}, "`url` must begin with http:// or https://"),
        ({"url": "http:///x"}, "`url` "),
        ({"url": "http://[::1/x"}, "`url` is not a valid URL"),
        ({"url": "http://127.0.0.1:99999/"}, "`url` is not a valid URL"),
        ({"headers": {"a b": 1}}, "'a b' is not a valid header name"),
        ({"headers": {"x": "1\r\ny: 2"}}, "header `x` contains a line break or another control character"),
        ({"headers": {"x": {}}}, "`headers.x` is a mapping; it must be text or a number"),
        ({"headers": {"Content-Length": 3}}, "header `Content-Length` is reserved: the tool sets it"),
        ({"params": {"x": [[1]]}}, "`params.x` is a list; it must be text or a number"),
        ({"json": 1, "form": {}}, "a request has only one body; remove all but one of `json`, `form`"),
        ({"multipart": [{"value": 1}]}, "`multipart[0]` must be a mapping with a `name`"),
        ({"multipart": [{"name": "a"}]}, "`multipart[0]` must have either `value` or `ref`"),
    ],
)
def test_invalid_fields_are_an_error_of_kind_input(fields: dict[str, JSON], message: str) -> None:
    error = error_of(sent(echo, fields))
    assert error.kind == "input"
    assert error.message.startswith(message)


@pytest.mark.parametrize(
    ("body", "content_type", "response", "data"),
    [
        (b'{"a":1}', "application/problem+json", "auto", {"a": 1}),
        (b"\xef\xbb\xbf[1]", "application/json", "auto", [1]),
        (b"{oops", "application/json", "auto", "{oops"),
        (b"[1]", "text/plain", "auto", "[1]"),
        (b"[1]", "text/plain", "json", [1]),
        (b"\xe4", "text/plain; charset=latin-1", "auto", "ä"),
        (b"\xff\x00", "application/octet-stream", "auto", {"base64": "/wA="}),
        (b"[1]", "application/json", "text", "[1]"),
        (b"[1]", "application/json", "bytes", {"base64": "WzFd"}),
        (b"", "application/json", "json", None),
        (b"", "text/plain", "auto", None),
    ],
)
def test_the_body_is_read_by_its_content_type_or_by_the_field_response(
    body: bytes, content_type: str, response: str, data: JSON
) -> None:
    output = sent(answering(body, content_type), {"response": response})
    assert (output.status, output.data) == ("ok", data)


def test_a_body_that_is_not_the_required_json_is_an_error_with_its_text() -> None:
    output = sent(answering(b"<html>", "text/html"), {"response": "json"})
    assert error_of(output).kind == "http"
    assert " is not valid JSON: " in error_of(output).message
    assert output.data == "<html>"


def test_a_file_is_stored_and_its_ref_returned() -> None:
    async def use(http: HttpTool) -> tuple[Output, bytes]:
        results = MemoryResults()
        async with server(answering(b"\x00" * 1000, "image/png")) as at:
            output = await http.run(HttpInput(url=at, response="file"), call(results=results))
            assert output.ref is not None
            return output, await results.get(output.ref)

    output, body = with_http(use)
    assert (output.data, output.ref["meta"]["content_type"], body) == (None, "image/png", b"\x00" * 1000)


def test_a_file_that_cannot_be_stored_is_a_retryable_error() -> None:
    async def use(http: HttpTool) -> Output:
        async with server(answering(b"x", "image/png")) as at:
            return await http.run(HttpInput(url=at, response="file"), call(results=Full()))

    message = "the body cannot be stored: no room for 1 bytes of e1 (image/png)"
    assert error_of(with_http(use)) == Failure(kind="reference", message=message, retryable=True)


def test_the_body_of_an_error_is_not_stored_as_a_file() -> None:
    output = sent(answering(b'{"why":1}', "application/json", 404), {"response": "file"})
    assert (output.status, output.data, output.ref) == ("error", {"why": 1}, None)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, 501])
def test_a_permanent_status_is_not_retryable(status: int) -> None:
    assert not error_of(sent(answering(b"", None, status), {})).retryable


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_a_temporary_status_is_retryable(status: int) -> None:
    assert error_of(sent(answering(b"", None, status), {})).retryable


def test_an_error_names_the_request_without_secrets_d82() -> None:
    output = sent(
        answering(b'{"why":"gone"}', "application/json", 404),
        {
            "url": "{at}/items?token=canary&page=2#canary",
            "params": {"k": "canary", "X-Amz-Signature": "canary", "cursor": "canary" * 20, "q": "a b"},
            "headers": {"x-key": "canary"},
        },
    )
    error = error_of(output)
    assert output.data == {"why": "gone"}
    assert (error.kind, error.retryable, error.details) == ("http", False, {"status": 404})
    query = "token=***&page=2&k=***&X-Amz-Signature=***&cursor=…&q=a+b"
    assert error.message == f'HTTP 404 Not Found from GET {output.own["http"]["url"]}?{query}: {{"why":"gone"}}'
    assert "canary" not in repr(output)


@pytest.mark.parametrize(
    ("body", "kind", "shown"),
    [
        (b"", None, ""),
        (b"  no\n such   page ", "text/plain", ": no such page"),
        (b"<html><head><title>x</title></head><body><h1>Not</h1> here</body></html>", "text/html", ": Not here"),
        (b'{"detail": "' + b"x" * 1000 + b'"}', "application/json", ': {"detail": "' + "x" * 288 + "…"),
        ("é".encode() * 2000, "text/plain; charset=utf-8", ": " + "é" * 300 + "…"),
        (b"\x89PNG\x00\xff", "image/png", ""),
    ],
)
def test_a_failure_shows_the_beginning_of_the_body(body: bytes, kind: str | None, shown: str) -> None:
    output = sent(answering(body, kind, 422), {})
    assert error_of(output).message == f"HTTP 422 Unprocessable Entity from GET {output.own['http']['url']}{shown}"


def test_a_failed_connection_shows_the_query_without_secrets() -> None:
    async def use(http: HttpTool) -> Output:
        return await http.run(HttpInput(url="http://127.0.0.1:1/x?page=3&api_key=canary"), call())

    assert error_of(with_http(use)).message.endswith("(GET http://127.0.0.1:1/x?page=3&api_key=***)")


def test_a_long_query_is_cut() -> None:
    query = "&".join(f"p{number}=1" for number in range(200))
    error = error_of(sent(answering(b"", None, 404), {"url": f"{{at}}/?{query}"}))
    assert error.message.endswith(query[:300] + "…")


def test_a_password_in_the_url_is_used_and_not_shown() -> None:
    async def use(http: HttpTool) -> Output:
        async with server(echo) as at:
            return await http.run(HttpInput(url=at.replace("//", "//me:canary@") + "/x"), call())

    output = with_http(use)
    assert output.data["headers"]["authorization"] == "Basic bWU6Y2FuYXJ5"
    assert "canary" not in repr(output.own)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7.0),
        (format_datetime(datetime(2026, 1, 1, 12, 0, 30, tzinfo=UTC), usegmt=True), 30.0),
        (format_datetime(datetime(2026, 1, 1, tzinfo=UTC) - timedelta(days=9)), 0.0),
        ("soon", None),
        ("-1", None),
    ],
)
def test_retry_after_is_read(text: str, seconds: float | None) -> None:
    async def use(http: HttpTool) -> Output:
        async with server(answering(b"", None, 429, ("Retry-After", text))) as at:
            return await http.run(HttpInput(url=at), call())

    assert error_of(with_http(use, HttpTool(clock=FakeClock(NOON)))).details.get("retry_after_s") == seconds


def test_a_body_that_decompresses_above_the_limit_is_refused() -> None:
    bomb = gzip.compress(b"\x00" * (BODY_BYTES_MAX + 1), compresslevel=1)
    output = sent(answering(bomb, "application/json", 200, ("Content-Encoding", "gzip")), {})
    error = error_of(output)
    assert error.kind == "payload-too-large"
    assert error.message.endswith(f"(BODY_BYTES_MAX: {BODY_BYTES_MAX:,} bytes); use `response: file`")


def test_a_body_with_a_too_large_content_length_is_not_read() -> None:
    async def use(http: HttpTool) -> Output:
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {BODY_BYTES_MAX + 1}\r\n\r\n"
        async with raw_server(head.encode()) as at:
            return await http.run(HttpInput(url=at), call())

    assert error_of(with_http(use)).kind == "payload-too-large"


@pytest.mark.parametrize(("limit", "kind"), [(12, None), (11, "payload-too-large")])
def test_a_body_without_a_length_that_arrives_with_its_head_is_limited(limit: int, kind: str | None) -> None:
    async def use(http: HttpTool) -> Output:
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        async with raw_server(head + b"b\r\n[1, 2, 3, 4\r\n1\r\n]\r\n0\r\n\r\n") as at:
            return await http.run(HttpInput(url=at, response="json"), call(spec={"max_bytes": limit}))

    output = with_http(use)
    assert output.data == ([1, 2, 3, 4] if kind is None else None)
    assert (output.error and output.error.kind) == kind


def test_headers_that_are_not_text_become_text() -> None:
    async def use(http: HttpTool) -> Output:
        async with raw_server(b"HTTP/1.1 204 No\r\nX-A: \xff\r\nX-B: 1\r\nx-b: 2\r\n\r\n") as at:
            return await http.run(HttpInput(url=at), call())

    output = with_http(use)
    assert output.own["http"]["headers"] == {"x-a": "\N{REPLACEMENT CHARACTER}", "x-b": "1, 2"}


def redirecting(status: int, to: str) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        if request.path == "/items":
            return web.Response(status=status, headers={"Location": to})
        return await echo(request)

    return handler


@pytest.mark.parametrize(
    ("status", "method", "then", "body"),
    [
        (301, "POST", "GET", ""),
        (302, "POST", "GET", ""),
        (303, "PUT", "GET", ""),
        (303, "HEAD", "HEAD", None),
        (302, "PUT", "PUT", "[1]"),
        (307, "POST", "POST", "[1]"),
        (308, "POST", "POST", "[1]"),
    ],
)
def test_a_redirect_is_followed_according_to_its_status(status: int, method: str, then: str, body: str | None) -> None:
    output = sent(redirecting(status, "/new?a=1"), {"method": method, "json": [1]})
    assert output.own["http"]["url"].endswith("/new")
    if body is not None:
        assert (output.data["method"], output.data["body"]) == (then, body)


@pytest.mark.parametrize("same_origin", [True, False])
def test_credentials_are_not_sent_to_another_origin(same_origin: bool) -> None:
    kept = {"Accept": "text/html", "Content-Language": "de"}
    headers = {"Authorization": "s", "Cookie": "s", "X-Api-Key": "s", "X-Page": "1", "Traceparent": "s", **kept}

    async def use(http: HttpTool) -> JSON:
        async with server(echo) as other, server(redirecting(307, "/new" if same_origin else other)) as at:
            return (await http.run(HttpInput(url=f"{at}/items", headers=headers), call())).data

    found = with_http(use)["headers"]
    arrived = {name for name in headers if found.get(name.lower()) == headers[name]}
    assert arrived == (set(headers) if same_origin else set(kept))


@pytest.mark.parametrize("status", [302, 307, 308])
@pytest.mark.parametrize("body", [{"json": ["s"]}, {"form": {"a": "s"}}, {"multipart": [{"name": "a", "value": "s"}]}])
def test_a_body_is_not_sent_to_another_origin(status: int, body: dict[str, JSON]) -> None:
    reached = []

    async def decoy(request: web.Request) -> web.StreamResponse:
        reached.append(request.path)
        return web.Response()

    async def use(http: HttpTool) -> Output:
        async with server(decoy) as other, server(redirecting(status, other)) as at:
            return await http.run(HttpInput(url=f"{at}/items", method="PUT", **body), call())

    error = error_of(with_http(use))
    assert reached == []
    assert (error.kind, error.retryable) == ("http", False)
    assert "another origin, which does not receive the body: send the request there, if you trust it" in error.message


def test_redirects_have_a_limit_and_can_be_disabled() -> None:
    error = error_of(sent(redirecting(302, "/items"), {}, {"redirects": 3}))
    assert (error.kind, error.retryable) == ("http", False)
    assert error.message.startswith("more than 3 redirects, the last one to http://127.0.0.1:")
    stays = sent(redirecting(302, "/new"), {}, {"redirects": 0})
    assert error_of(stays).message.startswith("HTTP 302 Found from GET")
    assert stays.own["http"]["headers"]["location"] == "/new"


@pytest.mark.parametrize("to", ["file:///etc/passwd", "ftp://127.0.0.1/", "http://[::1/", "gopher://x"])
def test_a_redirect_to_another_scheme_is_refused(to: str) -> None:
    error = error_of(sent(redirecting(302, to), {}))
    assert (error.kind, error.retryable) == ("http", False)
    assert error.message.endswith("redirects to an address that is not a valid HTTP URL")


def test_a_refused_address_gets_no_connection_in_any_spelling_d88() -> None:
    reached = []

    async def decoy(request: web.Request) -> web.StreamResponse:
        reached.append(request.path)
        return web.Response()

    async def use(http: HttpTool) -> list[Output]:
        async with server(decoy) as at:
            port = at.rpartition(":")[2]
            hosts = [
                "127.0.0.1",
                "localhost",
                "[::ffff:127.0.0.1]",
                "127.1",
                "2130706433",
                "0x7f.1",
                "0.0.0.0",
            ]
            return [await http.run(HttpInput(url=f"http://{host}:{port}/"), call()) for host in hosts]

    outputs = with_http(use, HttpTool(allow_private=False))
    assert reached == []
    assert {(error_of(each).kind, error_of(each).retryable) for each in outputs} <= {
        ("http", False),
        ("input", False),
    }
    assert error_of(outputs[0]).message.startswith(
        "the address is not allowed: 127.0.0.1 is a loopback address; on a server, NOETL_ALLOW_NETWORKS can allow it (GET http://127."
    )


def test_a_redirect_does_not_bypass_the_address_policy_d88() -> None:
    reached = []

    async def decoy(request: web.Request) -> web.StreamResponse:
        reached.append(request.path)
        return web.Response()

    async def use(http: HttpTool) -> Output:
        async with server(decoy) as other:
            to = other.replace("127.0.0.1", "127.0.0.2")
            async with server(redirecting(302, to)) as at:
                return await http.run(HttpInput(url=f"{at}/items"), call())

    output = with_http(use, HttpTool(allow_private=False, allow=["127.0.0.1/32"]))
    assert error_of(output).message.startswith("the address is not allowed: 127.0.0.2 is a loopback address")
    assert reached == []


def test_a_refused_connection_is_retryable() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/x?canary"
        output = with_http(lambda http: http.run(HttpInput(url=url), call()))
    address = url.removesuffix("?canary")
    message = f"no connection: Connection refused (GET {address})"
    assert output == failed("http", message, retryable=True)


def test_a_host_name_that_does_not_resolve_is_retryable() -> None:
    request = HttpRequest("GET", URL("http://no.example/?canary"), {}, None)
    unknown = aiohttp.ClientConnectorDNSError(
        ConnectionKey("no.example", 80, False, True, None, None, None),
        OSError(-2, "Name or service not known"),
    )
    expected = 'the host name "no.example" cannot be resolved (GET http://no.example/)'
    assert failure_of(unknown, request, Timeouts(None, None)) == failed("http", expected, retryable=True)


@pytest.mark.parametrize(
    ("answer", "message", "retryable"),
    [
        (b"", "the connection was lost", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", "the response ended early", True),
        (b"220 ftp ready\r\n\r\n", "the response is not valid HTTP", False),
    ],
)
def test_an_invalid_response_is_an_error(answer: bytes, message: str, retryable: bool) -> None:
    async def use(http: HttpTool) -> tuple[Output, str]:
        async with raw_server(answer) as at:
            return await http.run(HttpInput(url=f"{at}/x?canary"), call()), at

    output, at = with_http(use)
    assert output == failed("http", f"{message} (GET {at}/x)", retryable=retryable)


def test_a_server_that_stops_sending_is_a_timeout_d33() -> None:
    async def use(http: HttpTool) -> Output:
        over = asyncio.Event()

        async def silent(_: web.Request) -> web.StreamResponse:
            await over.wait()
            return web.Response()

        async with server(silent) as at:
            output = await http.run(HttpInput(url=at), call(spec={"timeout": {"read": 0.05, "total": 60}}))
            over.set()
            return output

    error = error_of(with_http(use))
    assert (error.kind, error.retryable) == ("timeout", True)
    assert error.message.startswith("no data received for 0.05 s from")


def test_a_server_without_tls_is_not_retryable() -> None:
    async def plain(http: HttpTool) -> Output:
        async with server(echo) as at:
            return await http.run(HttpInput(url=at.replace("http:", "https:")), call())

    error = error_of(with_http(plain))
    assert (error.kind, error.retryable) == ("http", False)
    assert error.message.startswith("the TLS handshake failed; does the server use http:// instead? (GET https://")


def test_a_connection_closed_in_the_tls_handshake_is_retryable() -> None:
    async def hangs_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.close()

    async def use(http: HttpTool) -> list[Output]:
        async with await asyncio.start_server(hangs_up, "127.0.0.1", 0) as listening:
            port = listening.sockets[0].getsockname()[1]
            return [
                await http.run(HttpInput(url=f"{scheme}://127.0.0.1:{port}/"), call()) for scheme in ("https", "http")
            ]

    tls, plain = map(error_of, with_http(use))
    assert (tls.kind, tls.retryable, plain.retryable) == ("http", True, True)
    assert tls.message.startswith(
        "the server closed the connection in the TLS handshake; does it use http:// instead? (GET https://"
    )
    assert "TLS" not in plain.message


def test_a_certificate_is_verified_unless_verify_is_false() -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(Path(__file__).with_name("self_signed.pem"))

    async def use(http: HttpTool) -> list[Output]:
        async with server(echo, context=context) as at:
            return [await http.run(HttpInput(url=at), call(spec={"verify": each})) for each in (True, False)]

    checked, unchecked = with_http(use)
    assert (error_of(checked).kind, error_of(checked).retryable) == ("http", False)
    assert error_of(checked).message.startswith("the certificate is not valid: ")
    assert unchecked.status == "ok"


def test_connections_are_kept_alive() -> None:
    peers = set()

    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        peers.add(request.transport.get_extra_info("peername"))
        return web.json_response(1)

    async def use(http: HttpTool) -> list[Output]:
        async with server(handler) as at:
            return [await http.run(HttpInput(url=at), call()) for _ in range(5)]

    with_http(use)
    assert len(peers) == 1


def test_a_tool_that_was_never_used_is_closed_without_a_client() -> None:
    http = HttpTool()
    asyncio.run(http.close())
    assert http._client is None


def test_importing_a_tool_imports_no_heavy_module() -> None:
    program = (
        "import sys\n"
        "import noetl.tools.http.tool, noetl.tools.noop, noetl.tools.python.tool, noetl.tools.resolve\n"
        "heavy = ('aiohttp', 'yarl', 'ctypes', 'noetl.tools.python.pool', 'noetl.tools.http.client')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_body_that_decompresses_to_much_more_leaves_turns_to_others() -> None:
    pieces = 100
    body = gzip.compress(bytes(pieces * PIECE_BYTES))
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n".encode()

    async def use(http: HttpTool) -> int:
        async with raw_server(head + body) as at:
            running = asyncio.ensure_future(http.run(HttpInput(url=at, response="text"), call()))
            turns = 0
            while not running.done():
                await SystemClock().sleep(0)
                turns += 1
            assert len(running.result().data) == pieces * PIECE_BYTES
            return turns

    assert with_http(use) > pieces


def test_the_client_is_not_imported_on_the_event_loop() -> None:
    """It takes 0.1 s, in which other executions would wait."""
    printed = subprocess.run([sys.executable, "-c", IMPORTED], check=True, capture_output=True, text=True).stdout
    assert printed.split() == ["False", "http"]
