"""An HTTP response → an Output: the body within limits, the status, and information for retries."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from noetl.clock import Clock
from noetl.errors import NoetlError
from noetl.json_slices import SLICED_BYTES_MIN, join_large
from noetl.output import JSON, Failure, LargeOutput, Output
from noetl.tool import Call
from noetl.tools.errors import TooLarge
from noetl.tools.http.encoding import body_parts
from noetl.tools.http.request import HttpRequest, safe_url
from noetl.tools.http.tool import FILE_BYTES_MAX
from noetl.tools.payload import (
    MEMORY_BYTES_MAX,
    InvalidJson,
    JsonTooDeep,
    JsonTooLarge,
    base64_of,
    decode_large_json,
    is_json,
    known_charset,
    text_or_base64,
)

if TYPE_CHECKING:
    from aiohttp import ClientResponse

MEMORY_MB = 256  # the default of spec.memory_mb
BODY_BYTES_MAX = 64 * 1024 * 1024  # after decompression
EXCERPT_CHARS_MAX = 300  # of the body of a failed response, in the message
_TAG: Final = re.compile(r"<(script|style|head)\b.*?</\1>|<[^>]*>", re.IGNORECASE | re.DOTALL)
RETRYABLE: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
PHRASES: Final = {status.value: f" {status.phrase}" for status in HTTPStatus}


class ResponseOptions(Struct, frozen=True):
    """How to read the response; the same for all redirects."""

    response: str  # the field `response`
    call: Call
    clock: Clock
    begun: float  # on the monotonic clock


async def read_response(reply: ClientResponse, request: HttpRequest, options: ResponseOptions) -> Output:
    """Only a status of 2xx is a success."""
    success = 200 <= reply.status < 300
    if success and options.response == "file":
        return await _store(reply, request, options)
    limit = _limit(options.call, BODY_BYTES_MAX)
    body = await _read_body(reply, limit)
    own = {"http": _own_part(reply, request, options)}
    if body is None:
        return Output(status="error", error=_too_large(request, limit, "use `response: file`"), own=own)
    try:
        data = await _data(reply, body, options.response if success else "auto", _memory_bytes(options.call))
    except JsonTooLarge as error:
        advice = "increase `spec.memory_mb`, or use `response: file`"
        return Output(status="error", error=TooLarge(f"the body of {request} {error}; {advice}").failure(), own=own)
    except InvalidJson as error:
        failure = Failure(kind="http", message=f"the body of {request} {error}")
        return Output(status="error", data=text_or_base64(body, reply.charset), error=failure, own=own)
    made = Output if len(body) < SLICED_BYTES_MIN else LargeOutput
    if success:
        return made(data=data, own=own)
    return made(status="error", data=data, error=_failure(reply, body, request, options.clock), own=own)


def _limit(call: Call, most: int) -> int:
    """`spec.max_bytes`, but not more than the tool allows."""
    limit = call.spec.get("max_bytes")
    return min(limit, most) if isinstance(limit, int) and limit >= 0 else most


async def _read_body(reply: ClientResponse, limit: int) -> bytes | None:
    """None: the body is larger than the limit; the rest is not read."""
    if (reply.content_length or 0) <= limit:
        if reply.content.is_eof() and "Content-Encoding" not in reply.headers:  # it has arrived with the head
            body = reply.content.read_nowait()
            return body if len(body) <= limit else None
        parts, size = [], 0
        async for part in body_parts(reply):
            size += len(part)
            if size > limit:
                break
            parts.append(part)
        else:
            return await join_large(parts)
    reply.close()
    return None


def _memory_bytes(call: Call) -> int:
    wanted = call.spec.get("memory_mb", MEMORY_MB)
    megabytes = wanted if isinstance(wanted, int) and wanted > 0 else MEMORY_MB
    return min(megabytes * 1024 * 1024, MEMORY_BYTES_MAX)


async def _data(reply: ClientResponse, body: bytes, response: str, memory_bytes: int) -> JSON:
    """Raises InvalidJson if the task requires JSON and the body is something else, or too large as values."""
    if response == "bytes":
        return base64_of(body)
    if not body:
        return None
    if response == "text":
        return body.decode(known_charset(reply.charset), errors="replace")
    if response == "json" or is_json(reply.content_type):
        try:
            return await decode_large_json(body.removeprefix(b"\xef\xbb\xbf"), memory_bytes)
        except (JsonTooDeep, JsonTooLarge):
            raise
        except InvalidJson:
            if response == "json":
                raise
    return text_or_base64(body, reply.charset)


def _own_part(reply: ClientResponse, request: HttpRequest, options: ResponseOptions) -> dict[str, JSON]:
    headers = _headers(reply.headers)
    return {
        "status": reply.status,
        "headers": headers,
        "request_id": headers.get("x-request-id"),
        "elapsed_ms": round((options.clock.monotonic() - options.begun) * 1000, 3),
        "url": safe_url(request.url),
    }


def _headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Names in lower case; values of a repeated header are joined with a comma."""
    found: dict[str, str] = {}
    for name, value in headers.items():
        text = value if value.isascii() else value.encode(errors="surrogateescape").decode(errors="replace")
        key = name.lower()
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


