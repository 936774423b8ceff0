"""An OpenAPI document with 62 operations, and a server that answers as the document says."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from jsonschema import Draft202012Validator

RESOURCES = (
    "orders", "customers", "products", "invoices", "payments", "carts", "reviews", "shipments", "coupons", "stores",
    "suppliers", "refunds",
)  # fmt: skip
PAGINGS = ("page", "offset", "cursor", "link", "header")
PAGE = 3  # items
TOTAL = 7


def document() -> dict[str, Any]:
    """Twelve resources with five operations each, and two operations of their own."""
    paths: dict[str, Any] = {}
    for number, name in enumerate(RESOURCES):
        paging = PAGINGS[number % len(PAGINGS)]
        one = f"{name.rstrip('s').title()}Id"
        paths[f"/{name}"] = {
            "get": _list(name, paging),
            "post": {
                "operationId": f"create{name.title()}",
                "requestBody": {"required": True, "content": {"application/json": {"schema": _ref("Item")}}},
                "responses": {"201": _json(_ref("Item"))},
            },
        }
        paths[f"/{name}/{{{one}}}"] = {
            "parameters": [{"name": one, "in": "path", "required": True, "schema": {"type": "string"}, "example": "7"}],
            "get": {"operationId": f"get{name.title()}", "responses": {"200": _json(_ref("Item"))}},
            "put": {
                "operationId": f"replace{name.title()}",
                "requestBody": {"content": {"application/x-www-form-urlencoded": {"schema": _ref("Form")}}},
                "responses": {"200": _json(_ref("Item"))},
            },
            "delete": {
                "operationId": f"delete{name.title()}",
                "security": [{"basic": []}],
                "responses": {"204": {"description": "gone"}},
            },
        }
    paths["/files/{path}"] = {"post": _upload()}
    paths["/search"] = {"get": _search()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Shop API", "version": "1.0"},
        "servers": [{"url": "https://{host}/v1", "variables": {"host": {"default": "shop.example"}}}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {"schemas": _schemas(), "securitySchemes": _schemes()},
    }


def _list(name: str, paging: str) -> dict[str, Any]:
    parameters: dict[str, list[tuple[str, dict[str, Any]]]] = {
        "page": [("page", {"type": "integer", "minimum": 1, "default": 1})],
        "offset": [("offset", {"type": "integer"}), ("limit", {"type": "integer"})],
        "cursor": [("cursor", {"type": "string"})],
        "link": [],
        "header": [],
    }
    items: dict[str, Any] = {"type": "array", "items": _ref("Item")}
    extra: dict[str, dict[str, Any]] = {
        "page": {"meta": {"type": "object", "properties": {"total_pages": {"type": "integer"}}}},
        "offset": {},
        "cursor": {"nextCursor": {"type": ["string", "null"]}},
        "link": {"links": {"type": "object", "properties": {"next": {"type": ["string", "null"]}}}},
    }
    schema = (
        items if paging == "header" else {"type": "object", "properties": {"data": items, **extra[paging]}, "required": ["data"]}
    )  # fmt: skip
    response = _json(schema)
    if paging == "header":
        response["headers"] = {"Link": {"schema": {"type": "string"}}}
    wanted = [{"name": each, "in": "query", "schema": kind} for each, kind in parameters[paging]]
    size = {"name": "page-size", "in": "query", "schema": {"type": "integer", "maximum": 100}}
    return {
        "operationId": f"list{name.title()}", "tags": [name], "parameters": [*wanted, size],
        "responses": {"200": response},
    }  # fmt: skip


def _search() -> dict[str, Any]:
    def parameter(name: str, place: str, schema: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {"name": name, "in": place, "schema": schema, **more}

    return {
        "summary": "Search with every kind of parameter",
        "security": [{"key": []}],
        "parameters": [
            parameter("q", "query", {"type": "string", "minLength": 1}, required=True, example="tea"),
            parameter("tag", "query", {"type": "array", "items": {"type": "string"}}),
            parameter("ids", "query", {"type": "array", "items": {"type": "integer"}}, explode=False),
            parameter(
                "filter", "query", {"type": "object", "properties": {"min": {"type": "integer"}}}, style="deepObject"
            ),
            parameter("X-Trace", "header", {"type": "string"}),
            parameter("session", "cookie", {"type": "string"}),
        ],
        "responses": {"200": _json({"type": "array", "items": _ref("Item")})},
    }


def _upload() -> dict[str, Any]:
    path = {"name": "path", "in": "path", "required": True, "schema": {"type": "string"}}
    schema = {"type": "object", "properties": {"file": {"type": "string", "format": "binary"}}}
    return {
        "operationId": "upload", "parameters": [path],
        "requestBody": {"content": {"multipart/form-data": {"schema": schema}}},
        "responses": {"201": {"description": "stored"}},
    }  # fmt: skip


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": "ok", "content": {"application/json": {"schema": schema}}}


def _schemas() -> dict[str, Any]:
    item = {
        "type": "object",
        "required": ["id", "name"],
        "properties": {
            "id": {"type": "integer", "readOnly": True},
            "name": {"type": "string", "minLength": 1},
            "price": {"type": "number", "minimum": 0},
            "parts": {"type": "array", "items": _ref("Item")},  # a cycle
        },
    }
    form = {"type": "object", "properties": {"name": {"type": "string"}, "price": {"type": "number"}}}
    return {"Item": item, "Form": form}


def _schemes() -> dict[str, Any]:
    return {
        "token": {"type": "http", "scheme": "bearer"},
        "basic": {"type": "http", "scheme": "basic"},
        "key": {"type": "apiKey", "in": "query", "name": "api_key"},
    }


class FakeApi:
    """Answers the operations of a document, and refuses requests that do not fit it."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.url = ""
        self.requests: list[str] = []

    def operation(self, method: str, path: str) -> tuple[dict[str, Any], dict[str, str]]:
        for template, item in self.document["paths"].items():
            names = re.findall(r"{([^}]+)}", template)
            found = re.fullmatch(re.sub(r"{[^}]+}", "([^/]+)", template), path)
            if found and method.lower() in item:
                shared = item.get("parameters", [])
                made = item[method.lower()]
                return {**made, "parameters": shared + made.get("parameters", [])}, dict(
                    zip(names, found.groups(), strict=True)
                )
        raise KeyError(f"{method} {path}")

    def refusal(self, operation: dict[str, Any], query: dict[str, list[str]], headers: Any, body: bytes) -> str | None:
        """Why a request does not fit the document."""
        security = next(iter(operation.get("security", self.document["security"])[0]))
        sent = {"token": "Bearer secret-token", "basic": f"Basic {b64encode(b'ann:secret-word').decode()}"}.get(
            security
        )
        if sent is not None and headers.get("Authorization") != sent:
            return "not authorised"
        if security == "key" and query.pop("api_key", None) != ["secret-key"]:
            return "no key"
        known = {each["name"].split("[")[0] for each in operation["parameters"] if each["in"] == "query"}
        unknown = {name.split("[")[0] for name in query} - known
        if unknown:
            return f"unknown parameters {sorted(unknown)}"
        content = operation.get("requestBody", {}).get("content", {})
        if content and headers.get("Content-Type", "").partition(";")[0] not in content:
            return f"unexpected content type {headers.get('Content-Type')}"
        if "application/json" in content:
            schema = {**content["application/json"]["schema"], "components": self.document["components"]}
            problems = [
                each.message for each in Draft202012Validator(schema).iter_errors({"id": 1, **json.loads(body)})
            ]
            return problems[0] if problems else None
        return None

    def answer(
        self, path: str, operation: dict[str, Any], query: dict[str, list[str]]
    ) -> tuple[int, Any, dict[str, str]]:
        status = next(status for status in operation["responses"] if status.startswith("2"))
        content = operation["responses"][status].get("content")
        if content is None:
            return int(status), None, {}
        schema = content["application/json"]["schema"]
        if "$ref" in schema:
            return int(status), item(7), {}
        first = int(query.get("page", ["1"])[0]) * PAGE - PAGE
        first = int(query.get("offset", query.get("cursor", query.get("at", [str(first)])))[0])
        rows = [item(number) for number in range(TOTAL)[first : first + PAGE]]
        after = first + PAGE if first + PAGE < TOTAL else None
        link = f"{self.url}{path}?at={after}" if after else None
        if schema["type"] == "array":
            return int(status), rows, {"Link": f'<{link}>; rel="next"'} if link and path != "/search" else {}
        data: dict[str, Any] = {"data": rows}
        properties = schema["properties"]
        if "meta" in properties:
            data["meta"] = {"total_pages": -(-TOTAL // PAGE)}
        if "nextCursor" in properties:
            data["nextCursor"] = str(after) if after else None
        if "links" in properties:
            data["links"] = {"next": f"{path}?at={after}" if after else None}
        return int(status), data, {}


def item(number: int) -> dict[str, Any]:
    return {"id": number, "name": f"item {number}"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api: ClassVar[FakeApi]

    def _any(self) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.api.requests.append(f"{self.command} {self.path}")
        if parts.path == "/openapi.json":
            return self._send(200, self.api.document, {})
        query = parse_qs(parts.query)
        paged = "at" in query
        operation, _ = self.api.operation(self.command, parts.path)
        refusal = self.api.refusal(operation, {} if paged else dict(query), self.headers, body)
        if refusal:
            return self._send(400, {"message": refusal}, {})
        return self._send(*self.api.answer(parts.path, operation, query))

    do_GET = do_POST = do_PUT = do_DELETE = _any  # noqa: N815

    def _send(self, status: int, data: Any, headers: dict[str, str]) -> None:
        body = b"" if data is None else json.dumps(data).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Type": "application/json", "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing is printed."""


@contextmanager
def served(document: dict[str, Any]) -> Iterator[FakeApi]:
    api = FakeApi(document)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"api": api}))
    api.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
