"""Authorization over every route of the application, so that no route is forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from litestar.handlers import HTTPRouteHandler
from litestar.routes import ASGIRoute, HTTPRoute

from noetl.server.auth import CACHED_S, PUBLIC, SCOPE, Caller
from noetl.server.services import ServerSettings
from tests.api.servers import NOOP, ApiServer, serve

NOBODY = "00000000-0000-7000-8000-000000000000"
ENOUGH = {"read": ["run", "write", "admin"], "run": ["admin"], "write": ["admin"], "admin": []}
PAGES = {"/", "/ui", "/ui/{name:path}", "/llms.txt"}  # the UI contains no data and asks for the token itself
SIGN_IN = {"/session", "/session/oidc", "/session/oidc/callback"}  # they authenticate by themselves
OPEN = {"/health", "/ready", "/hooks/{path:path}", *SIGN_IN, *PAGES}  # triggers verify requests to /hooks themselves


class Route(NamedTuple):
    method: str
    path: str
    scope: str
    template: str


def routes(server: ApiServer) -> Iterator[Route]:
    for route in server.app.routes:
        if isinstance(route, ASGIRoute):
            yield Route("POST", route.path, route.route_handler.opt.get(SCOPE, ""), route.path)
            continue
        assert isinstance(route, HTTPRoute)
        for handler in route.route_handlers:
            assert isinstance(handler, HTTPRouteHandler)
            for method in handler.http_methods - {"OPTIONS"}:
                path = route.path_format
                for name in ("execution_id", "digest", "kind", "id", "name", "path"):
                    path = path.replace(f"{{{name}}}", NOBODY)
                path = path.replace("{seq}", "1")
                yield Route(str(method), path, handler.opt.get(SCOPE, ""), route.path)


def test_every_route_names_a_scope(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        found = list(routes(server))
        assert len(found) > 40
        assert {route.scope for route in found} == {PUBLIC, "read", "run", "write", "admin"}
        assert {route.template for route in found if route.scope == PUBLIC} == OPEN
        mutating = {route for route in found if route.method != "GET"}
        playbooks = {
            "/playbooks/check",
            "/playbooks/explain",
            "/playbooks/graph",
            "/playbooks/test",
            "/playbooks/what-if",
        }
        looking = playbooks | {"/mcp", "/executions/{execution_id:str}/debug/evaluate"}
        assert {route.template for route in mutating if route.scope == "read"} == looking

    serve(tmp_path, work)


def test_the_document_of_the_api_needs_a_token(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        token = await server.token("read")
        for path in ("/schema/openapi.json", "/schema", "/schema/other", "/playbooks/schema"):
            assert (await server.api.ask("GET", path, token="")).status == 401
        assert (await server.api.ask("GET", "/schema/openapi.json", token=token)).status == 200

    serve(tmp_path, work, ServerSettings())


@pytest.mark.parametrize("who", ["nobody", "expired", "unknown", "malformed"])
def test_no_route_accepts_an_invalid_token(tmp_path: Path, who: str) -> None:
    async def work(server: ApiServer) -> None:
        known = await server.token("admin")
        token = {
            "nobody": "",
            "expired": await server.expired("admin"),
            "unknown": known[:-4] + "AAAA",
            "malformed": "noetl_" + "x" * 300,
        }[who]
        for route in routes(server):
            if route.scope == PUBLIC:
                continue
            answer = await server.api.ask(route.method, route.path, token=token)
            assert answer.status == 401, (route, answer.body)
            assert answer.headers["www-authenticate"].startswith("Bearer")
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json["code"] in {"no-token", "bad-token", "expired-token"}

    serve(tmp_path, work, ServerSettings(requests_burst=10_000))


def test_no_route_accepts_a_token_without_its_scope(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        tokens = {scope: await server.token(scope) for scope in ("read", "run", "write", "admin")}
        for route in routes(server):
            if route.scope == PUBLIC:
                continue
            for scope, token in tokens.items():
                answer = await server.api.ask(route.method, route.path, token=token)
                if scope == route.scope or scope in ENOUGH[route.scope]:
                    assert answer.status not in (401, 403), (route, scope, answer.body)
                else:
                    assert (answer.status, answer.json["code"]) == (403, "low-scope"), (route, scope)

    # No subscribers are allowed, so that no response is endless.
    serve(tmp_path, work, ServerSettings(requests_burst=10_000, subscribers_max=0))


def test_a_token_is_accepted_in_the_header_only(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        token = await server.token("admin")
        for name in ("token", "access_token"):
            assert (await server.api.ask("GET", f"/whoami?{name}={token}")).status == 401
        for header in (f"Basic {token}", token, f"Bearer  {token}x", "Bearer", f"bearer {token[6:]}"):
            answer = await server.api.ask("GET", "/whoami", headers={"Authorization": header})
            assert answer.status == 401, header
        assert (await server.api.ask("GET", "/whoami", headers={"Cookie": f"token={token}"})).status == 401

    serve(tmp_path, work, ServerSettings())


def test_public_routes_ignore_a_bad_token(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        for path in ("/health", "/ready"):
            assert (await server.api.ask("GET", path, token="noetl_nonsense")).status == 200

    serve(tmp_path, work, ServerSettings())


def test_the_log_records_the_name_of_the_token(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        server.api.token = await server.token("run", "write", name="nightly import")
        assert (await server.api.get("/whoami"))["name"] == "nightly import"
        id = await server.api.run(NOOP)
        events = (await server.api.get(f"/executions/{id}/events"))["items"]
        assert events[0]["data"]["by"] == "nightly import"

    serve(tmp_path, work, ServerSettings())


def test_tokens_are_created_listed_and_revoked(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        api.token = await server.token("admin", name="root")
        made = await api.post("/tokens", {"name": "ci", "scopes": ["run"], "expires_in_s": 3600}, status=201)
        assert (await api.ask("GET", "/executions", token=made["token"])).status == 200
        listed = await api.get("/tokens")
        assert [(each["name"], each["scopes"]) for each in listed["items"]] == [
            ("root", ["admin"]),
            ("ci", ["run"]),
        ]
        secret = made["token"].removeprefix(f"noetl_{made['id']}_")
        assert len(secret) > 20
        assert secret not in str(listed)
        assert (await api.ask("DELETE", f"/tokens/{made['id']}")).status == 204
        assert (await api.ask("GET", "/executions", token=made["token"])).status == 401
        assert (await api.ask("DELETE", f"/tokens/{made['id']}")).status == 404
        for wrong in (
            {"name": "", "scopes": ["run"]},
            {"name": "x", "scopes": []},
            {"name": "x", "scopes": ["everything"]},
            {"name": "x", "scopes": ["run"], "expires_in_s": -1},
            {"name": "x", "scopes": ["run"], "expires_in_s": 1e300},
        ):
            assert (await api.ask("POST", "/tokens", wrong)).status in (400, 422)

    serve(tmp_path, work, ServerSettings())


def test_a_revoked_token_is_cached_for_seconds_only() -> None:
    assert CACHED_S <= 5


def test_run_and_write_include_read_and_admin_includes_all() -> None:
    held = {scope: {each for each in ENOUGH if Caller("1", "n", frozenset({scope})).may(each)} for scope in ENOUGH}
    assert held == {
        "read": {"read"},
        "run": {"run", "read"},
        "write": {"write", "read"},
        "admin": {"read", "run", "write", "admin"},
    }
