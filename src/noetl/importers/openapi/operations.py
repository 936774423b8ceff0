"""The operations of a document: parameters, request body, response and security, as a block needs them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

from noetl.importers.openapi.document import OPERATIONS_MAX, DocumentError, OpenApiDocument, text_of
from noetl.importers.openapi.schemas import input_schema, optional
from noetl.output import JSON
from noetl.template.values import is_template

Place: TypeAlias = Literal["path", "query", "header", "cookie"]
BodyKind: TypeAlias = Literal["json", "form", "multipart", "text"]

METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch")
RESERVED: Final = frozenset({"base_url", "max_pages", "body", "parts"})  # names of inputs that no parameter gets
NAME_CHARS_MAX: Final = 60
_PLACES: Final[dict[str, Place]] = {"path": "path", "query": "query", "header": "header", "cookie": "cookie"}
_IGNORED_HEADERS: Final = frozenset({"accept", "content-type", "authorization"})  # as the specification says
_SET_HEADERS: Final = frozenset({"content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer"})
_HEADER: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+\Z")
_HOLE: Final = re.compile(r"\{([^{}]+)\}")
_WORD_START: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class ApiParameter(NamedTuple):
    key: str  # name of the input
    name: str  # in the request
    place: Place
    required: bool
    schema: dict[str, JSON]  # for `spec.validate`
    source: JSON  # the schema of the document
    desc: str
    style: str
    explode: bool
    as_json: bool  # the value is sent as JSON text
    example: JSON


class RequestBody(NamedTuple):
    kind: BodyKind
    media: str
    required: bool
    schema: dict[str, JSON]
    source: JSON
    desc: str


class Response(NamedTuple):
    status: str
    media: str | None  # None: no body
    source: JSON
    desc: str
    headers: frozenset[str]  # in lower case


class Operation(NamedTuple):
    name: str  # of the block
    method: str
    path: str
    summary: str
    deprecated: bool
    parameters: tuple[ApiParameter, ...]
    body: RequestBody | None
    response: Response | None
    security: JSON  # a list of alternatives, or None: that of the document
    server: str | None  # None: that of the document

    @property
    def where(self) -> str:
        return f"{self.method.upper()} {self.path}"


def snake(text: str, fallback: str) -> str:
    """A name for templates: "getPet-by ID" → "get_pet_by_id"."""
    words = re.sub(r"[^0-9A-Za-z]+", "_", _WORD_START.sub("_", text)).strip("_").lower()[:NAME_CHARS_MAX].rstrip("_")
    return words if words and not words[0].isdigit() else f"{fallback}_{words}".rstrip("_")


def unique(name: str, taken: Iterable[str]) -> str:
    made, number = name, 1
    while made in taken:
        number += 1
        made = f"{name}_{number}"
    return made


def operations_of(document: OpenApiDocument, only: tuple[str, ...]) -> list[Operation]:
    """The operations in the order of the document. Raises DocumentError."""
    found: dict[str, Operation] = {}
    for path, method, item, raw in _raw_operations(document):
        words = (str(raw.get("operationId") or ""), *map(str, raw.get("tags") or ()))
        if only and not any(each in words or path.startswith(each) for each in only):
            continue
        if len(found) == OPERATIONS_MAX:
            raise DocumentError(f"more than {OPERATIONS_MAX:,} operations; choose some with --only")
        given = raw.get("operationId")
        wanted = snake(given if isinstance(given, str) else f"{method} {path}", "operation")
        made = _operation(document, (path, method), item, raw, unique(wanted, found))
        if made is not None:
            found[made.name] = made
    if not found:
        raise DocumentError("there is no operation to import" + (f" that fits --only {' '.join(only)}" if only else ""))
    return list(found.values())


def _raw_operations(document: OpenApiDocument) -> Iterator[tuple[str, str, dict[str, JSON], dict[str, JSON]]]:
    for path, value in document.root["paths"].items():
        item = document.mapping(value, path)
        for method in item:
            if method in METHODS:
                yield path, method, item, document.mapping(item[method], f"{method.upper()} {path}")
            elif method == "trace":
                document.note(f"TRACE {path}", "the http tool does not send TRACE, so the operation is left out")
    for key in ("webhooks", "x-webhooks"):
        if document.root.get(key):
            document.note(key, "calls that the API makes are not imported; a webhook trigger can receive them")


def _operation(
    document: OpenApiDocument, key: tuple[str, str], item: dict[str, JSON], raw: dict[str, JSON], name: str
) -> Operation | None:
    path, method = key
    where = f"{method.upper()} {path}"
    plain = _HOLE.sub("", path)
    if not path.startswith("/") or "{" in plain or "}" in plain or not path.isprintable() or " " in path:
        document.note(where, "the path is not valid, so the operation is left out")
        return None
    if raw.get("callbacks"):
        document.note(where, "its callbacks are not imported")
    servers = raw.get("servers") or item.get("servers")
    return Operation(
        name=name,
        method=method,
        path=path,
        summary=text_of(raw.get("summary")) or text_of(raw.get("description")),
        deprecated=raw.get("deprecated") is True,
        parameters=tuple(_parameters(document, where, path, item, raw)),
        body=_body(document, where, raw["requestBody"]) if raw.get("requestBody") is not None else None,
        response=_response(document, where, raw.get("responses")),
        security=raw.get("security"),
        server=server_url(document, servers, where) if servers else None,
    )


def server_url(document: OpenApiDocument, servers: JSON, where: str) -> str | None:
    """The first address, with the defaults of its variables."""
    first = servers[0] if isinstance(servers, list) and servers and isinstance(servers[0], dict) else {}
    url, variables = first.get("url"), first.get("variables")
    if not isinstance(url, str):
        return None
    if isinstance(servers, list) and len(servers) > 1:
        document.note(where, f"{len(servers)} servers; the first one is used: change `base_url` for another one")
    for name, each in variables.items() if isinstance(variables, dict) else ():
        if isinstance(each, dict):
            url = url.replace("{" + name + "}", str(each.get("default", "")))
    return url.rstrip("/") if url.isprintable() and not is_template(url) else None


def _parameters(
    document: OpenApiDocument, where: str, path: str, item: dict[str, JSON], raw: dict[str, JSON]
) -> Iterator[ApiParameter]:
    merged: dict[tuple[str, str], dict[str, JSON]] = {}
    for each in (*_list(item.get("parameters")), *_list(raw.get("parameters"))):
        given = document.mapping(each, f"{where} parameter")
        merged[str(given.get("in")), str(given.get("name"))] = given
    holes = _HOLE.findall(path)
    for hole in holes:
        if ("path", hole) not in merged:
            document.note(where, f"the path has {{{hole}}}, which is not declared: a text")
            merged["path", hole] = {"name": hole, "in": "path", "schema": {"type": "string"}}
    taken = set(RESERVED)
    for (place, name), given in merged.items():
        reason = _refusal(place, name, holes)
        if reason:
            document.note(where, f'the {place} parameter "{name}" is left out: {reason}')
        elif place != "header" or name.lower() not in _IGNORED_HEADERS:
            wanted = snake(name, "p")
            key = unique(wanted if wanted not in taken else f"{wanted}_{place}", taken)
            taken.add(key)
            yield _parameter(document, where, given, key)


def _list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []


def _refusal(place: str, name: str, holes: list[str]) -> str | None:
    if place not in _PLACES:
        return "its place is unknown"
    if is_template(name) or not name.isprintable():
        return "its name is not valid"
    if place == "path" and name not in holes:
        return "it is not in the path"
    if place == "header" and (not _HEADER.match(name) or name.lower() in _SET_HEADERS):
        return "the http tool sets it" if name.lower() in _SET_HEADERS else "its name is not valid"
    if place == "cookie" and not _HEADER.match(name):
        return "its name is not valid"
    return None


def _parameter(document: OpenApiDocument, where: str, given: dict[str, JSON], key: str) -> ApiParameter:
    place = _PLACES[given["in"]]
    required = place == "path" or given.get("required") is True
    content = given.get("content")
    source = given.get("schema")
    if isinstance(content, dict) and content:
        source = next(iter(content.values())).get("schema") if isinstance(next(iter(content.values())), dict) else None
    at = f'{where} parameter "{given["name"]}"'
    schema = input_schema(document, source, at)
    if place == "path" and schema.get("type", "string") == "string":
        schema = {**schema, "not": {"enum": ["", ".", ".."]}}  # another path
    style = given.get("style") or ("form" if place in ("query", "cookie") else "simple")
    if given.get("allowReserved") is True:
        document.note(at, "allowReserved has no effect: reserved characters are encoded")
    explode = given.get("explode")
    return ApiParameter(
        key, given["name"], place, required, schema if required else optional(schema), source,
        text_of(given.get("description")), str(style), explode if isinstance(explode, bool) else style == "form",
        isinstance(content, dict), given.get("example"),
    )  # fmt: skip


def _body(document: OpenApiDocument, where: str, value: JSON) -> RequestBody | None:
    at = f"{where} body"
    raw = document.mapping(value, at)
    content = raw.get("content")
    if not isinstance(content, dict) or not content:
        document.note(at, "it has no content type, so it is left out")
        return None
    ranked = sorted(content, key=_rank)
    media = ranked[0]
    if len(ranked) > 1:
        document.note(at, f"it is sent as {media}; also possible: {', '.join(ranked[1:])}")
    source = document.mapping(content[media], at).get("schema")
    kind = _kind(media)
    if kind == "multipart":
        document.note(
            at, "the input `parts` is a list of {name, value or ref, filename, content_type}; it is not checked"
        )
        schema: dict[str, JSON] = {"type": "array", "items": {"type": "object", "required": ["name"]}}
    elif kind == "text":
        document.note(at, f"{media} is sent as the text that the input `body` holds; binary data cannot be sent")
        schema = {"type": "string"}
    else:
        schema = input_schema(document, source, at)
    required = raw.get("required") is True
    desc = text_of(raw.get("description"))
    return RequestBody(kind, media, required, schema if required else optional(schema), source, desc)


def _kind(media: str) -> BodyKind:
    base = media.partition(";")[0].strip().lower()
    if base in ("application/json", "*/*") or base.endswith("+json"):
        return "json"
    if base == "application/x-www-form-urlencoded":
        return "form"
    return "multipart" if base.startswith("multipart/") else "text"


def _rank(media: str) -> int:
    return 0 if media == "application/json" else 1 + ["json", "form", "multipart", "text"].index(_kind(media))


def _response(document: OpenApiDocument, where: str, value: JSON) -> Response | None:
    """The first successful response; None, with a note, if none is described."""
    responses = value if isinstance(value, dict) else {}
    good = sorted(status for status in responses if status[:1] == "2")
    status = next(iter(good), "default" if "default" in responses else None)
    if status is None:
        document.note(where, "no successful response is described")
        return None
    at = f"{where} response {status}"
    if len(good) > 1:
        document.note(at, f"the output of {', '.join(good[1:])} may differ")
    raw = document.mapping(responses[status], at)
    content = raw.get("content")
    headers = raw.get("headers")
    media = min(content, key=_rank) if isinstance(content, dict) and content else None
    source = document.mapping(content[media], at).get("schema") if media is not None and content else None
    names = frozenset(map(str.lower, headers)) if isinstance(headers, dict) else frozenset[str]()
    return Response(status, media, source, text_of(raw.get("description")), names)
