"""Large results by their digests, whole or in part. A result is served only if the log names it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Annotated, Final

from litestar import get
from litestar.params import HeaderParameter, PathParameter
from litestar.types import ASGIApp, HTTPResponseStartEvent, Receive, Scope, Send

from noetl.errors import Damaged, NotFound, Unavailable
from noetl.output import JSON
from noetl.server.errors import ApiError
from noetl.server.log_readers import checked_id
from noetl.server.params import OF_EXECUTION, READ, ContextParam, ExecutionId, response, route
from noetl.server.subscriptions import close_source, disconnected, send_body
from noetl.telemetry.logs import get_logger
from noetl.views.documents import content_type

log = get_logger("api")
BYTES: Final = "application/octet-stream"

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,60}/[a-z0-9][a-z0-9!#$&^_.+-]{0,60}")
_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
# A browser may display these types. All others are downloads, because HTML and SVG can contain scripts.
_DISPLAYABLE: Final = frozenset({
    "application/json", "text/plain", "text/csv", "image/png", "image/jpeg", "image/gif", "image/webp",
})  # fmt: skip
SANDBOX: Final = b"default-src 'none'; sandbox; frame-ancestors 'none'"
_RESULT: Final = {200: response(bytes, "The whole result", "*/*"), 206: response(bytes, "A part of the result", "*/*")}


@route(
    get,
    READ | OF_EXECUTION,
    "results",
    "/results/{execution_id:str}/{digest:str}",
    "A stored result",
    404,
    416,
    success=_RESULT,
)
async def result(
    context: ContextParam,
    execution_id: ExecutionId,
    digest: Annotated[str, PathParameter(description="sha256 of the stored result, in hex")],
    requested: Annotated[str | None, HeaderParameter(name="Range", description="a single range of bytes")] = None,
    if_range: Annotated[str | None, HeaderParameter(name="If-Range")] = None,
) -> ASGIApp:
    """A result that is stored compressed is sent uncompressed."""
    if not _DIGEST.fullmatch(digest):
        raise NotFound("no such result: the digest is the sha256 of the stored result, in hex")
    ref = await context.result_index.find(checked_id(execution_id), digest)
    size = stored_size(ref)
    if if_range is not None and if_range != f'"{digest}"':
        requested = None
    part = _part(requested, size)
    stored = StoredResponse(_start(ref, digest, size, part), digest, part if part is not None else range(size))
    return stored.send(context.services.results.read(ref))


def stored_size(ref: dict[str, JSON]) -> int:
    meta = ref["meta"]
    size = meta.get("unpacked_bytes", meta.get("bytes"))
    if not isinstance(size, int) or size < 0:
        raise NotFound("no such result: its ref has no size")
    return size


def _part(requested: str | None, size: int) -> range | None:
    """None: the whole result, even when several ranges are requested. Raises ApiError."""
    found = _RANGE.fullmatch(requested.strip()) if requested is not None else None
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        first, last = max(0, size - int(found[2])), size - 1
    else:
        first, last = int(found[1]), min(int(found[2] or size - 1), size - 1)
    if found[1] and found[2] and int(found[1]) > int(found[2]):
        return None  # an invalid range is ignored
    if first >= size or first > last:
        detail = f"the range begins after the {size:,} bytes of the result"
        raise ApiError(416, "bad-range", detail, {"Content-Range": f"bytes */{size}"})
    return range(first, last + 1)


class StoredResponse:
    """Sends chunks as they are read. The last one is held back until the store has verified the digest."""

    def __init__(self, start: HTTPResponseStartEvent, digest: str, part: range) -> None:
        self._start = start
        self._digest = digest
        self._part = part

    def send(self, chunks: AsyncIterator[bytes]) -> ASGIApp:
        async def respond(_scope: Scope, receive: Receive, send: Send) -> None:
            # An error before the first chunk becomes an ordinary error response.
            ahead = await anext(chunks, b"")
            await send(self._start)
            disconnect = asyncio.ensure_future(disconnected(receive))
            try:
                await self._send(send, ahead, _until(disconnect, chunks))
            except (Damaged, Unavailable) as error:
                # The response stays incomplete, so that the client notices the error.
                log.warning("result.broken", digest=self._digest, error=type(error).__name__)
            finally:
                disconnect.cancel()
                await asyncio.gather(disconnect, return_exceptions=True)

        return respond

    async def _send(self, send: Send, ahead: bytes, chunks: AsyncGenerator[bytes, None]) -> None:
        part, place = self._part, 0
        async with aclosing(chunks):
            async for chunk in chunks:
                await send_body(send, _cut(ahead, place, part), more=True)
                place += len(ahead)
                ahead = chunk
                if place >= part.stop:
                    break
        await send_body(send, _cut(ahead, place, part), more=False)


def stored_type(ref: dict[str, JSON]) -> str:
    """The content type of a stored result; bytes, if it has no valid one."""
    declared = content_type(ref)
    kind = declared if _TYPE.fullmatch(declared) else BYTES
    return kind + ("; charset=utf-8" if kind.startswith("text/") else "")


def _start(ref: dict[str, JSON], digest: str, size: int, part: range | None) -> HTTPResponseStartEvent:
    kind = stored_type(ref)
    headers = [
        (b"content-type", kind.encode()),
        (b"content-length", b"%d" % (size if part is None else len(part))),
        (b"accept-ranges", b"bytes"),
        (b"etag", f'"{digest}"'.encode()),
        (b"cache-control", b"private, max-age=31536000, immutable"),
        (b"content-security-policy", SANDBOX),
    ]
    if kind.partition(";")[0] not in _DISPLAYABLE:
        headers.append((b"content-disposition", f'attachment; filename="{digest}"'.encode()))
    if part is not None:
        headers.append((b"content-range", b"bytes %d-%d/%d" % (part.start, part.stop - 1, size)))
    return {"type": "http.response.start", "status": 200 if part is None else 206, "headers": headers}


def _cut(chunk: bytes, place: int, part: range) -> bytes:
    """The bytes of a chunk at `place` that belong to the part."""
    return chunk[max(0, part.start - place) : max(0, part.stop - place)]


async def _until(disconnect: asyncio.Future[None], chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """The chunks until the client disconnects. The source is closed in any case."""
    try:
        async for chunk in chunks:
            if disconnect.done():
                return
            yield chunk
    finally:
        await close_source(chunks)


ROUTES = [result]
