"""The UI as the server serves it: files, pages, caching headers, and nothing outside of its folder."""

from __future__ import annotations

import asyncio
import gzip
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from noetl.server.services import ServerSettings
from tests.api.servers import ApiServer, serve

PAGE = b"<!doctype html><title>NoETL</title>"
SCRIPT = b"console.log('hello')\n" * 100


def built(folder: Path) -> Path:
    """A bundle as the build creates it, and a file next to it that must not be served."""
    ui = folder / "static"
    (ui / "assets").mkdir(parents=True)
    (ui / "index.html").write_bytes(PAGE)
    (ui / "theme.js").write_bytes(b"1\n")
    (ui / "favicon.svg").write_bytes(b"<svg/>")
    (ui / "assets" / "index-d1g3st.js").write_bytes(SCRIPT)
    (ui / "assets" / "index-d1g3st.js.gz").write_bytes(gzip.compress(SCRIPT))
    (ui / "assets" / "index-d1g3st.js.br").write_bytes(b"brotli")
    (folder / "secret.txt").write_text("secret")
    return ui


def serve_ui(folder: Path, work: Callable[[ApiServer], Awaitable[None]], *, ask: bool = False) -> None:
    serve(folder, work, ServerSettings(open=not ask, ui=built(folder)))


def test_the_root_redirects_to_the_ui(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        answer = await server.api.ask("GET", "/")
        assert (answer.status, answer.headers["location"], answer.body) == (307, "/ui/", b"")

    serve_ui(tmp_path, work)


@pytest.mark.parametrize("place", ["/ui", "/ui/", "/ui/executions", "/ui/playbooks/one?path=a/b.c", "/ui/index.html"])
def test_every_page_of_the_ui_is_index_html(tmp_path: Path, place: str) -> None:
    async def work(server: ApiServer) -> None:
        answer = await server.api.ask("GET", place)
        assert (answer.status, answer.body) == (200, PAGE)
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert answer.headers["cache-control"] == "no-cache"

    serve_ui(tmp_path, work)


def test_the_ui_needs_no_token(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        assert (await server.api.ask("GET", "/ui/")).status == 200
        assert (await server.api.ask("GET", "/executions")).status == 401

    serve_ui(tmp_path, work, ask=True)


def test_the_ui_loads_nothing_from_other_sites(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        headers = (await server.api.ask("GET", "/ui/")).headers
        rules = dict(each.strip().split(" ", 1) for each in headers["content-security-policy"].split(";"))
        assert rules["default-src"] == rules["frame-ancestors"] == rules["base-uri"] == "'none'"
        assert rules["script-src"] == rules["connect-src"] == rules["worker-src"] == "'self'"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-opener-policy"] == "same-origin"

    serve_ui(tmp_path, work)


def test_files_with_a_digest_are_cached_forever(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        answer = await server.api.ask("GET", "/ui/assets/index-d1g3st.js", headers={"Accept-Encoding": "identity"})
        assert (answer.status, answer.body) == (200, SCRIPT)
        assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        theme = await server.api.ask("GET", "/ui/theme.js")
        assert theme.headers["cache-control"] == "no-cache"

    serve_ui(tmp_path, work)


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("gzip, deflate, br", "br"),
        ("gzip", "gzip"),
        ("br;q=0, gzip;q=0.5", "gzip"),
        ("br; q=0.0", None),
        ("identity", None),
        ("", None),
    ],
)
def test_files_are_sent_in_an_accepted_encoding(tmp_path: Path, accepted: str, encoding: str | None) -> None:
    async def work(server: ApiServer) -> None:
        # Raw, because a client library would decompress the body.
        reader, writer = await asyncio.open_connection(server.server.host, server.server.port)
        asked = f"GET /ui/assets/index-d1g3st.js HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: {accepted}\r\n"
        writer.write(f"{asked}Connection: close\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        await writer.wait_closed()
        lines = head.decode().lower().split("\r\n")
        said = [each for each in lines if each.startswith("content-encoding")]
        assert said == ([f"content-encoding: {encoding}"] if encoding else [])
        assert "vary: accept-encoding" in lines
        assert (gzip.decompress(body) if encoding == "gzip" else body) == (b"brotli" if encoding == "br" else SCRIPT)

    serve_ui(tmp_path, work)


def test_unchanged_files_are_not_sent_again(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        tag = (await server.api.ask("GET", "/ui/")).headers["etag"]
        again = await server.api.ask("GET", "/ui/executions", headers={"If-None-Match": f"W/{tag}"})
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
        other = await server.api.ask("GET", "/ui/", headers={"If-None-Match": '"of-yesterday"'})
        assert other.status == 200

    serve_ui(tmp_path, work)


def test_head_returns_the_headers_of_get(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        answer = await server.api.ask("HEAD", "/ui/")
        assert (answer.status, answer.body) == (200, b"")
        assert answer.headers["content-length"] == str(len(PAGE))

    serve_ui(tmp_path, work)


@pytest.mark.parametrize("path", ["/ui/assets/index-0ld.js", "/ui/none.css"])
def test_a_missing_file_is_not_a_page(tmp_path: Path, path: str) -> None:
    async def work(server: ApiServer) -> None:
        answer = await server.api.ask("GET", path)
        assert (answer.status, answer.json["code"]) == (404, "not-found")

    serve_ui(tmp_path, work)


@pytest.mark.parametrize(
    "path",
    [
        "/ui/../secret.txt",
        "/ui/%2e%2e/secret.txt",
        "/ui/..%2fsecret.txt",
        "/ui/assets/..%2f..%2fsecret.txt",
        "/ui/..%5csecret.txt",
        "/ui//etc/passwd",
        "/ui/%00",
        "/ui/....//secret.txt",
    ],
)
def test_no_path_leads_outside_of_the_ui(tmp_path: Path, path: str) -> None:
    async def work(server: ApiServer) -> None:
        # Over a raw socket, because client libraries normalize such paths.
        reader, writer = await asyncio.open_connection(server.server.host, server.server.port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        assert b"secret\r\n" not in answer
        assert b"root:" not in answer
        assert answer.startswith((b"HTTP/1.1 404", b"HTTP/1.1 200")), answer[:40]
        assert answer.endswith(PAGE) or b"application/problem+json" in answer

    serve_ui(tmp_path, work)


def test_without_a_bundle_a_page_explains_the_build(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        answer = await server.api.ask("GET", "/ui/executions")
        assert answer.status == 503
        assert b"make ui" in answer.body
        built(tmp_path)
        assert (await server.api.ask("GET", "/ui/executions")).body == PAGE

    serve(tmp_path, work, ServerSettings(open=True, ui=tmp_path / "static"))


def test_a_new_bundle_is_served_at_once(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        assert (await server.api.ask("GET", "/ui/")).body == PAGE
        index = tmp_path / "static" / "index.html"
        index.write_bytes(b"<!doctype html><title>newer</title>")
        os.utime(index, ns=(1, 1))
        assert b"newer" in (await server.api.ask("GET", "/ui/")).body

    serve_ui(tmp_path, work)


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/ui/executions/1", {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 200),
        ("/", {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 307),
        ("/ui/", {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, 403),
        ("/ui/theme.js", {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}, 403),
        ("/executions", {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 403),
    ],
)
def test_another_site_may_link_to_the_ui_only(tmp_path: Path, path: str, headers: dict[str, str], status: int) -> None:
    async def work(server: ApiServer) -> None:
        asked = {"Sec-Fetch-Site": "cross-site", **headers}
        assert (await server.api.ask("GET", path, headers=asked)).status == status

    serve_ui(tmp_path, work)


def test_the_schema_of_playbooks_contains_the_tools_of_the_server(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        schema = await server.api.get("/playbooks/schema")
        assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        assert '"const":"python"' in (await server.api.ask("GET", "/playbooks/schema")).body.decode()

    serve_ui(tmp_path, work)


def test_the_language_on_one_page_needs_no_token(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        answer = await server.api.ask("GET", "/llms.txt")
        assert answer.status == 200
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert answer.body.startswith(b"# NoETL\n")
        assert b"- **http**: " in answer.body

    serve_ui(tmp_path, work, ask=True)
