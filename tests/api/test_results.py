"""Large results over HTTP: complete and in ranges, only if the log names them, and safe for browsers."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.api.servers import NOOP, ApiServer, serve
from tests.playbooks import HEAD

LARGE = HEAD + (
    'workflow:\n- step: start\n  tool: {kind: python, code: "def main(): return [str(n) for n in range(50_000)]"}\n'
)


async def stored(server: ApiServer, text: str = LARGE) -> tuple[str, dict[str, Any]]:
    id = await server.api.run(text)
    return id, (await server.api.get(f"/executions/{id}"))["output"]["ref"]


def naming(ref: dict[str, Any]) -> dict[str, Any]:
    """A workload with the ref of a result, so that the log contains it."""
    return {"given_ref": ref}


def test_a_result_is_read_completely(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        id, ref = await stored(server)
        digest = ref["meta"]["sha256"]
        answer = await server.api.ask("GET", f"/results/{id}/{digest}")
        assert answer.status == 200
        assert hashlib.sha256(answer.body).hexdigest() == digest
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["etag"] == f'"{digest}"'
        assert answer.headers["accept-ranges"] == "bytes"
        assert answer.headers["content-length"] == str(ref["meta"]["bytes"])
        assert "content-disposition" not in answer.headers

    serve(tmp_path, work)


def test_a_result_is_read_in_parts(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        id, ref = await stored(server)
        path, size = f"/results/{id}/{ref['meta']['sha256']}", ref["meta"]["bytes"]
        whole = (await server.api.ask("GET", path)).body
        assert size > 300_000  # more than one chunk
        for said, first, last in (
            ("bytes=0-9", 0, 9),
            ("bytes=5-5", 5, 5),
            ("bytes=262140-262150", 262_140, 262_150),
            (f"bytes={size - 3}-", size - 3, size - 1),
            ("bytes=-4", size - 4, size - 1),
            (f"bytes=10-{size * 2}", 10, size - 1),
            (f"bytes=-{size * 2}", 0, size - 1),
        ):
            answer = await server.api.ask("GET", path, headers={"Range": said})
            assert (answer.status, answer.body) == (206, whole[first : last + 1]), said
            assert answer.headers["content-range"] == f"bytes {first}-{last}/{size}"
        for said in (f"bytes={size}-", f"bytes={size + 5}-{size + 9}", "bytes=-0"):
            answer = await server.api.ask("GET", path, headers={"Range": said})
            assert (answer.status, answer.json["code"]) == (416, "bad-range")
            assert answer.headers["content-range"] == f"bytes */{size}"
        for said in ("bytes=1-2,4-5", "bytes=9-3", "lines=1-2", "bytes=-", "bytes=a-b"):
            answer = await server.api.ask("GET", path, headers={"Range": said})
            assert (answer.status, len(answer.body)) == (200, size), said
        other = {"Range": "bytes=0-1", "If-Range": '"another"'}
        assert (await server.api.ask("GET", path, headers=other)).status == 200
        same = {"Range": "bytes=0-1", "If-Range": f'"{ref["meta"]["sha256"]}"'}
        assert (await server.api.ask("GET", path, headers=same)).status == 206

    serve(tmp_path, work)


def test_only_results_in_the_log_are_served(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        id, ref = await stored(server)
        other = await server.api.run(NOOP)
        hidden = await server.services.results.put(other, b"no log names it", "text/plain")
        for execution, digest in (
            (other, ref["meta"]["sha256"]),
            (other, hidden["meta"]["sha256"]),
            (id, "0" * 64),
            (id, "nonsense"),
            (id, ref["meta"]["sha256"].upper()),
            ("00000000-0000-7000-8000-000000000000", ref["meta"]["sha256"]),
            ("..", ref["meta"]["sha256"]),
        ):
            answer = await server.api.ask("GET", f"/results/{execution}/{digest}")
            assert answer.status == 404, (execution, digest)

    serve(tmp_path, work)


def test_types_with_scripts_are_downloads(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        for kind, sent, shown in (
            ("text/html", "text/html; charset=utf-8", False),
            ("image/svg+xml", "image/svg+xml", False),
            ("application/xhtml+xml", "application/xhtml+xml", False),
            ("text/html; charset=x\r\nX-Evil: 1", "text/html; charset=utf-8", False),
            ("nonsense", "application/octet-stream", False),
            ("image/png", "image/png", True),
            ("text/plain", "text/plain; charset=utf-8", True),
        ):
            body = f"<script>alert({kind!r})</script>".encode()
            ref = await server.services.results.put("00000000-0000-7000-8000-000000000001", body, kind)
            id = await server.api.run(NOOP, naming(ref))
            answer = await server.api.ask("GET", f"/results/{id}/{ref['meta']['sha256']}")
            assert (answer.status, answer.body) == (200, body)
            assert answer.headers["content-type"] == sent
            assert ("content-disposition" not in answer.headers) is shown
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert "sandbox" in answer.headers["content-security-policy"]
            assert "x-evil" not in answer.headers

    serve(tmp_path, work)


def test_a_missing_or_damaged_result_is_an_error(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        id, ref = await stored(server)
        path = f"/results/{id}/{ref['meta']['sha256']}"
        file = tmp_path / "noetl.db-results" / id / ref["meta"]["sha256"]
        body = file.read_bytes()
        file.chmod(0o600)
        file.write_bytes(body[:-1] + b"!")
        with pytest.raises(aiohttp.ClientPayloadError):  # its last bytes are not sent
            await server.api.ask("GET", path)
        file.unlink()
        answer = await server.api.ask("GET", path)
        assert (answer.status, answer.json["code"]) == (404, "not-found")

    serve(tmp_path, work)


def test_a_large_result_is_never_in_memory_completely(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        async def chunks() -> AsyncIterator[bytes]:
            for number in range(64):
                yield bytes([number]) * (1 << 20)

        ref = await server.services.results.write("00000000-0000-7000-8000-000000000001", chunks(), "application/zip")
        id = await server.api.run(NOOP, naming(ref))
        url = f"{server.server.url}/results/{id}/{ref['meta']['sha256']}"
        digest, size = hashlib.sha256(), 0
        async with server.api.session.get(url) as response:
            async for chunk in response.content.iter_chunked(1 << 20):
                digest.update(chunk)
                size += len(chunk)
        assert (size, digest.hexdigest()) == (64 << 20, ref["meta"]["sha256"])

    serve(tmp_path, work)


def test_a_compressed_result_is_sent_uncompressed(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        body = b"0123456789" * 100_000
        ref = await server.services.results.put(
            "00000000-0000-7000-8000-000000000001", zlib.compress(body, wbits=31), "text/plain"
        )
        ref["meta"] |= {"encoding": "gzip", "unpacked_bytes": len(body)}
        id = await server.api.run(NOOP, naming(ref))
        path = f"/results/{id}/{ref['meta']['sha256']}"
        assert (await server.api.ask("GET", path)).body == body
        part = await server.api.ask("GET", path, headers={"Range": "bytes=999995-"})
        assert (part.status, part.body) == (206, b"56789")

    serve(tmp_path, work)
