"""The fields of an `http` task → a request, and the request that follows a redirect."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias
from urllib.parse import quote, unquote, urlencode

import msgspec
from yarl import URL

from noetl.errors import NoetlError
from noetl.ids import trace_id
from noetl.output import JSON
from noetl.secret import SHOWN
from noetl.tool import Call
from noetl.tools.errors import InvalidInput

if TYPE_CHECKING:
    from noetl.tools.http.tool import HttpInput

WITH_EFFECT: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
RESERVED_HEADERS: Final = frozenset({"content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer"})
BODY_HEADERS: Final = frozenset({"content-type", "content-encoding", "content-language", "content-location"})
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_SECRET = re.compile(r"auth|cookie|token|secret|passw|session|signature|credential|(?<!idempotency-)key", re.I)
_FOR_ANY_ORIGIN = re.compile(r"accept|content-.+", re.I)
_SECRET_PARAM = re.compile(rf"{_SECRET.pattern}|pwd|jwt|otp|(^|[_-])(sig|pass|pin|code|k)$", re.I)
_PARAM_CHARS_MAX = 60  # a longer value is not shown: it may be a token under any name
_QUERY_CHARS_MAX = 300  # of a query in a message


class BodyNotSent(Exception):
    """A redirect to another origin would repeat the body there."""


class MultipartPart(NamedTuple):
    """One part of a multipart body."""

    name: str
    value: bytes
    filename: str | None
    content_type: str | None


Body: TypeAlias = bytes | tuple[MultipartPart, ...] | None


class HttpRequest(NamedTuple):
    method: str
    url: URL
    headers: dict[str, str]
    body: Body

    def __str__(self) -> str:
        """For messages."""
        query = _shown_query(self.url.raw_query_string)
        return f"{self.method} {safe_url(self.url)}{query}"


def _shown_query(query: str) -> str:
    """The query with `?`, without values that may be secrets. The worker masks those of the keychain."""
    parts = []
    for part in query.split("&") if query else ():
        name, sign, value = part.partition("=")
        if not sign:
            continue  # without a name, nothing says whether it is a secret
        if _SECRET_PARAM.search(unquote(name)):
            value = SHOWN
        parts.append(f"{name[:_PARAM_CHARS_MAX]}={value if len(value) <= _PARAM_CHARS_MAX else '…'}")
    text = "&".join(parts)
    return f"?{text[:_QUERY_CHARS_MAX]}{'…' if len(text) > _QUERY_CHARS_MAX else ''}" if text else ""


def safe_url(url: URL) -> str:
    """The URL without user, password, query and fragment, which may contain secrets."""
    return f"{url.scheme}://{url.host_port_subcomponent}{url.raw_path}"


async def build_request(input: HttpInput, call: Call) -> HttpRequest:
    """Raises InvalidInput; its message contains no value of the task."""
    url = parse_url(input.url)
    if input.params:
        url = url.extend_query(list(_pairs("params", input.params)))
    headers = dict(_headers(input.headers)) if input.headers else {}
    if len(call.execution_id) == 36 and not any(name.lower() == "traceparent" for name in headers):
        headers["traceparent"] = _trace_context(call)
    if input.method == "GET" and not _has_body(input):  # most requests: they need nothing else
        return HttpRequest("GET", url, headers, None)
    body, content_type = await _body(input, call)
    names = {name.lower() for name in headers}
    if content_type is not None and "content-type" not in names:
        headers["Content-Type"] = content_type
    if input.method in WITH_EFFECT and "idempotency-key" not in names:
        headers["Idempotency-Key"] = quote(call.key, safe="/#[]>:,@!$&'()*+=")
    return HttpRequest(input.method, url, headers, body)


def parse_url(text: str) -> URL:
    """Raises InvalidInput."""
    try:
        url = URL(text)
        host = url.host
        url.port  # noqa: B018  # raises ValueError for an invalid port
    except (ValueError, TypeError) as error:
        raise InvalidInput("`url` is not a valid URL") from error
    if url.scheme not in ("http", "https"):
        other = f', not with "{url.scheme[:20]}"' if url.scheme else ""
        raise InvalidInput(f"`url` must begin with http:// or https://{other}")
    if not host:
        raise InvalidInput("`url` contains no host name")
    return url


def redirect_request(request: HttpRequest, status: int, location: str) -> HttpRequest:
    """The request after a redirect. Raises InvalidInput, and BodyNotSent.

    Another origin receives neither the body nor headers of the author: any of them may be meant for the first one.
    """
    try:
        url = parse_url(str(request.url.join(URL(location))))
    except ValueError as error:
        raise InvalidInput("`url` is not a valid URL") from error
    method, headers, body = request.method, request.headers, request.body
    if (status == 303 and method != "HEAD") or (status in (301, 302) and method == "POST"):
        method, body = "GET", None
        dropped = BODY_HEADERS | {"idempotency-key"}
        headers = {name: value for name, value in headers.items() if name.lower() not in dropped}
    if url.origin() != request.url.origin():
        if body is not None:
            raise BodyNotSent(
                f"{request} redirects to {safe_url(url)}, another origin, which does not receive the body"
            )
        headers = {name: value for name, value in headers.items() if _FOR_ANY_ORIGIN.fullmatch(name)}
    return HttpRequest(method, url, headers, body)


def _pairs(field: str, values: dict[str, JSON]) -> Iterator[tuple[str, str]]:
    """Null values are omitted; a list repeats the name."""
    for name, value in values.items():
        for each in value if isinstance(value, list) else [value]:
            if each is not None:
                yield name, _text(each, f"{field}.{name}")


def _text(value: JSON, label: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise InvalidInput(
        f"`{label}` is a {'mapping' if isinstance(value, dict) else 'list'}; it must be text or a number"
    )


def _headers(values: dict[str, JSON]) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if not _NAME.fullmatch(name):
            raise InvalidInput(f"{name[:80]!r} is not a valid header name")
        if name.lower() in RESERVED_HEADERS:
            raise InvalidInput(f"header `{name}` is reserved: the tool sets it")
        if value is not None:
            text = _text(value, f"headers.{name}").strip(" \t")
            if CONTROL.search(text):
                raise InvalidInput(f"header `{name}` contains a line break or another control character")
            yield name, text


def _trace_context(call: Call) -> str:
    """W3C trace context: the execution is the trace, the call a span; noetl.telemetry uses the same ids."""
    span = hashlib.sha256(f"{call.key}/{call.attempt}".encode()).hexdigest()[:16]
    return f"00-{trace_id(call.execution_id)}-{span}-01"


def _has_body(input: HttpInput) -> bool:
    return not (input.json is None and input.form is None and input.body is None and input.multipart is None)


async def _body(input: HttpInput, call: Call) -> tuple[Body, str | None]:
    """The body and its content type."""
    try:
        return await _encode_body(input, call)
    except UnicodeEncodeError as error:
        raise InvalidInput("the body contains a lone surrogate, which cannot be encoded as UTF-8") from error


async def _encode_body(input: HttpInput, call: Call) -> tuple[Body, str | None]:
    bodies = [name for name in ("json", "form", "body", "multipart") if getattr(input, name) is not None]
    if len(bodies) > 1:
        raise InvalidInput(
            f"a request has only one body; remove all but one of {', '.join(f'`{name}`' for name in bodies)}"
        )
    if input.json is not None:
        return msgspec.json.encode(input.json), "application/json"
    if input.form is not None:
        pairs = list(_pairs("form", input.form))
        return urlencode(pairs).encode("ascii"), "application/x-www-form-urlencoded"
    if input.body is not None:
        return input.body.encode(), "text/plain; charset=utf-8"
    if input.multipart is not None:
        return tuple([await _part(index, each, call) for index, each in enumerate(input.multipart)]), None
    return None, None


async def _part(index: int, part: JSON, call: Call) -> MultipartPart:
    label = f"multipart[{index}]"
    if not isinstance(part, dict) or not isinstance(part.get("name"), str) or not part["name"]:
        raise InvalidInput(f"`{label}` must be a mapping with a `name`")
    if ("value" in part) == ("ref" in part):
        raise InvalidInput(f"`{label}` must have either `value` or `ref`")
    for key in ("filename", "content_type"):
        if part.get(key) is not None and (not isinstance(part[key], str) or CONTROL.search(part[key])):
            raise InvalidInput(f"`{label}.{key}` must be text without control characters")
    content_type = part.get("content_type")
    if "ref" in part:
        if not isinstance(part["ref"], dict) or not isinstance(part["ref"].get("locator"), dict):
            raise InvalidInput(f"`{label}.ref` is not a Ref")
        try:
            value = await call.results.get(part["ref"])
        except NoetlError as error:
            raise InvalidInput(f"`{label}.ref`: {error}") from error
    elif isinstance(part["value"], dict | list):
        value, content_type = msgspec.json.encode(part["value"]), content_type or "application/json"
    else:
        value = _text(part["value"], f"{label}.value").encode()
    return MultipartPart(part["name"], value, part.get("filename"), content_type)
