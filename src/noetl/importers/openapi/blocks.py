"""Operations → blocks of a playbook, as YAML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from noetl.escape import shorten
from noetl.importers.openapi.document import OpenApiDocument, text_of
from noetl.importers.openapi.operations import ApiParameter, Operation
from noetl.importers.openapi.pagination import Keys, Pagination
from noetl.importers.openapi.schemas import type_names, words
from noetl.importers.openapi.security import ApiCredential
from noetl.importers.readable import readable
from noetl.output import JSON
from noetl.template.values import is_template

MAX_PAGES: Final = 50
DESC_CHARS: Final = 160
_HOLE: Final = re.compile(r"\{([^{}]+)\}")
_PROPERTY: Final = re.compile(r"[\w.@$-]+\Z", re.ASCII)
_JOINED: Final = {"spaceDelimited": " ", "pipeDelimited": "|"}
_FILES: Final = ("application/octet-stream", "application/pdf", "application/zip", "application/gzip")
_ORIGIN: Final = "^https?://[^/?#]+"
_MEDIA: Final = re.compile(r"[\w.+-]+/[\w.+-]+\Z", re.ASCII)


def block_text(document: OpenApiDocument, operation: Operation, credentials: list[ApiCredential]) -> str:
    """A block that sends one request."""
    tasks: list[JSON] = [*_checks(operation, {}), {"name": "send", **_http(document, operation, credentials, {})}]
    return _block(operation.name, desc_of(operation), _inputs(document, operation), tasks)


def pages_text(
    document: OpenApiDocument, operation: Operation, credentials: list[ApiCredential], paging: Pagination, name: str
) -> str:
    """A block that sends a request for each page, and returns all items."""
    changed = {paging.parameter.key: "{{ step.at }}"} if paging.parameter is not None else {}
    first: JSON = {"page": paging.first, "offset": paging.first}.get(paging.kind)
    fetch = _http(document, operation, credentials, changed)
    if paging.kind == "link":
        fetch["input"]["url"] = "{{ " + _link_url(operation) + " }}"
        if "params" in fetch["input"]:  # the link contains them
            fetch["input"]["params"] = "{{ {} if step.at else " + _expression(fetch["input"]["params"]) + " }}"
    fetch["spec"] = {"retry": {"attempts": 5, "delay": 0.5, "backoff": "exponential", "max_delay": 60}}
    found = f"output.data{_path(paging.items)}"
    items = f"({found} if {found} is not none else [])"  # a response without the list is an error
    fetch["set"] = {
        "step.items": "{{ step.items + " + items + " }}",
        "step.at": "{{ " + _next(paging, items) + " }}",
        "step.more": "{{ " + _more(paging, items) + " }}",
        "step.pages": "{{ step.pages + 1 }}",
    }
    rules: list[JSON] = [
        {"when": "{{ not step.more }}", "then": {"do": "break"}},
        {
            "when": "{{ step.pages >= input.max_pages }}",
            "then": {"do": "fail", "message": "there are more than {{ input.max_pages }} pages: raise max_pages"},
        },
        *(_other_origin(operation) if paging.kind == "link" else ()),
        {"else": {"then": {"do": "jump", "to": "fetch"}}},
    ]
    tasks: list[JSON] = [
        *_checks(operation, changed),
        {
            "name": "begin",
            "kind": "noop",
            "set": {"step.at": first, "step.items": [], "step.pages": 0, "step.more": True},
        },
        {"name": "fetch", **fetch},
        {
            "name": "pages",
            "kind": "noop",
            "input": {"items": "{{ step.items }}", "pages": "{{ step.pages }}"},
            "spec": {"policy": {"rules": rules}},
        },
    ]
    inputs = [each for each in _inputs(document, operation) if each[0] not in changed]
    inputs.append(("max_pages", MAX_PAGES, "with more pages the block fails; all items are kept in memory"))
    return _block(name, f"All pages of {operation.name}: {{items, pages}}", inputs, tasks)


def desc_of(operation: Operation) -> str:
    summary = f": {operation.summary}" if operation.summary else ""
    return shorten(f"{operation.where}{summary}{' (deprecated)' if operation.deprecated else ''}", DESC_CHARS)


def _block(name: str, desc: str, inputs: list[tuple[str, JSON, str]], tasks: list[JSON]) -> str:
    lines = [f"  {name}:\n", readable({"desc": desc}, "    ")]
    if inputs:
        lines.append("    input:\n")
    for key, value, comment in inputs:
        lines.append(f"      # {shorten(text_of(comment), DESC_CHARS)}\n" + readable({key: value}, "      "))
    return "".join([*lines, readable({"tool": tasks}, "    ")])


def _inputs(document: OpenApiDocument, operation: Operation) -> list[tuple[str, JSON, str]]:
    """Name, default and comment of each input."""
    found: list[tuple[str, JSON, str]] = []
    for each in operation.parameters:
        needed = "required" if each.required else "optional"
        kind = words(document, each.source, operation.where)
        found.append((each.key, None, f"{kind}; {needed}, {each.place}{f': {each.desc}' if each.desc else ''}"))
    body = operation.body
    if body is not None:
        needed = "required" if body.required else "optional"
        kind = words(document, body.source, operation.where) if body.kind in ("json", "form") else "see README.md"
        key = "parts" if body.kind == "multipart" else "body"
        found.append((key, None, f"{kind}; {needed}, {body.media}{f': {body.desc}' if body.desc else ''}"))
    return found


def _checks(operation: Operation, changed: dict[str, str]) -> Iterator[JSON]:
    """The task that refuses inputs of other types, before anything is sent."""
    schemas = {each.key: each.schema for each in operation.parameters if each.key not in changed}
    required = [each.key for each in operation.parameters if each.required and each.key not in changed]
    body = operation.body
    if body is not None:
        key = "parts" if body.kind == "multipart" else "body"
        schemas[key] = body.schema
        required += [key] if body.required else []
    typed = {key: schema for key, schema in schemas.items() if schema or key in required}
    if typed:
        checked: dict[str, JSON] = {
            key: schema if schema or key not in required else {"not": {"type": "null"}} for key, schema in typed.items()
        }
        yield {
            "name": "check_input",
            "kind": "noop",
            "input": {key: "{{ input." + key + " }}" for key in typed},
            "spec": {"validate": {"type": "object", "properties": checked}},
        }


def _http(
    document: OpenApiDocument, operation: Operation, credentials: list[ApiCredential], changed: dict[str, str]
) -> dict[str, JSON]:
    """The request. `changed`: other templates for some inputs."""
    params: dict[str, JSON] = {}
    headers: dict[str, JSON] = {}
    cookies: list[str] = []
    for each in operation.parameters:
        if each.place == "query":
            params.update({each.name: changed[each.key]} if each.key in changed else _query(document, operation, each))
        elif each.place == "header":
            headers[each.name] = "{{ " + _joined(document, each, operation.where) + " }}"
        elif each.place == "cookie":
            value = f"input.{each.key}"
            cookies.append(f"('{each.name}=' ~ ({value} | string | urlencode)) if {value} is not none else none")
    auth = None
    for credential in credentials:
        value = f"keychain.{credential.entry['name']}"
        match credential.use:
            case "auth":
                auth = credential.entry["name"]
            case "header":
                headers[credential.name] = "{{ " + value + " }}"
            case "query":
                params[credential.name] = "{{ " + value + " }}"
            case "cookie":
                cookies.append(f"'{credential.name}=' ~ {value}")
    if cookies:
        headers["Cookie"] = "{{ ([" + ", ".join(cookies) + "] | reject('none') | join('; ')) or none }}"
    response = operation.response
    media = response.media if response is not None else None
    if media is not None and _MEDIA.match(media):
        headers.setdefault("Accept", media)
    input: dict[str, JSON] = {"method": operation.method.upper(), "url": _url(operation)}
    input |= {key: value for key, value in (("params", params), ("headers", headers)) if value}
    input |= _body(operation, headers, input)
    if media is not None and (media.startswith(("image/", "audio/", "video/")) or media in _FILES):
        input["response"] = "file"
    return {"kind": "http", **({"auth": auth} if auth else {}), "input": input}


def _body(operation: Operation, headers: dict[str, JSON], input: dict[str, JSON]) -> dict[str, JSON]:
    body = operation.body
    if body is None:
        return {}
    if body.kind == "multipart":
        return {"multipart": "{{ input.parts }}"}
    if (body.kind == "text" or body.media.endswith("+json")) and _MEDIA.match(body.media):
        input["headers"] = {**headers, "Content-Type": body.media}
    return {{"json": "json", "form": "form", "text": "body"}[body.kind]: "{{ input.body }}"}


def _url(operation: Operation) -> str:
    names = {each.name: each for each in operation.parameters if each.place == "path"}
    path = _HOLE.sub(lambda hole: "{{ " + _segment(names[hole[1]]) + " }}", operation.path)
    return (operation.server or "{{ workload.base_url }}") + path


def _url_expression(operation: Operation) -> str:
    """The address as one expression."""
    names = {each.name: each for each in operation.parameters if each.place == "path"}
    parts = [_base(operation)]
    for number, part in enumerate(_HOLE.split(operation.path)):
        if part:
            parts.append(f"({_segment(names[part])})" if number % 2 else _quoted(part))
    return f"({' ~ '.join(parts)})"


def _base(operation: Operation) -> str:
    return _quoted(operation.server) if operation.server else "workload.base_url"


def _link_url(operation: Operation) -> str:
    """The address of the first page, or the link to the next one, which may be relative to the origin."""
    origin = f"({_base(operation)} | regex_search('{_ORIGIN}'))"
    relative = "(step.at | default('', true) | regex_search('^/')) is not none"
    return f"({origin} ~ step.at) if {relative} else (step.at or {_url_expression(operation)})"


def _other_origin(operation: Operation) -> Iterator[JSON]:
    """A link to another origin is not followed: it would receive the credentials."""
    origins = f"[none, {_base(operation)} | regex_search('{_ORIGIN}')]"
    yield {
        "when": "{{ (step.at | regex_search('" + _ORIGIN + "')) not in " + origins + " }}",
        "then": {"do": "fail", "message": "the link to the next page leads to another origin"},
    }


def _segment(parameter: ApiParameter) -> str:
    value = f"input.{parameter.key}"
    if "array" in type_names(parameter.schema):
        value += " | join(',')"
    prefix = {"label": "'.' ~ ", "matrix": f"{_quoted(f';{parameter.name}=')} ~ "}.get(parameter.style, "")
    encoded = f"{value} | urlencode | replace('/', '%2F')"
    return f"{prefix}({encoded})" if prefix else encoded


def _query(document: OpenApiDocument, operation: Operation, parameter: ApiParameter) -> dict[str, JSON]:
    value = f"input.{parameter.key}"
    source = document.mapping(parameter.source or {}, operation.where)
    if parameter.as_json:
        return {parameter.name: "{{ (" + value + " | tojson) if " + value + " is not none else none }}"}
    if "object" not in type_names(source):
        return {parameter.name: "{{ " + _joined(document, parameter, operation.where) + " }}"}
    properties = source.get("properties")
    declared = list(properties) if isinstance(properties, dict) else []
    names = [name for name in declared if _PROPERTY.match(name)]
    at = f'{operation.where} parameter "{parameter.name}"'
    if not names or len(names) < len(declared) or source.get("additionalProperties"):
        document.note(at, f"only these of its properties are sent: {', '.join(names) or 'none'}")
    if parameter.style != "deepObject" and not parameter.explode:
        document.note(at, "its properties are sent one by one, not as one text")
    made = {name: f"{parameter.name}[{name}]" if parameter.style == "deepObject" else name for name in names}
    return {sent: "{{ (" + value + " or {}).get('" + name + "') }}" for name, sent in made.items()}


def _joined(document: OpenApiDocument, parameter: ApiParameter, where: str) -> str:
    """The value; a list as one text, unless its name is repeated for each item."""
    value = f"input.{parameter.key}"
    types = type_names(document.mapping(parameter.source or {}, where))
    if parameter.place == "header" and "object" in types:
        document.note(where, f'the header "{parameter.name}" is a mapping: pass it as text')
    if "array" not in types or (parameter.place == "query" and parameter.explode and parameter.style == "form"):
        return value
    sign = _JOINED.get(parameter.style, ",")
    return f"({value} | join('{sign}')) if {value} is not none else none"


def _expression(params: dict[str, str]) -> str:
    """A mapping of templates as one expression."""
    pairs = [
        f"{_quoted(name)}: {template.removeprefix('{{ ').removesuffix(' }}')}" for name, template in params.items()
    ]
    return "{" + ", ".join(pairs) + "}"


def _quoted(text: str) -> str:
    assert not is_template(text)
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _path(keys: Keys) -> str:
    return "".join(f"[{_quoted(key)}]" if not key.isidentifier() else f".{key}" for key in keys)


def _read(keys: Keys) -> str:
    return f"(output.data{_path(keys)} | default(none))"


_LINK: Final = "(output.http.headers.link | default('') | regex_search('<([^>]*)>[^,]*rel=\"?next\"?', 1))"


def _next(paging: Pagination, items: str) -> str:
    match paging.kind:
        case "page":
            return "step.at + 1"
        case "offset":
            return f"step.at + ({items} | length)"
        case "cursor":
            return _read(paging.next)
        case "link":
            return _read(paging.next) if paging.next else _LINK


def _more(paging: Pagination, items: str) -> str:
    """Whether another page follows, from what the response says; without that, until a page is empty.

    A response without the value that decides it is an error: otherwise the rest would be missing.
    """
    if paging.more:
        return f"output.data{_path(paging.more)}"
    match paging.kind:
        case "cursor":
            return f"{_read(paging.next)} not in [none, '']"
        case "link":
            return f"{_read(paging.next) if paging.next else _LINK} not in [none, '']"
        case _ if paging.last:
            behind = "<" if paging.first else "< -1 +"
            return f"step.at {behind} output.data{_path(paging.last)}"
        case _:
            return f"({items} | length) > 0"
