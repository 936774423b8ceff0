"""The fields of an `http` task → a request that can be sent, and sent again to where it is redirected."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias
from urllib.parse import quote, urlencode

import msgspec
from yarl import URL

from noetl.errors import NoetlError
from noetl.output import JSON
from noetl.tool import Call

if TYPE_CHECKING:
    from noetl.tools.http.tool import HttpInput

WITH_EFFECT: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
OURS: Final = frozenset({"content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer"})
ABOUT_BODY: Final = frozenset({"content-type", "content-encoding", "content-language", "content-location"})
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_SECRET = re.compile(
    r"auth|cookie|token|secret|passw|session|signature|credential|(?<!idempotency-)key", re.I
)


class Unfit(Exception):
    """The fields make no request; the message is for the author, and holds no value of theirs."""


class Part(NamedTuple):
    """One part of a multipart body."""

    name: str
    value: bytes
    filename: str | None
    content_type: str | None


Body: TypeAlias = bytes | tuple[Part, ...] | None


class Request(NamedTuple):
    method: str
    url: URL
    headers: dict[str, str]
    body: Body

    def __str__(self) -> str:
        return f"{self.method} {shown(self.url)}"


def shown(url: URL) -> str:
    """Without user, password, query and fragment, which may hold secrets."""
    return f"{url.scheme}://{url.host_port_subcomponent}{url.raw_path}"


async def build(input: HttpInput, call: Call) -> Request:
    """Raises Unfit."""
    url = address(input.url)
    if input.params:
        url = url.extend_query(list(_pairs("params", input.params)))
    headers = dict(_headers(input.headers)) if input.headers else {}
    if len(call.execution_id) == 36 and not any(name.lower() == "traceparent" for name in headers):
        headers["traceparent"] = _trace_context(call)
    if input.method == "GET" and not _has_body(input):  # most requests by far: nothing is to be added
        return Request("GET", url, headers, None)
    body, content_type = await _body(input, call)
    names = {name.lower() for name in headers}
    if content_type is not None and "content-type" not in names:
        headers["Content-Type"] = content_type
    if input.method in WITH_EFFECT and "idempotency-key" not in names:
        headers["Idempotency-Key"] = quote(call.key, safe="/#[]>:,@!$&'()*+=")
    return Request(input.method, url, headers, body)


def address(text: str) -> URL:
    """Raises Unfit."""
    try:
        url = URL(text)
        host = url.host
        url.port  # noqa: B018  # raises for a port that is none
    except (ValueError, TypeError) as error:
        raise Unfit("`url` is no URL") from error
    if url.scheme not in ("http", "https"):
        other = f', and not with "{url.scheme[:20]}"' if url.scheme else ""
        raise Unfit(f"`url` must begin with http:// or https://{other}")
    if not host:
        raise Unfit("`url` names no host")
    return url


def redirected(request: Request, status: int, location: str) -> Request:
    """Where the answer sends us. Another origin gets none of our credentials. Raises Unfit."""
    try:
        url = address(str(request.url.join(URL(location))))
    except ValueError as error:
        raise Unfit("`url` is no URL") from error
    method, headers, body = request.method, request.headers, request.body
    if (status == 303 and method != "HEAD") or (status in (301, 302) and method == "POST"):
        method, body = "GET", None
        gone = ABOUT_BODY | {"idempotency-key"}
        headers = {name: value for name, value in headers.items() if name.lower() not in gone}
    if url.origin() != request.url.origin():
        headers = {
            name: value
            for name, value in headers.items()
            if not _SECRET.search(name) and name.lower() != "host"
        }
    return Request(method, url, headers, body)


def _pairs(field: str, values: dict[str, JSON]) -> Iterator[tuple[str, str]]:
    """Nulls are left out, lists repeat their name."""
    for name, value in values.items():
        for each in value if isinstance(value, list) else [value]:
            if each is not None:
                yield name, _word(each, f"{field}.{name}")


def _word(value: JSON, what: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise Unfit(
        f"`{what}` is a {'mapping' if isinstance(value, dict) else 'list'}, and must be text or a number"
    )


def _headers(values: dict[str, JSON]) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if not _NAME.fullmatch(name):
            raise Unfit(f"{name[:80]!r} is no name of a header")
        if name.lower() in OURS:
            raise Unfit(f"header `{name}` is set by the tool itself")
        if value is not None:
            word = _word(value, f"headers.{name}").strip(" \t")
            if CONTROL.search(word):
                raise Unfit(f"header `{name}` holds a line break or another control character")
            yield name, word


def _trace_context(call: Call) -> str:
    """W3C: the execution is the trace, the call its span; noetl.telemetry names them the same way."""
    span = hashlib.sha256(f"{call.key}/{call.attempt}".encode()).hexdigest()[:16]
    return f"00-{call.execution_id.replace('-', '')}-{span}-01"


def _has_body(input: HttpInput) -> bool:
    return not (input.json is None and input.form is None and input.body is None and input.multipart is None)


async def _body(input: HttpInput, call: Call) -> tuple[Body, str | None]:
    """The body, and its content type unless the author names one."""
    try:
        return await _written(input, call)
    except UnicodeEncodeError as error:
        raise Unfit("the body holds half a surrogate pair, which no text can carry") from error


async def _written(input: HttpInput, call: Call) -> tuple[Body, str | None]:
    given = [name for name in ("json", "form", "body", "multipart") if getattr(input, name) is not None]
    if len(given) > 1:
        raise Unfit(f"a request has one body, and here are {' and '.join(f'`{name}`' for name in given)}")
    if input.json is not None:
        return msgspec.json.encode(input.json), "application/json"
    if input.form is not None:
        pairs = list(_pairs("form", input.form))
        return urlencode(pairs).encode("ascii"), "application/x-www-form-urlencoded"
    if input.body is not None:
        return input.body.encode(), "text/plain; charset=utf-8"
    if input.multipart is not None:
        return tuple([await _part(place, each, call) for place, each in enumerate(input.multipart)]), None
    return None, None


async def _part(place: int, part: JSON, call: Call) -> Part:
    what = f"multipart[{place}]"
    if not isinstance(part, dict) or not isinstance(part.get("name"), str) or not part["name"]:
        raise Unfit(f"`{what}` must be a mapping with a `name`")
    if ("value" in part) == ("ref" in part):
        raise Unfit(f"`{what}` takes either `value` or `ref`")
    for key in ("filename", "content_type"):
        if part.get(key) is not None and (not isinstance(part[key], str) or CONTROL.search(part[key])):
            raise Unfit(f"`{what}.{key}` must be text without control characters")
    content_type = part.get("content_type")
    if "ref" in part:
        if not isinstance(part["ref"], dict) or not isinstance(part["ref"].get("locator"), dict):
            raise Unfit(f"`{what}.ref` is no Ref")
        try:
            value = await call.results.get(part["ref"])
        except NoetlError as error:
            raise Unfit(f"`{what}.ref`: {error}") from error
    elif isinstance(part["value"], dict | list):
        value, content_type = msgspec.json.encode(part["value"]), content_type or "application/json"
    else:
        value = _word(part["value"], f"{what}.value").encode()
    return Part(part["name"], value, part.get("filename"), content_type)
