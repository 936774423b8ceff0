"""The page of the HTTP API: every route with its scope, parameters and responses, from OpenAPI."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, NamedTuple

from litestar.routes import HTTPRoute

from noetl.runtime.local_server import open_local_server
from noetl.server.access import LIMIT
from noetl.server.app import make_app
from noetl.server.auth import SCOPE, UNVERIFIED_SCOPE
from noetl.server.services import ServerSettings
from scripts.reference_events import known, tag
from scripts.reference_prose import prose, slug, table

_REF: Final = "#/components/schemas/"
_BOUNDS: Final = {"minimum": "≥ ", "maximum": "≤ ", "maxLength": "length ≤ "}
_TYPES: Final = {"string": "text", "integer": "number", "object": "mapping", "array": "list", "null": "null"}


class Described(NamedTuple):
    """The OpenAPI document, and the scopes, which it does not contain."""

    document: dict[str, Any]
    scopes: dict[tuple[str, str], str]  # (method, path) → scope
    unverified: dict[tuple[str, str], str]  # of webhooks without `verify`
    limits: dict[tuple[str, str], str]  # (method, path) → how paths and pools limit it


class Route(NamedTuple):
    method: str
    path: str
    said: dict[str, Any]


@cache
def described() -> Described:
    """Describe the application of a server with an empty temporary database."""

    async def describe(folder: str) -> Described:
        async with open_local_server(Path(folder) / "noetl.db") as server:
            app = make_app(server.services, ServerSettings())
            options = {
                (method.lower(), route.path_format): handler.opt
                for route in app.routes
                if isinstance(route, HTTPRoute)
                for method, (handler, _) in route.route_handler_map.items()
            }
            scopes = {key: str(opt.get(SCOPE)) for key, opt in options.items()}
            unverified = {key: opt[UNVERIFIED_SCOPE] for key, opt in options.items() if UNVERIFIED_SCOPE in opt}
            limits = {key: str(opt.get(LIMIT)) for key, opt in options.items()}
            return Described(app.openapi_schema.to_schema(), scopes, unverified, limits)

    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(describe(folder))


def routes() -> Iterator[Route]:
    for path, methods in described().document["paths"].items():
        for method, said in methods.items():
            yield Route(method, path, said)


def everywhere() -> dict[str, str]:
    """The errors that all routes may return."""
    shared = set.intersection(*(set(route.said["responses"]) for route in routes()))
    one = next(routes()).said["responses"]
    return {status: one[status]["description"] for status in sorted(shared) if is_error(status)}


def is_error(status: str) -> bool:
    return int(status) >= HTTPStatus.BAD_REQUEST


def is_stock(status: str, answer: dict[str, Any]) -> bool:
    """Whether the description is the default of the framework."""
    return bool(answer["description"] == HTTPStatus(int(status)).description)


def page(head: str) -> str:
    document = described().document
    lines = ["# HTTP API", "", head, ""]
    lines += table(("status", "meaning"), ((f"`{status}`", words) for status, words in everywhere().items()))
    for area in document["tags"]:
        lines += ["", f"## {area['name'].capitalize()}", "", f"{area['description']}.", ""]
        for route in routes():
            if route.said["tags"] == [area["name"]]:
                lines += route_lines(route)
    lines += [
        "",
        "## Shapes",
        "",
        "The structures of request and response bodies. `?` marks optional fields.",
        "",
    ]
    facts = {fact.__name__: tag(fact) for fact in known()}
    for name, shape in sorted(document["components"]["schemas"].items()):
        if name in facts:
            continue
        lines += [f"#### {name}", "", *shape_lines(shape), ""]
    return "\n".join(lines)


def route_lines(route: Route) -> list[str]:
    said, scope = route.said, described().scopes[route.method, route.path]
    words = " ".join(filter(None, (f"{said['summary'].rstrip('.?')}.", said.get("description"))))
    lines = [f"### {route.method.upper()} {route.path}", "", f"{prose(words)} Scope `{scope}`.", ""]
    if parameters := said.get("parameters"):
        lines += [*table(("parameter", "in", "value", "default", "meaning"), map(parameter, parameters)), ""]
    for media, body in said.get("requestBody", {}).get("content", {}).items():
        lines.append(f"- Body, `{media}`: {shown(body['schema'])}")
    for status, answer in sorted(said["responses"].items()):
        if status in everywhere():
            continue
        kinds = " or ".join(shown(each["schema"]) for each in answer.get("content", {}).values())
        words = "" if is_stock(status, answer) else prose(answer["description"])
        held = kinds if not is_error(status) else ""
        lines.append(f"- `{status}` {': '.join(filter(None, (words, held))) or 'without a body'}")
    return [*lines, ""]


def parameter(said: dict[str, Any]) -> tuple[str, ...]:
    schema = said["schema"]
    bounds = [f"{sign}{schema[name]:,.15g}" for name, sign in _BOUNDS.items() if name in schema]
    default = schema.get("default")
    return (
        f"`{said['name']}`" + (" (required)" if said["required"] else ""),
        said["in"],
        ", ".join([shown(schema), *bounds]),
        "" if default in (None, "") else f"`{str(default).lower()}`",
        prose(said.get("description", "")),
    )


def shape_lines(shape: dict[str, Any]) -> Iterator[str]:
    if words := shape.get("description"):
        yield from (prose(words), "")
    required = shape.get("required", ())
    for name, field in shape.get("properties", {}).items():
        yield f"- `{name}`{'' if name in required else '?'}: {shown(field)}"
    if not shape.get("properties"):
        yield "- no fields"


def shown(schema: dict[str, Any]) -> str:
    """A short description of a schema; named structures are links."""
    if ref := schema.get("$ref"):
        name = ref.removeprefix(_REF)
        facts = {fact.__name__: tag(fact) for fact in known()}
        return f"[{name}](events.md#{slug(facts[name])})" if name in facts else f"[{name}](#{slug(name)})"
    if values := schema.get("enum"):
        return " \\| ".join("null" if each is None else f"`{each}`" for each in values)
    if each := schema.get("oneOf") or schema.get("anyOf"):
        return " \\| ".join(dict.fromkeys(map(shown, each)))
    if schema.get("type") == "array" and schema.get("items"):
        return f"list of {shown(schema['items'])}"
    if schema.get("properties"):
        return "{" + ", ".join(f"`{name}`: {shown(each)}" for name, each in schema["properties"].items()) + "}"
    kinds = schema.get("type", "any value")
    listed = [kinds] if isinstance(kinds, str) else kinds
    return " \\| ".join(_TYPES.get(kind, kind) for kind in listed)
