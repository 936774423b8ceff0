"""Compressed responses: all data arrives, and a body that was cut off or damaged is an error."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from typing import Literal

import pytest

from noetl.output import Output
from noetl.tools.http.tool import HttpInput, HttpTool
from tests.unit.tools.calls import call, raw_server

TEXT = b"".join(b"%d," % number for number in range(200_000))  # larger than a piece
RAW = zlib.compressobj(wbits=-15)
ENCODED = {
    "gzip": gzip.compress(TEXT, mtime=0),
    "x-gzip": gzip.compress(TEXT, mtime=0),
    "GZIP": gzip.compress(TEXT[:1_000], mtime=0) + gzip.compress(TEXT[1_000:], mtime=0),
    "deflate": zlib.compress(TEXT),
    "Deflate": RAW.compress(TEXT) + RAW.flush(),
}


def fetch(
    encoding: str, body: bytes, method: Literal["GET", "HEAD"] = "GET", response: Literal["text", "file"] = "text"
) -> Output:
    async def go() -> Output:
        head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        tool = HttpTool()
        try:
            async with raw_server(head + (b"" if method == "HEAD" else body)) as url:
                return await tool.run(HttpInput(url=url, method=method, response=response), call())
        finally:
            await tool.close()

    return asyncio.run(go())


@pytest.mark.parametrize("encoding", ENCODED)
def test_a_compressed_body_is_complete(encoding: str) -> None:
    output = fetch(encoding, ENCODED[encoding])
    assert output.error is None
    assert output.data == TEXT.decode()


@pytest.mark.parametrize("response", ["text", "file"])
@pytest.mark.parametrize("missing", [1, 5, 9, 1_000])
@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_compressed_body_that_was_cut_off_is_an_error(
    encoding: str, missing: int, response: Literal["text", "file"]
) -> None:
    output = fetch(encoding, ENCODED[encoding][:-missing], response=response)
    assert output.error is not None
    assert (output.error.kind, output.error.retryable, output.data) == ("http", True, None)
    assert output.error.message.startswith("the response ended early")


@pytest.mark.parametrize(
    ("encoding", "body", "message"),
    [
        ("gzip", b"hello", "it is not valid gzip, as its Content-Encoding says"),
        ("gzip", ENCODED["gzip"][:50] + b"\xff" * 50, "it is not valid gzip, as its Content-Encoding says"),
        ("deflate", b"\x78hello", "it is not valid deflate, as its Content-Encoding says"),
        ("br", b"hello", "its Content-Encoding br is not supported; it must be one of gzip, deflate"),
    ],
    ids=["no gzip", "damaged gzip", "no deflate", "br"],
)
def test_a_body_that_cannot_be_decompressed_is_an_error(encoding: str, body: bytes, message: str) -> None:
    output = fetch(encoding, body)
    assert output.error is not None
    assert output.error.message.startswith(f"the body cannot be read: {message}")
    assert not output.error.retryable


def test_an_empty_body_needs_no_end() -> None:
    assert fetch("gzip", b"").error is None
    assert fetch("gzip", ENCODED["gzip"], "HEAD").error is None