def _failure(reply: ClientResponse, body: bytes, request: HttpRequest, clock: Clock) -> Failure:
    status = reply.status
    details: dict[str, JSON] = {"status": status}
    wait = _retry_after(reply.headers.get("Retry-After", ""), clock)
    if wait is not None:
        details["retry_after_s"] = wait
    message = f"HTTP {status}{PHRASES.get(status, '')} from {request}{_excerpt(reply, body)}"
    return Failure(kind="http", message=message, retryable=status in RETRYABLE, details=details)


def _excerpt(reply: ClientResponse, body: bytes) -> str:
    """The beginning of the body on one line, after a colon; empty if the body is not text."""
    if not isinstance(text_or_base64(body, reply.charset), str):
        return ""
    text = body[: 8 * EXCERPT_CHARS_MAX].decode(known_charset(reply.charset), errors="ignore")
    if "html" in reply.content_type:
        text = _TAG.sub(" ", text)
    text = " ".join(text.split())
    # The mask of secrets recognizes one that is cut off before an ellipsis.
    cut = f"{text[:EXCERPT_CHARS_MAX]}…" if len(text) > EXCERPT_CHARS_MAX else text
    return f": {cut}" if cut else ""


def _retry_after(text: str, clock: Clock) -> float | None:
    """The header is a number of seconds or a date; None: it is missing or invalid."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at
    return round(max(0.0, (at - clock.now()).total_seconds()), 3)


def _too_large(request: HttpRequest, limit: int, advice: str) -> Failure:
    name = {BODY_BYTES_MAX: "BODY_BYTES_MAX", FILE_BYTES_MAX: "FILE_BYTES_MAX"}.get(limit, "spec.max_bytes")
    message = f"the body of {request} is larger than the limit ({name}: {limit:,} bytes); {advice}"
    return TooLarge(message).failure()


async def _store(reply: ClientResponse, request: HttpRequest, options: ResponseOptions) -> Output:
    """Stream the decompressed body to the result store, up to the limit."""
    call, limit = options.call, _limit(options.call, FILE_BYTES_MAX)
    content_type = reply.content_type if "Content-Type" in reply.headers else "application/octet-stream"
    ref: dict[str, JSON] | None = None
    failure: Failure | None = None
    try:
        ref = await call.results.write(call.execution_id, _chunks(reply, limit, call), content_type)
    except TooLarge:
        reply.close()
        failure = _too_large(request, limit, "fetch it in parts or increase the limit")
    except NoetlError as error:
        failure = Failure(kind="reference", message=f"the body cannot be stored: {error}", retryable=True)
    own = {"http": _own_part(reply, request, options)}
    if failure is not None:
        return Output(status="error", error=failure, own=own)
    return Output(ref=ref, own=own)


async def _chunks(reply: ClientResponse, limit: int, call: Call) -> AsyncIterator[bytes]:
    compressed = "Content-Encoding" in reply.headers  # Content-Length is then the compressed size
    total = None if compressed else reply.content_length
    if (total or 0) > limit:
        raise TooLarge
    size = 0
    async for chunk in body_parts(reply):
        size += len(chunk)
        if size > limit:
            raise TooLarge
        yield chunk
        call.progress(size, total)
