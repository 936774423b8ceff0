"""Large results by their digests, whole or in part: only those that the execution's own log names."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Annotated, Final

import structlog
from litestar import get
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import HeaderParameter, PathParameter
from litestar.types import ASGIApp, HTTPResponseBodyEvent, HTTPResponseStartEvent, Receive, Scope, Send

from noetl.errors import Damaged, NotFound, Unavailable
from noetl.output import JSON
from noetl.server.errors import Refused
from noetl.server.log_readers import checked_id
from noetl.server.params import READ, ExecutionId, RoomGiven, refusals
from noetl.views.outputs import content_type

TAGS: Final = ["results"]
log = structlog.get_logger(__name__)
BYTES: Final = "application/octet-stream"

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,60}/[a-z0-9][a-z0-9!#$&^_.+-]{0,60}")
_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
# What a browser may show; everything else, HTML and SVG above all, is only saved.
_SHOWN: Final = frozenset({
    "application/json", "text/plain", "text/csv", "image/png", "image/jpeg", "image/gif", "image/webp",
})  # fmt: skip
_SANDBOX: Final = b"default-src 'none'; sandbox; frame-ancestors 'none'"


@get(
    "/results/{execution_id:str}/{digest:str}",
    opt=READ,
    tags=TAGS,
    summary="A stored result",
    responses={
        200: ResponseSpec(bytes, generate_examples=False, description="All of it", media_type="*/*"),
        206: ResponseSpec(bytes, generate_examples=False, description="A part of it", media_type="*/*"),
        **refusals(404, 416),
    },
)
async def result(
    room: RoomGiven,
    execution_id: ExecutionId,
    digest: Annotated[str, PathParameter(description="sha256 of what is stored, in hex")],
    wanted: Annotated[str | None, HeaderParameter(name="Range", description="one range of bytes")] = None,
    unless: Annotated[str | None, HeaderParameter(name="If-Range")] = None,
) -> ASGIApp:
    """What was packed when it was stored is given unpacked."""
    if not _DIGEST.fullmatch(digest):
        raise NotFound("no result: its name is the sha256 of what is stored, in hex")
    ref = await room.named.find(checked_id(execution_id), digest)
    size = _size(ref)
    if unless is not None and unless != f'"{digest}"':
        wanted = None
    part = _part(wanted, size)
    return _Sending(ref, digest, size, part).over(room.desk.results.read(ref))


def _size(ref: dict[str, JSON]) -> int:
    meta = ref["meta"]
    size = meta.get("unpacked_bytes", meta.get("bytes"))
    if not isinstance(size, int) or size < 0:
        raise NotFound("no result: the reference does not say how large it is")
    return size


def _part(wanted: str | None, size: int) -> range | None:
    """None: all of it, also when several ranges are asked for. Raises Refused."""
    found = _RANGE.fullmatch(wanted.strip()) if wanted is not None else None
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        first, last = max(0, size - int(found[2])), size - 1
    else:
        first, last = int(found[1]), min(int(found[2] or size - 1), size - 1)
    if found[1] and found[2] and int(found[1]) > int(found[2]):
        return None  # it says nothing, so it is not there
    if first >= size or first > last:
        words = f"the result has {size:,} bytes, and the range lies behind them"
        raise Refused(416, "bad-range", words, {"Content-Range": f"bytes */{size}"})
    return range(first, last + 1)


class _Sending:
    """Sends chunks as they come. The last one waits until the store has found that all of them are right."""

    def __init__(self, ref: dict[str, JSON], digest: str, size: int, part: range | None) -> None:
        self._ref = ref
        self._digest = digest
        self._size = size
        self._part = part

    def over(self, chunks: AsyncIterator[bytes]) -> ASGIApp:
        async def respond(_scope: Scope, receive: Receive, send: Send) -> None:
            # What is gone or damaged at its beginning is an answer like any other.
            ahead = await anext(chunks, b"")
            await send(self._start())
            reader = asyncio.ensure_future(_leaving(receive))
            try:
                await self._send(send, ahead, _while(reader, chunks))
            except (Damaged, Unavailable) as error:
                # The answer stays unfinished, so that nobody takes it for whole.
                log.warning("result.broken", digest=self._digest, error=type(error).__name__)
            finally:
                reader.cancel()
                await asyncio.gather(reader, return_exceptions=True)

        return respond

    async def _send(self, send: Send, ahead: bytes, chunks: AsyncGenerator[bytes, None]) -> None:
        part = self._part if self._part is not None else range(self._size)
        place = 0
        async with aclosing(chunks):
            async for chunk in chunks:
                await _send(send, _cut(ahead, place, part), more=True)
                place += len(ahead)
                ahead = chunk
                if place >= part.stop:
                    break
        await _send(send, _cut(ahead, place, part), more=False)

    def _start(self) -> HTTPResponseStartEvent:
        said = content_type(self._ref)
        kind = said if _TYPE.fullmatch(said) else BYTES
        part = self._part
        length = self._size if part is None else len(part)
        headers = [
            (b"content-type", kind.encode() + (b"; charset=utf-8" if kind.startswith("text/") else b"")),
            (b"content-length", b"%d" % length),
            (b"accept-ranges", b"bytes"),
            (b"etag", f'"{self._digest}"'.encode()),
            (b"cache-control", b"private, max-age=31536000, immutable"),
            (b"content-security-policy", _SANDBOX),
        ]
        if kind not in _SHOWN:
            headers.append((b"content-disposition", f'attachment; filename="{self._digest}"'.encode()))
        if part is not None:
            headers.append((b"content-range", b"bytes %d-%d/%d" % (part.start, part.stop - 1, self._size)))
        return {"type": "http.response.start", "status": 200 if part is None else 206, "headers": headers}


def _cut(chunk: bytes, place: int, part: range) -> bytes:
    """Of a chunk that lies there what is wanted."""
    return chunk[max(0, part.start - place) : max(0, part.stop - place)]


async def _leaving(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue


async def _while(reader: asyncio.Future[None], chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Nothing is read on for one who has left; and what was opened is closed, however it ends."""
    try:
        async for chunk in chunks:
            if reader.done():
                return
            yield chunk
    finally:
        close = getattr(chunks, "aclose", None)
        if close is not None:
            await close()


async def _send(send: Send, body: bytes, *, more: bool) -> None:
    message: HTTPResponseBodyEvent = {"type": "http.response.body", "body": body, "more_body": more}
    await send(message)


ROUTES = [result]
