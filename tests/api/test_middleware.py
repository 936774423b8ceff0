"""Checks of every request: host, origin, rate, size, content type, slow senders; security headers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from noetl.server.app import BODY_MAX
from noetl.server.http_protocol import HEADERS_BYTES_MAX
from noetl.server.middleware import CALLERS_MAX, RateLimiter
from noetl.server.playbook_body import PLAYBOOK_BODY_MAX
from noetl.server.services import BODY_S, HEADERS_S, REQUESTS_BURST, REQUESTS_PER_S, ServerSettings
from noetl.testing import FakeClock
from tests.api.servers import NOOP, ApiServer, serve


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost:8080"}, 200),
        ({"Host": "[::1]:8080"}, 200),
        ({"Host": "evil.example:80"}, 403),
        ({"Host": "127.0.0.1.evil.example"}, 403),
        ({"Host": ""}, 403),
        ({"Host": "localhost:8080", "Origin": "http://localhost:8080"}, 200),
        ({"Host": "localhost:8080", "Origin": "http://localhost:3000"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
    ],
)
def test_a_server_without_tokens_rejects_pages_of_other_sites(
    tmp_path: Path, headers: dict[str, str], status: int
) -> None:
    async def work(server: ApiServer) -> None:
        answer = await server.api.ask("GET", "/executions", headers=headers)
        assert answer.status == status
        if status == 403:
            assert answer.json["code"] in ("foreign-host", "foreign-origin")

    serve(tmp_path, work)


def test_a_server_with_tokens_accepts_any_host_name(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        server.api.token = await server.token("read")
        assert (await server.api.ask("GET", "/executions", headers={"Host": "noetl.example"})).status == 200

    serve(tmp_path, work, ServerSettings())


def test_html_forms_are_rejected(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
            answer = await server.api.ask("POST", "/executions", b"{}", headers={"Content-Type": kind})
            assert (answer.status, answer.json["code"]) == (415, "wrong-content-type")

    serve(tmp_path, work)


def test_too_many_requests_get_a_retry_delay(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        first, second = await server.token("read"), await server.token("read")
        for token in (first, second):  # an unknown token is counted by its address
            assert (await server.api.ask("GET", "/whoami", token=token)).status == 200
        statuses = [(await server.api.ask("GET", "/whoami", token=first)).status for _ in range(6)]
        assert (statuses[:5], statuses[5]) == ([200] * 5, 429)
        assert (await server.api.ask("GET", "/whoami", token=second)).status == 200
        answer = await server.api.ask("GET", "/whoami", token=first)
        assert answer.json["code"] == "too-many-requests"
        assert 900 < int(answer.headers["retry-after"]) <= 1_000  # some time has passed since

    serve(tmp_path, work, ServerSettings(requests_per_s=0.001, requests_burst=5))


def test_unknown_tokens_are_counted_by_address(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        statuses = [
            (await server.api.ask("GET", "/whoami", token=f"noetl_{number:016x}_{'x' * 43}")).status
            for number in range(8)
        ]
        assert statuses == [401] * 5 + [429] * 3

    serve(tmp_path, work, ServerSettings(requests_per_s=0.001, requests_burst=5))


def test_a_bucket_refills_up_to_its_limit() -> None:
    clock = FakeClock()
    rates = RateLimiter(clock, per_s=2, burst=4)
    assert [rates.take("a") for _ in range(5)] == [0, 0, 0, 0, 1]
    assert rates.take("b") == 0
    clock.advance(0.5)
    assert [rates.take("a"), rates.take("a")] == [0, 1]
    clock.advance(1_000)
    assert [rates.take("a") for _ in range(5)] == [0, 0, 0, 0, 1]


def test_the_number_of_buckets_is_limited() -> None:
    rates = RateLimiter(FakeClock(), per_s=1, burst=1)
    for number in range(CALLERS_MAX + 10):
        rates.take(str(number))
    assert rates.take(str(CALLERS_MAX + 9)) > 0
    assert rates.take("0") == 0


def test_the_limits_match_the_documentation() -> None:
    assert (REQUESTS_PER_S, REQUESTS_BURST) == (2_000, 4_000)
    assert (PLAYBOOK_BODY_MAX, BODY_MAX) == (1 << 20, 2 << 20)
    assert (HEADERS_S, BODY_S) == (15, 30)


@pytest.mark.parametrize(
    ("path", "limit"),
    [
        ("/playbooks", PLAYBOOK_BODY_MAX),
        ("/playbooks/check", PLAYBOOK_BODY_MAX),
        ("/playbooks/graph", PLAYBOOK_BODY_MAX),
        ("/executions", BODY_MAX),
    ],
)
def test_a_body_over_its_limit_is_rejected(tmp_path: Path, path: str, limit: int) -> None:
    async def work(server: ApiServer) -> None:
        answer = await server.api.ask("POST", path, b'"' + b"x" * (limit - 2) + b'"')
        assert answer.status == 400
        answer = await server.api.ask("POST", path, b'"' + b"x" * limit + b'"')
        assert (answer.status, answer.json["code"]) == (413, "body-too-large")
        assert f"at most {limit:,} bytes" in answer.json["detail"]

        async def pieces() -> object:
            for _ in range(limit // 65_536 + 2):
                yield b"x" * 65_536

        headers = {"Content-Type": "application/json"}
        async with server.api.session.post(server.api.url + path, data=pieces(), headers=headers) as response:
            assert response.status == 413

    serve(tmp_path, work)


def test_responses_have_security_headers(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        id = await server.api.run(NOOP)
        for path in (
            "/health",
            f"/executions/{id}",
            "/nothing",
            "/schema/nothing",
            f"/executions/{id}/stream",
        ):
            answer = await server.api.ask("GET", path)
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert "default-src 'none'" in answer.headers["content-security-policy"]
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert "set-cookie" not in answer.headers
            assert not [name for name in answer.headers if name.startswith("access-control")]
            assert "server" not in answer.headers
            if answer.status >= 400:
                assert answer.headers["content-type"] == "application/problem+json"

    serve(tmp_path, work)


def test_unknown_routes_are_problem_documents(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        for path in ("/nothing", "/executions/a/b/c", "/schema/redoc"):
            answer = await server.api.ask("GET", path)
            assert (answer.status, answer.json["code"]) == (404, "no-such-route")
        answer = await server.api.ask("PATCH", "/executions", {})
        assert (answer.status, answer.json["code"]) == (405, "wrong-method")
        assert "POST" in answer.headers["allow"]
        assert (await server.api.ask("OPTIONS", "/executions")).status == 204

    serve(tmp_path, work)


async def closed(reader: asyncio.StreamReader) -> bool:
    """Whether the connection has ended or was reset."""
    try:
        return await reader.read() == b""
    except ConnectionResetError:
        return True


async def raw(server: ApiServer, sent: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(server.server.host, server.server.port)
    writer.write(sent)
    try:
        return await reader.read(65_536)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


CHUNKED = (
    b"POST /executions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)


def test_headers_are_limited(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        large = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * (HEADERS_BYTES_MAX + 4_096)
        assert (await raw(server, large)).startswith(b"HTTP/1.1 431")
        many = b"".join(b"X-%d: y\r\n" % number for number in range(10_000))
        whole = b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + many + b"\r\n"
        answer = await raw(server, whole)  # the kernel may deliver it in one piece or in several
        assert answer.startswith(b"HTTP/1.1 431")
        assert b'"code":"headers-too-large"' in answer
        for nonsense in (b"nonsense\r\n\r\n", CHUNKED + b"x" * HEADERS_BYTES_MAX * 2 + b"\r\n"):
            assert (await raw(server, nonsense)).startswith(b"HTTP/1.1 400")

    serve(tmp_path, work)


def test_an_incomplete_body_does_not_affect_the_server(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        head = b"POST /executions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
        _, writer = await asyncio.open_connection(server.server.host, server.server.port)
        writer.write(head)
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        assert (await server.api.ask("GET", "/health")).status == 200

    serve(tmp_path, work)


@pytest.mark.parametrize("sent", [b"", b"GET /health HTTP/1.1\r\nHost: loc"])
def test_a_connection_without_headers_is_closed(tmp_path: Path, sent: bytes) -> None:
    async def work(server: ApiServer) -> None:
        assert await raw(server, sent) == b""

    serve(tmp_path, work, ServerSettings(open=True, headers_s=0.05))


def test_a_connection_that_stops_in_a_second_request_is_closed(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        reader, writer = await asyncio.open_connection(server.server.host, server.server.port)
        writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200")
        writer.write(b"GET /hea")
        assert await closed(reader)
        writer.close()

    serve(tmp_path, work, ServerSettings(open=True, headers_s=1.0))


def test_a_slow_body_is_rejected(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        head = b"POST /executions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
        reader, writer = await asyncio.open_connection(server.server.host, server.server.port)
        writer.write(head)
        answer = await reader.readuntil(b"}")
        assert answer.startswith(b"HTTP/1.1 408")
        assert b'"code":"too-slow"' in answer
        writer.close()

    serve(tmp_path, work, ServerSettings(open=True, body_s=0.05))
