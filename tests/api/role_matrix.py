"""Every route, requested for an object inside and outside of the paths of a role, with the expected responses.

The expectation follows from the options of a route alone: the table that the server enforces and SECURITY.md shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from litestar import Litestar
from litestar.handlers import HTTPRouteHandler
from litestar.routes import ASGIRoute, HTTPRoute

from noetl.control.roles import ROLES, permits
from noetl.server.access import BY_EXECUTION, BY_NAME, BY_PLAYBOOK, EVERYWHERE, FILTERED, LIMIT, LIMITS
from noetl.server.auth import PUBLIC, SCOPE, UNVERIFIED_SCOPE
from tests.api.servers import Answer, Api
from tests.playbooks import HEAD

SIDES = ("in", "out")
_LARGE = (
    "workflow:\n- step: start\n  loop: {in: [1], iterator: number}\n  tool: {kind: noop}\n  next: {arcs: [{step: large}]}\n"
    '- step: large\n  tool: {kind: python, code: "def main(): return [str(n) for n in range(50_000)]"}\n'
)
_WAITING = "workflow:\n- step: start\n  tool: {kind: wait, signal: go}\n"
_TRIGGERS = (
    "triggers:\n- {name: poll, kind: interval, every_s: 3600}\n"
    "- {name: post, kind: webhook, path: SIDE/hook}\n"
    "- {name: put, kind: webhook, path: SIDE/hook, method: PUT}\n"
    "- {name: get, kind: webhook, path: SIDE/hook, method: GET}\n"
)
_NOOP = "executor: {spec: {methods: [POST, GET]}}\nworkflow:\n- step: start\n  tool: {kind: noop}\n"


class Declared(NamedTuple):
    """A route with its options."""

    key: str  # method and path
    scope: str  # of a webhook: that of a request to one without `verify`
    limit: str | None


def declared(app: Litestar) -> Iterator[Declared]:
    for route in app.routes:
        if isinstance(route, ASGIRoute):  # /mcp sends requests to the other routes: see test_agents
            continue
        assert isinstance(route, HTTPRoute)
        for handler in route.route_handlers:
            assert isinstance(handler, HTTPRouteHandler)
            for method in sorted(handler.http_methods - {"OPTIONS", "HEAD"}):
                scope = handler.opt.get(UNVERIFIED_SCOPE) or handler.opt.get(SCOPE, "")
                yield Declared(f"{method} {route.path}", scope, handler.opt.get(LIMIT))


def playbook(path: str, body: str = _NOOP, pool: str = "default") -> str:
    text = HEAD.replace("path: t", f"path: {path}") + body
    if pool == "default":
        return text
    return text.replace("- step: start\n", f"- step: start\n  spec: {{pool: {pool}}}\n")


class Scene(NamedTuple):
    """The same objects for each side: inside and outside of `in/*`, or on another pool."""

    api: Api
    pool: str
    ended: dict[str, str]  # side → an execution with a large result
    waiting: dict[str, str]  # side → an execution that runs
    digests: dict[str, str]  # side → the digest of a playbook
    results: dict[str, str]  # side → the digest of a result
    token_ids: dict[str, str]  # side → a token whose role has this path

    async def token(self, role: str, *paths: str, pools: tuple[str, ...] = ("*",)) -> str:
        grant = {"role": role, "paths": list(paths), "pools": list(pools)}
        made = await self.api.post("/tokens", {"name": f"{role} of {paths[0]}", "roles": [grant]}, status=201)
        return str(made["token"])

    def noop(self, side: str) -> str:
        """The text of a registered playbook."""
        return playbook(f"{side}/noop", pool=self.pool)


async def prepare(api: Api, sides: tuple[str, ...] = SIDES, pool: str = "default") -> Scene:
    """`api.token` is the token of an admin."""
    ended: dict[str, str] = {}
    waiting: dict[str, str] = {}
    digests: dict[str, str] = {}
    results: dict[str, str] = {}
    token_ids: dict[str, str] = {}
    for side in sides:
        ended[side] = await api.run(playbook(f"{side}/large", _LARGE, pool))
        shown = await api.get(f"/executions/{ended[side]}")
        results[side] = shown["output"]["ref"]["meta"]["sha256"]
        assert (await api.ask("PUT", f"/saved?path={side}/noop&key=cursor", {"value": "1"})).status == 200
        await api.register(playbook(f"{side}/noop", pool=pool) + "# the first version\n")
        digests[side] = (await api.register(playbook(f"{side}/noop", pool=pool)))["digest"]
        await api.register(playbook(f"{side}/waiting", _WAITING, pool))
        await api.register(playbook(f"{side}/timed", _TRIGGERS.replace("SIDE", side) + _NOOP, pool))
        waiting[side] = (await api.post("/executions", {"path": f"{side}/waiting"}, status=201))["execution_id"]
        assert (await api.ask("PUT", f"/credentials/{side}/db", {"value": "hidden-value"})).status == 200
        roles = [{"role": "viewer", "paths": [f"{side}/*"]}]
        token_ids[side] = (await api.post("/tokens", {"name": f"of {side}/", "roles": roles}, status=201))["id"]
    return Scene(api, pool, ended, waiting, digests, results, token_ids)


class Sent(NamedTuple):
    """A request, and the status that a caller with the scope gets for an object outside of its paths."""

    method: str
    path: str
    body: Any = None
    outside: int = 404
    yaml: bool = False


def _of_execution(method: str, rest: str, body: Any = None) -> Callable[[Scene, str], Sent]:
    return lambda scene, side: Sent(method, f"/executions/{scene.ended[side]}{rest}", body)


def _always(method: str, path: str) -> Callable[[Scene, str], Sent]:
    return lambda _scene, _side: Sent(method, path)


def _named(method: str, path: str, body: Any = None, *, outside: int = 404) -> Callable[[Scene, str], Sent]:
    """`{side}` in the path and in the values of the body is replaced."""

    def send(_scene: Scene, side: str) -> Sent:
        filled = {name: value.replace("{side}", side) for name, value in body.items()} if body else None
        return Sent(method, path.replace("{side}", side), filled, outside)

    return send


def _register(scene: Scene, side: str) -> Sent:
    return Sent("POST", "/playbooks", scene.noop(side).encode(), 403, yaml=True)


def _check(scene: Scene, side: str) -> Sent:
    return Sent("POST", "/playbooks/check", scene.noop(side).encode(), 200, yaml=True)


def _token(_scene: Scene, side: str) -> Sent:
    return Sent("POST", "/tokens", {"name": "made", "roles": [{"role": "viewer", "paths": [f"{side}/*"]}]}, 403)


_EXECUTION = "/executions/{execution_id:str}"
REQUESTS: dict[str, Callable[[Scene, str], Sent]] = {
    "GET /metrics": _always("GET", "/metrics"),
    "GET /health/history": _always("GET", "/health/history"),
    "GET /whoami": _always("GET", "/whoami"),
    "GET /credentials": _always("GET", "/credentials"),
    "PUT /credentials/{name:path}": _named("PUT", "/credentials/{side}/db", {"value": "hidden-value"}, outside=403),
    "DELETE /credentials/{name:path}": _named("DELETE", "/credentials/{side}/db"),
    "GET /audit": _always("GET", "/audit"),
    "GET /sessions": _always("GET", "/sessions"),
    "DELETE /sessions/{id:str}": _always("DELETE", "/sessions/unknown"),
    "GET /tools": _always("GET", "/tools"),
    "GET /tools/{kind:str}": _always("GET", "/tools/http"),
    "GET /workers": _always("GET", "/workers"),
    "GET /limits": _always("GET", "/limits"),
    "GET /tokens": _always("GET", "/tokens"),
    "POST /tokens": _token,
    "DELETE /tokens/{id:str}": lambda scene, side: Sent("DELETE", f"/tokens/{scene.token_ids[side]}"),
    "POST /playbooks": _register,
    "POST /run/{path:path}": _named("POST", "/run/{side}/noop"),
    "GET /run/{path:path}": _named("GET", "/run/{side}/noop"),
    "GET /playbooks": _always("GET", "/playbooks"),
    "GET /playbooks/one": _named("GET", "/playbooks/one?path={side}/noop"),
    "GET /playbooks/versions": _named("GET", "/playbooks/versions?path={side}/noop"),
    "GET /playbooks/diff": _named("GET", "/playbooks/diff?path={side}/noop&from=1&to=1"),
    "POST /playbooks/rollback": lambda _scene, side: Sent(
        "POST", "/playbooks/rollback", {"path": f"{side}/noop", "version": 1}
    ),
    "POST /playbooks/archive": _named("POST", "/playbooks/archive?path={side}/noop"),
    "GET /texts/{digest:str}": lambda scene, side: Sent("GET", f"/texts/{scene.digests[side]}"),
    "POST /playbooks/check": _check,
    "POST /playbooks/test": _named("POST", "/playbooks/test", {"text": "", "tests": ""}),
    "POST /playbooks/what-if": _named("POST", "/playbooks/what-if", {"text": "", "path": "{side}/noop"}),
    "POST /playbooks/explain": _named("POST", "/playbooks/explain", {"path": "{side}/noop"}),
    "POST /playbooks/graph": lambda scene, side: Sent("POST", "/playbooks/graph", {"digest": scene.digests[side]}),
    "GET /playbooks/schema": _always("GET", "/playbooks/schema"),
    "POST /executions": _named("POST", "/executions", {"path": "{side}/large"}),
    "GET /executions": _always("GET", "/executions"),
    "POST /executions/bulk": lambda _scene, _side: Sent(
        "POST", "/executions/bulk", {"action": "cancel", "filter": {}, "dry_run": True}, 200
    ),
    "GET /playbooks/overviews": lambda _scene, side: Sent("GET", f"/playbooks/overviews?path={side}/noop", None, 200),
    "GET /playbooks/uses": _always("GET", "/playbooks/uses?credential=pg"),
    "GET /playbooks/history": _named("GET", "/playbooks/history?path={side}/noop"),
    "GET /executions/find": lambda scene, side: Sent("GET", f"/executions/find?prefix={scene.ended[side]}", None, 200),
    "GET /executions/last": _always("GET", "/executions/last"),
    "GET /executions/glances": lambda scene, side: Sent(
        "GET", f"/executions/glances?ids={scene.ended[side]}", None, 200
    ),
    f"GET {_EXECUTION}": _of_execution("GET", ""),
    f"DELETE {_EXECUTION}": lambda scene, side: Sent("DELETE", f"/executions/{scene.waiting[side]}"),
    f"GET {_EXECUTION}/head": _of_execution("GET", "/head"),
    f"GET {_EXECUTION}/tree": _of_execution("GET", "/tree"),
    f"GET {_EXECUTION}/events": _of_execution("GET", "/events"),
    f"GET {_EXECUTION}/log": _of_execution("GET", "/log"),
    f"GET {_EXECUTION}/state": _of_execution("GET", "/state"),
    f"GET {_EXECUTION}/output": _of_execution("GET", "/output"),
    f"GET {_EXECUTION}/why": _of_execution("GET", "/why?step=start"),
    f"GET {_EXECUTION}/stream": _of_execution("GET", "/stream"),
    f"GET {_EXECUTION}/growth": _of_execution("GET", "/growth"),
    f"GET {_EXECUTION}/diff": lambda scene, side: Sent(
        "GET", f"/executions/{scene.ended[side]}/diff?with={scene.ended[side]}"
    ),
    f"GET {_EXECUTION}/logs": _of_execution("GET", "/logs"),
    f"GET {_EXECUTION}/logs/text": _of_execution("GET", "/logs/text"),
    f"GET {_EXECUTION}/logs/stream": _of_execution("GET", "/logs/stream"),
    f"GET {_EXECUTION}/timeline": _of_execution("GET", "/timeline"),
    f"GET {_EXECUTION}/moment": _of_execution("GET", "/moment?at=1"),
    f"GET {_EXECUTION}/facts": _of_execution("GET", "/facts"),
    f"GET {_EXECUTION}/facts/{{seq:int}}": _of_execution("GET", "/facts/1"),
    f"POST {_EXECUTION}/cancel": _of_execution("POST", "/cancel"),
    f"POST {_EXECUTION}/pause": _of_execution("POST", "/pause"),
    f"POST {_EXECUTION}/resume": _of_execution("POST", "/resume"),
    f"POST {_EXECUTION}/fork": _of_execution("POST", "/fork", {"dry_run": True}),
    f"POST {_EXECUTION}/retry": _of_execution("POST", "/retry"),
    f"GET {_EXECUTION}/decisions": _of_execution("GET", "/decisions"),
    f"GET {_EXECUTION}/debug": _of_execution("GET", "/debug"),
    f"GET {_EXECUTION}/debug/scopes": _of_execution("GET", "/debug/scopes"),
    f"POST {_EXECUTION}/debug/evaluate": _of_execution("POST", "/debug/evaluate", {"expression": "workload"}),
    f"POST {_EXECUTION}/debug/continue": _of_execution("POST", "/debug/continue", {}),
    f"POST {_EXECUTION}/debug/step": _of_execution("POST", "/debug/step", {"at": "start#1"}),
    f"POST {_EXECUTION}/debug/set": _of_execution("POST", "/debug/set", {"at": "start#1", "set": {"ctx.n": 1}}),
    f"GET {_EXECUTION}/breakpoints": _of_execution("GET", "/breakpoints"),
    f"POST {_EXECUTION}/breakpoints": _of_execution("POST", "/breakpoints", {"place": "start"}),
    f"DELETE {_EXECUTION}/breakpoints": _of_execution("DELETE", "/breakpoints"),
    f"GET {_EXECUTION}/labels": _of_execution("GET", "/labels"),
    f"POST {_EXECUTION}/labels": _of_execution("POST", "/labels", {"labels": {"seen": "yes"}}),
    f"POST {_EXECUTION}/signal": lambda scene, side: Sent(
        "POST", f"/executions/{scene.waiting[side]}/signal", {"name": "other"}
    ),
    "GET /results/{execution_id:str}/{digest:str}": lambda scene, side: Sent(
        "GET", f"/results/{scene.ended[side]}/{scene.results[side]}"
    ),
    f"GET {_EXECUTION}/iterations": _of_execution("GET", "/iterations?run=start%231"),
    f"GET {_EXECUTION}/iterations/one": _of_execution("GET", "/iterations/one?run=start%231&index=0"),
    f"GET {_EXECUTION}/rows": lambda scene, side: Sent(
        "GET", f"/executions/{scene.ended[side]}/rows?digest={scene.results[side]}"
    ),
    f"GET {_EXECUTION}/rows/file": lambda scene, side: Sent(
        "GET", f"/executions/{scene.ended[side]}/rows/file?digest={scene.results[side]}"
    ),
    "GET /triggers": _always("GET", "/triggers"),
    "GET /triggers/calendar": _always("GET", "/triggers/calendar?since=2026-01-01T00:00:00Z"),
    "GET /triggers/one": _named("GET", "/triggers/one?path={side}/timed&name=poll"),
    "POST /triggers/pause": _named("POST", "/triggers/pause?path={side}/timed&name=poll"),
    "POST /triggers/resume": _named("POST", "/triggers/resume?path={side}/timed&name=poll"),
    "POST /triggers/fire": _named("POST", "/triggers/fire?path={side}/timed&name=poll"),
    "POST /hooks/{path:path}": _named("POST", "/hooks/{side}/hook"),
    "PUT /hooks/{path:path}": _named("PUT", "/hooks/{side}/hook"),
    "GET /hooks/{path:path}": _named("GET", "/hooks/{side}/hook"),
    "GET /stream": _always("GET", "/stream"),
    "GET /saved": _named("GET", "/saved?path={side}/noop"),
    "GET /saved/history": _named("GET", "/saved/history?path={side}/noop&key=cursor"),
    "PUT /saved": _named("PUT", "/saved?path={side}/noop&key=cursor", {"value": "1"}),
    "DELETE /saved": _named("DELETE", "/saved?path={side}/noop&key=cursor"),
    "GET /schema/openapi.json": _always("GET", "/schema/openapi.json"),
    "GET /schema": _always("GET", "/schema"),
    "GET /schema/{path:str}": _always("GET", "/schema/other"),
}
# A caller that reaches the route gets one of these. 409: the execution has ended. 503: there may be no subscribers.
REACHED = {200, 201, 202, 204, 409, 503}
# They answer 404 to everyone with the scope: those of the framework, one for a session that does not exist, and those
# that this server does not have: tests/api/test_trials.py has their roles.
_EMPTY = {
    "GET /schema", "GET /schema/{path:str}", "DELETE /sessions/{id:str}", "POST /playbooks/test",
    "POST /playbooks/what-if",
}  # fmt: skip
_OF_ALL_POOLS = {"POST /tokens", "DELETE /tokens/{id:str}"}  # the roles of their tokens have all pools
_MARKS = ("out/", "of out")


async def check_route(scene: Scene, route: Declared, role: str, side: str, token: str, *, limited: bool) -> None:
    """One request of a caller whose role is limited to `in/*`, or not limited."""
    sent = REQUESTS[route.key](scene, side)
    answer = await _ask(scene.api, sent, token)
    where = (route, role, side, limited, answer.status, answer.body[:400])
    if not permits(ROLES[role], route.scope):
        assert (answer.status, answer.json["code"]) == (403, "low-scope"), where
    elif limited and route.limit == EVERYWHERE:
        assert (answer.status, answer.json["code"]) == (403, "limited-role"), where
    elif limited and side == "out" and route.limit in (BY_EXECUTION, BY_NAME, BY_PLAYBOOK):
        assert answer.status == sent.outside, where
        if answer.status == 403:
            assert answer.json["code"] == "outside-limits", where
    else:
        assert answer.status in (REACHED | {404} if route.key in _EMPTY else REACHED), where
        assert route.limit in LIMITS, where
        if limited and route.limit == FILTERED:
            assert not any(mark in answer.body.decode() for mark in _MARKS), where
            assert scene.ended["out"] not in answer.body.decode(), where


async def check_pools(api: Api, routes: list[Declared]) -> list[str]:
    """Every route for playbooks on the pool `gpu`, with an admin of another pool. Returns the requests that are refused
    because of the pool.
    """
    scene, refused = await prepare(api, ("gpu",), "gpu"), []
    pools = {"default": ("default",), "gpu": ("default", "gpu")}
    tokens = {pool: await scene.token("admin", "*", pools=names) for pool, names in pools.items()}
    for route in sorted(routes, key=_changes_last):
        for pool, token in tokens.items():
            answer = await _ask(scene.api, REQUESTS[route.key](scene, "gpu"), token)
            where = (route, pool, answer.status, answer.body[:400])
            if route.limit == EVERYWHERE:
                assert (answer.status, answer.json["code"]) == (403, "limited-role"), where
            elif route.key in _OF_ALL_POOLS:
                assert answer.status in (403, 404), where
            elif pool == "default" and (
                route.limit == BY_PLAYBOOK or (route.limit == BY_EXECUTION and route.scope != "read")
            ):
                assert (answer.status, answer.json["code"]) == (403, "outside-limits"), where
                assert '"gpu"' in answer.json["detail"], where
                refused.append(route.key)
            else:
                assert answer.status in (REACHED | {404} if route.key in _EMPTY else REACHED), where
            await _restore(scene, route)
    return refused


async def _ask(api: Api, sent: Sent, token: str) -> Answer:
    headers = {"Content-Type": "text/yaml"} if sent.yaml else {}
    if sent.path != "/stream":
        return await api.ask(sent.method, sent.path, sent.body, token=token, headers=headers)
    authorization = {"Authorization": f"Bearer {token}"}
    async with api.session.get(api.url + sent.path, headers=authorization) as response:  # it does not end by itself
        return Answer(response.status, {}, await response.content.readany())


async def check_matrix(api: Api, routes: list[Declared]) -> int:
    """Every route with every role, inside and outside of its paths, with and without limits. Returns the requests."""
    count = 0
    for role in ROLES:
        scene = await prepare(api)
        tokens = {True: await scene.token(role, "in/*"), False: await scene.token(role, "*")}
        for route in sorted(routes, key=_changes_last):
            for limited, token in tokens.items():
                for side in reversed(SIDES):
                    await check_route(scene, route, role, side, token, limited=limited)
                    count += 1
                    await _restore(scene, route)
    return count


def _changes_last(route: Declared) -> bool:
    return route.key in ("POST /playbooks/archive", "DELETE /credentials/{name:path}", "DELETE /tokens/{id:str}")


async def _restore(scene: Scene, route: Declared) -> None:
    """Make again what a request may have removed."""
    for side in scene.ended:
        if route.key == "DELETE /credentials/{name:path}":
            await scene.api.ask("PUT", f"/credentials/{side}/db", {"value": "hidden-value"})
        elif route.key == "DELETE /saved":
            await scene.api.ask("PUT", f"/saved?path={side}/noop&key=cursor", {"value": "1"})
        elif route.key in ("POST /playbooks/archive", "POST /playbooks/rollback"):
            await scene.api.register(scene.noop(side))
        elif route.key == "DELETE /tokens/{id:str}":
            roles = [{"role": "viewer", "paths": [f"{side}/*"]}]
            made = await scene.api.post("/tokens", {"name": f"of {side}/", "roles": roles}, status=201)
            scene.token_ids[side] = made["id"]


def routes_of(app: Litestar) -> list[Declared]:
    return [each for each in declared(app) if each.scope != PUBLIC]
