"""An answer of a server → an Output: the body within limits, the status, and what a retry should know."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple

from noetl.clock import Clock
from noetl.errors import NoetlError
from noetl.output import JSON, Failure, Output
from noetl.tool import Call
from noetl.tools.http.request import Request, shown
from noetl.tools.http.tool import FILE_BYTES_MAX
from noetl.tools.json_values import (
    NotPlain,
    TooDeep,
    in_base64,
    is_json,
    known_charset,
    parsed,
    text_or_base64,
)

if TYPE_CHECKING:
    from aiohttp import ClientResponse

BODY_BYTES_MAX = 64 * 1024 * 1024  # after decompression
RETRYABLE: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
PHRASES: Final = {status.value: f" {status.phrase}" for status in HTTPStatus}


class ResponseOptions(NamedTuple):
    """What stays the same over all redirects."""

    response: str  # how the body is to be read
    call: Call
    clock: Clock
    begun: float  # on the clock's pulse


async def answered(reply: ClientResponse, request: Request, asked: ResponseOptions) -> Output:
    """The whole answer, read and judged: only a status of 2xx is well."""
    well = 200 <= reply.status < 300
    if well and asked.response == "file":
        return await _stored(reply, request, asked)
    limit = _limit(asked.call, BODY_BYTES_MAX)
    body = await _body(reply, limit)
    own = {"http": _own(reply, request, asked)}
    if body is None:
        return Output(status="error", error=_too_large(request, limit, "use response: file"), own=own)
    try:
        data = _data(reply, body, asked.response if well else "auto")
    except NotPlain as trouble:
        failure = Failure(kind="http", message=f"the body of {request} {trouble}")
        return Output(status="error", data=text_or_base64(body, reply.charset), error=failure, own=own)
    if well:
        return Output(data=data, own=own)
    return Output(status="error", data=data, error=_failure(reply, request, asked.clock), own=own)


def _limit(call: Call, most: int) -> int:
    """`spec.max_bytes`, and never more than the tool itself allows."""
    said = call.spec.get("max_bytes")
    return min(said, most) if isinstance(said, int) and said >= 0 else most


async def _body(reply: ClientResponse, limit: int) -> bytes | None:
    """None: it is larger than the limit, and nobody reads the rest."""
    if (reply.content_length or 0) <= limit:
        parts, size = [], 0
        while part := await reply.content.readany():
            size += len(part)
            if size > limit:
                break
            parts.append(part)
        else:
            return parts[0] if len(parts) == 1 else b"".join(parts)
    reply.close()
    return None


def _data(reply: ClientResponse, body: bytes, response: str) -> JSON:
    """Raises NotPlain when JSON was asked for and it is none."""
    if response == "bytes":
        return in_base64(body)
    if not body:
        return None
    if response == "text":
        return body.decode(known_charset(reply.charset), errors="replace")
    if response == "json":
        return parsed(body.removeprefix(b"\xef\xbb\xbf"))
    if is_json(reply.content_type):
        try:
            return parsed(body.removeprefix(b"\xef\xbb\xbf"))
        except TooDeep:
            raise
        except NotPlain:
            return text_or_base64(body, reply.charset)
    return text_or_base64(body, reply.charset)


def _own(reply: ClientResponse, request: Request, asked: ResponseOptions) -> dict[str, JSON]:
    headers = _headers(reply.headers)
    return {
        "status": reply.status,
        "headers": headers,
        "request_id": headers.get("x-request-id"),
        "elapsed_ms": round((asked.clock.monotonic() - asked.begun) * 1000, 3),
        "url": shown(request.url),
    }


def _headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Names in lower case; what comes more than once is joined by a comma."""
    found: dict[str, str] = {}
    for name, value in headers.items():
        text = value if value.isascii() else value.encode(errors="surrogateescape").decode(errors="replace")
        key = name.lower()
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


def _failure(reply: ClientResponse, request: Request, clock: Clock) -> Failure:
    status = reply.status
    details: dict[str, JSON] = {"status": status}
    wait = _retry_after(reply.headers.get("Retry-After", ""), clock)
    if wait is not None:
        details["retry_after_s"] = wait
    message = f"HTTP {status}{PHRASES.get(status, '')} from {request}"
    return Failure(kind="http", message=message, retryable=status in RETRYABLE, details=details)


def _retry_after(text: str, clock: Clock) -> float | None:
    """Seconds, or until an instant; None: the header is not there, or says neither."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at
    return round(max(0.0, (at - clock.now()).total_seconds()), 3)


def _too_large(request: Request, limit: int, advice: str) -> Failure:
    name = {BODY_BYTES_MAX: "BODY_BYTES_MAX", FILE_BYTES_MAX: "FILE_BYTES_MAX"}.get(limit, "spec.max_bytes")
    message = f"the body of {request} is larger than the limit ({name}: {limit:,} bytes); {advice}"
    return Failure(kind="payload-too-large", message=message)


class _TooLarge(Exception):
    """More came than may come."""


async def _stored(reply: ClientResponse, request: Request, asked: ResponseOptions) -> Output:
    """The body on its way to the result store, a piece at a time: unpacked, and no more than is allowed."""
    call, limit = asked.call, _limit(asked.call, FILE_BYTES_MAX)
    content_type = reply.content_type if "Content-Type" in reply.headers else "application/octet-stream"
    ref: dict[str, JSON] | None = None
    failure: Failure | None = None
    try:
        ref = await call.results.write(call.execution_id, _pieces(reply, limit, call), content_type)
    except _TooLarge:
        reply.close()
        failure = _too_large(request, limit, "fetch it in parts, or allow more")
    except NoetlError as error:
        failure = Failure(kind="reference", message=f"the body can not be stored: {error}", retryable=True)
    own = {"http": _own(reply, request, asked)}
    if failure is not None:
        return Output(status="error", error=failure, own=own)
    return Output(ref=ref, own=own)


async def _pieces(reply: ClientResponse, limit: int, call: Call) -> AsyncIterator[bytes]:
    packed = "Content-Encoding" in reply.headers  # then its length is that of something else
    total = None if packed else reply.content_length
    if (total or 0) > limit:
        raise _TooLarge
    size = 0
    while piece := await reply.content.readany():
        size += len(piece)
        if size > limit:
            raise _TooLarge
        yield piece
        call.progress(size, total)
