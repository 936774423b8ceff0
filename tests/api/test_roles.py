"""Roles limited to paths and pools: every route, and the ways around the limits."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from noetl.control.roles import ROLES, covers, matches
from noetl.ports import RoleGrant
from noetl.server.access import BY_PLAYBOOK, LIMITS
from noetl.server.auth import Caller
from noetl.server.services import ServerSettings
from tests.api.role_matrix import REQUESTS, Scene, check_matrix, check_pools, playbook, prepare, routes_of
from tests.api.servers import ApiServer, serve

# No subscribers are allowed, so that no response is endless.
SETTINGS = ServerSettings(requests_per_s=1e6, requests_burst=1e6, subscribers_max=0)
GPU = "workflow:\n- step: start\n  spec: {pool: gpu}\n  tool: {kind: noop}\n"
DEFAULT_ADMIN = {"role": "admin", "paths": ["*"], "pools": ["default"]}
CALLING = "workflow:\n- step: start\n  tool: {kind: playbook, path: %s}\n"


def test_every_route_declares_how_paths_limit_it_and_is_in_the_matrix(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        found = routes_of(server.app)
        assert {each.key for each in found} == set(REQUESTS), "add the new route to tests/api/role_matrix.py"
        assert {each.key for each in found if each.limit not in LIMITS} == set()

    serve(tmp_path, work)


def test_every_route_with_every_role_inside_and_outside_of_its_paths(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        server.api.token = await server.token("admin", name="root")
        routes = routes_of(server.app)
        assert await check_matrix(server.api, routes) == len(ROLES) * len(routes) * 4

    serve(tmp_path, work, SETTINGS)


async def opened_scene(server: ApiServer) -> Scene:
    server.api.token = await server.token("admin", name="root")
    return await prepare(server.api)


def test_an_object_outside_looks_like_an_unknown_one(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        scene = await opened_scene(server)
        token = await scene.token("admin", "in/*")
        unknown = "00000000-0000-7000-8000-000000000000"
        pairs = [
            (f"/executions/{scene.ended['out']}", f"/executions/{unknown}"),
            (f"/texts/{scene.digests['out']}", f"/texts/{'0' * 64}"),
            ("/playbooks/one?path=out/noop", "/playbooks/one?path=out/none"),
        ]
        for hidden, missing in pairs:
            first, second = [await server.api.ask("GET", path, token=token) for path in (hidden, missing)]
            assert first.status == second.status == 404
            names = {scene.ended["out"]: unknown, scene.digests["out"]: "0" * 64, "out/noop": "out/none"}
            text = first.body.decode()
            for name, other in names.items():
                text = text.replace(name, other)
            assert text == second.body.decode()
        starts: list[dict[str, Any]] = [{"path": "out/noop"}, {"digest": scene.digests["out"]}]
        for body in starts:
            assert (await server.api.ask("POST", "/executions", body, token=token)).status == 404
        assert len((await server.api.get("/executions?path=out/noop"))["items"]) == 0, "nothing was recorded"

    serve(tmp_path, work, SETTINGS)


def test_a_workload_names_no_results_outside_of_the_paths(tmp_path: Path) -> None:
    """The execution would read them for the caller."""

    async def work(server: ApiServer) -> None:
        scene = await opened_scene(server)
        token = await scene.token("operator", "in/*")
        unknown = "00000000-0000-7000-8000-000000000000"
        for owner, status in ((scene.ended["in"], 201), (scene.ended["out"], 404), (unknown, 404)):
            ref = {"type": "relational", "locator": {"execution_id": owner, "run": "start#1"}}
            for workload in ({"rows_ref": ref}, {"page": [{"rows_ref": ref}]}):
                body = {"path": "in/noop", "workload": workload}
                answer = await server.api.ask("POST", "/executions", body, token=token)
                assert answer.status == status, answer.json
                if status == 404:
                    assert answer.json["detail"] == f"no execution {owner}"
                    assert (await server.api.ask("POST", "/run/in/noop", workload, token=token)).status == status
                    fork = f"/executions/{scene.ended['in']}/fork"
                    answer = await server.api.ask("POST", fork, {"workload": workload}, token=token)
                    assert answer.status == status, answer.json

    serve(tmp_path, work, SETTINGS)


def test_a_text_names_no_results_outside_of_the_paths(tmp_path: Path) -> None:
    """Its executions trust the Refs of its defaults and of its triggers, and would read the results for its author."""

    async def work(server: ApiServer) -> None:
        scene = await opened_scene(server)
        token = await scene.token("author", "in/*")
        operator = await scene.token("operator", "in/*")

        async def status(method: str, path: str, body: dict[str, Any], *, token: str | None = token) -> int:
            answer = await server.api.ask(method, path, body, token=token)
            if answer.status == 404:
                assert answer.json["detail"] == f"no execution {owner}"
            return answer.status

        for number, (owner, refused) in enumerate(((scene.ended["in"], 0), (scene.ended["out"], 404))):
            ref = f'{{type: relational, locator: {{execution_id: "{owner}", run: "start#1"}}}}'
            for place, body in enumerate((
                f"workload: {{rows_ref: {ref}}}\n",
                f"workload: {{page: [{{rows_ref: {ref}}}]}}\n",
                f"input: {{rows_ref: {{type: map, default: {ref}}}}}\n",
                f"triggers:\n- {{name: t, kind: interval, every_s: 3600, workload: {{rows_ref: {ref}}}}}\n",
            )):  # fmt: skip
                path = f"in/named{number}{place}"
                text = playbook(path, body + GPU.replace("  spec: {pool: gpu}\n", ""))
                fork = f"/executions/{scene.ended['in']}/fork"
                assert await status("POST", "/playbooks", {"text": text}) == (refused or 201), body
                assert await status("POST", "/executions", {"text": text}) == (refused or 201), body
                assert await status("POST", fork, {"text": text, "dry_run": True}) == (refused or 200), body
                # Of an author without limits, everybody who may run the playbook starts it.
                assert await status("POST", "/playbooks", {"text": text}, token=None) == (201 if refused else 200)
                for each in (operator, token):
                    assert await status("POST", "/executions", {"path": path}, token=each) == 201
                await server.api.post("/playbooks", {"text": playbook(path)}, status=201)
                rollback = {"path": path, "version": 1}
                assert await status("POST", "/playbooks/rollback", rollback) == (refused or 200), body

    serve(tmp_path, work, SETTINGS)


def test_a_text_is_started_within_the_paths_only(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        scene = await opened_scene(server)
        ask = server.api.ask
        author, operator = await scene.token("author", "in/*"), await scene.token("operator", "in/*")
        new = {side: {"text": playbook(f"{side}/new")} for side in ("in", "out")}
        known = {side: {"text": playbook(f"{side}/noop")} for side in ("in", "out")}
        assert (await ask("POST", "/executions", known["in"], token=operator)).status == 201
        assert (await ask("POST", "/executions", known["out"], token=operator)).status == 403
        assert (await ask("POST", "/executions", new["in"], token=operator)).status == 403
        assert (await ask("POST", "/executions", new["in"], token=author)).status == 201
        for body in (new["out"], known["out"]):
            refused = await ask("POST", "/executions", body, token=author)
            assert (refused.status, refused.json["code"]) == (403, "outside-limits")

    serve(tmp_path, work, SETTINGS)


def test_two_roles_are_not_mixed(tmp_path: Path) -> None:
    """An operator of one path who may read another one cannot run there."""

    async def work(server: ApiServer) -> None:
        scene = await opened_scene(server)
        roles = [{"role": "operator", "paths": ["in/*"]}, {"role": "viewer", "paths": ["out/*"]}]
        token = (await server.api.post("/tokens", {"name": "both", "roles": roles}, status=201))["token"]
        assert (await server.api.ask("GET", f"/executions/{scene.ended['out']}", token=token)).status == 200
        for path, body in (
            ("/executions", {"path": "out/noop"}),
            (f"/executions/{scene.ended['out']}/retry", None),
        ):
            refused = await server.api.ask("POST", path, body, token=token)
            assert (refused.status, refused.json["code"]) == (403, "low-scope")
        assert (await server.api.ask("POST", "/executions", {"path": "in/noop"}, token=token)).status == 201

    serve(tmp_path, work, SETTINGS)


def test_an_author_cannot_call_a_playbook_outside_of_its_paths(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        scene = await opened_scene(server)
        token = await scene.token("author", "in/*")

        async def register(body: str) -> int:
            text = playbook("in/calling", body).encode()
            headers = {"Content-Type": "text/yaml"}
            return (await server.api.ask("POST", "/playbooks", text, token=token, headers=headers)).status

        assert await register(CALLING % "in/noop") == 201
        assert await register(CALLING % "out/noop") == 403
        assert await register(CALLING % '"{{ workload.path }}"') == 403
        started = await server.api.ask(
            "POST", "/executions", {"text": playbook("in/calling", CALLING % "out/noop")}, token=token
        )
        assert started.status == 403

    serve(tmp_path, work, SETTINGS)


def test_pools_limit_starting_commanding_and_registering(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        scene = await opened_scene(server)
        text = playbook("in/gpu", GPU)
        digest = (await server.api.register(text))["digest"]
        id = (await server.api.post("/executions", {"digest": digest}, wait=120))["execution_id"]
        limited = await scene.token("author", "in/*", pools=("default",))
        free = await scene.token("author", "in/*", pools=("default", "gpu"))
        for method, path, body in (
            ("POST", "/executions", {"path": "in/gpu"}),
            ("POST", "/executions", {"digest": digest}),
            ("POST", "/executions", {"text": text}),
            ("POST", "/playbooks", {"text": text}),
            ("POST", f"/executions/{id}/retry", None),
        ):
            refused = await server.api.ask(method, path, body, token=limited)
            assert (refused.status, refused.json["code"]) == (403, "outside-limits"), path
            assert (await server.api.ask(method, path, body, token=free)).status in (200, 201, 409), path
        assert (await server.api.ask("GET", f"/executions/{id}", token=limited)).status == 200, (
            "pools do not limit reading"
        )

    serve(tmp_path, work, SETTINGS)


def test_pools_limit_every_request_that_starts_commands_or_registers(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        server.api.token = await server.token("admin", name="root")
        refused = set(await check_pools(server.api, routes_of(server.app)))
        named = {each.key for each in routes_of(server.app) if each.limit == BY_PLAYBOOK}
        assert named == {
            "POST /executions", "POST /run/{path:path}", "GET /run/{path:path}", "POST /triggers/fire",
            "POST /triggers/pause", "POST /triggers/resume", "PUT /saved", "DELETE /saved", "POST /playbooks",
            "POST /playbooks/rollback", "POST /hooks/{path:path}", "PUT /hooks/{path:path}", "GET /hooks/{path:path}",
        }  # fmt: skip
        assert named < refused
        commands = {
            each.key for each in routes_of(server.app) if "{execution_id:str}" in each.key and each.scope == "run"
        }
        assert refused == named | commands
        bulk = {"action": "cancel", "filter": {"path_prefix": "gpu/"}}
        limited = (await server.api.post("/tokens", {"name": "l", "roles": [DEFAULT_ADMIN]}, status=201))["token"]
        items = (await server.api.ask("POST", "/executions/bulk", bulk, token=limited)).json["items"]
        assert {(each["result"], 'the pool "gpu"' in each["detail"]) for each in items} == {("refused", True)}

    serve(tmp_path, work, SETTINGS)


def test_children_outside_are_left_out_of_a_tree(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        scene = await opened_scene(server)
        id = await server.api.run(playbook("in/calling", CALLING % "out/noop"))
        assert len((await server.api.get(f"/executions/{id}/tree"))["children"]) == 1
        token = await scene.token("viewer", "in/*")
        tree = (await server.api.ask("GET", f"/executions/{id}/tree", token=token)).json
        assert (tree["children"], tree["left_out"]) == ([], 0)

    serve(tmp_path, work, SETTINGS)


def test_lists_contain_everything_within_the_paths(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        scene = await opened_scene(server)
        token = await scene.token("viewer", "in/*", "out/noop")
        server.api.token, admin = token, server.api.token
        assert {each["path"] for each in (await server.api.get("/playbooks"))["items"]} == {
            "in/large", "in/noop", "in/timed", "in/waiting", "out/noop",
        }  # fmt: skip
        assert [each["path"] for each in (await server.api.get("/playbooks?limit=2"))["items"]] == [
            "in/large",
            "in/noop",
        ]
        assert {each["path"] for each in (await server.api.get("/executions"))["items"]} == {"in/large", "in/waiting"}
        assert (await server.api.get("/executions?path=out/large"))["items"] == []
        assert (await server.api.get("/executions?path_prefix=out/"))["items"] == []
        assert [each["name"] for each in (await server.api.get("/credentials"))["items"]] == ["in/db"]
        assert (await server.api.get("/whoami"))["roles"] == [
            {"role": "viewer", "paths": ["in/*", "out/noop"], "pools": ["*"]}
        ]
        assert (await server.api.get("/executions/last"))["execution_id"] == scene.waiting["in"]
        server.api.token = admin

    serve(tmp_path, work, SETTINGS)


def test_the_stream_of_all_executions_contains_those_within_the_paths(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        scene = await opened_scene(server)
        headers = {"Authorization": f"Bearer {await scene.token('viewer', 'in/*')}"}
        async with server.api.session.get(server.api.url + "/stream", headers=headers) as response:
            await response.content.readuntil(b"\n\n")
            for side in ("out", "in"):
                path = f"/executions/{scene.waiting[side]}/signal"
                while (await server.api.ask("POST", path, {"name": "go"})).status != 200:
                    pass  # its task does not wait yet
            received = b""
            async with asyncio.timeout(30):
                while b'"status":"ok"' not in received:
                    received += await response.content.readany()
        assert scene.waiting["in"].encode() in received
        assert scene.waiting["out"].encode() not in received

    serve(tmp_path, work, ServerSettings(requests_burst=1e6))


def test_an_admin_with_limits_grants_at_most_its_own(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        scene = await opened_scene(server)
        token = await scene.token("admin", "in/*", pools=("default",))

        async def create(**body: Any) -> int:
            return (await server.api.ask("POST", "/tokens", {"name": "x", **body}, token=token)).status

        own = {"paths": ["in/*"], "pools": ["default"]}
        assert await create(roles=[{"role": "admin", **own}]) == 201
        assert await create(roles=[{"role": "author", **own, "paths": ["in/deep/*", "in/x"]}]) == 201
        for paths, pools in (
            (["*"], ["default"]),
            (["in"], ["default"]),
            (["in/*", "out/x"], ["default"]),
            (["in/*"], ["*"]),
        ):
            assert await create(roles=[{"role": "viewer", "paths": paths, "pools": pools}]) == 403
        assert await create(scopes=["read"]) == 403
        listed = (await server.api.ask("GET", "/tokens", token=token)).json["items"]
        assert {each["name"] for each in listed} == {"admin of in/*", "x"}

    serve(tmp_path, work, SETTINGS)


@pytest.mark.parametrize(
    "body",
    [
        {"roles": [{"role": "owner"}]},
        {"roles": [{"role": "viewer", "paths": []}]},
        {"roles": [{"role": "viewer", "paths": ["ord*"]}]},
        {"roles": [{"role": "viewer", "paths": ["a*/b"]}]},
        {"roles": [{"role": "viewer", "paths": [""]}]},
        {"roles": [{"role": "viewer", "pools": ["g*"]}]},
        {"roles": [{"role": "viewer", "path": "x"}]},
        {"roles": [{"role": "viewer"}], "scopes": ["read"]},
        {},
    ],
)
def test_wrong_roles_are_refused(tmp_path: Path, body: dict[str, Any]) -> None:
    async def work(server: ApiServer) -> None:
        assert (await server.api.ask("POST", "/tokens", {"name": "x", **body})).status in (400, 422)

    serve(tmp_path, work)


def test_paths() -> None:
    assert matches("orders/*", "orders/import")
    assert matches("*", "anything/at/all")
    for path in ("orders", "order", "ordersx/import", "a/orders/import"):
        assert not matches("orders/*", path)
    assert not matches("orders", "orders/import")
    assert covers(["a/*"], "a/b/*")
    assert covers(["a/*"], "a/b")
    assert not covers(["a/b/*"], "a/*")
    assert not covers(["a/b"], "a/b/*")
    assert not covers(["a/*"], "*")


def test_a_token_of_scopes_has_no_limits() -> None:
    caller = Caller("1", "n", frozenset({"run"}))
    assert (caller.paths("read"), caller.pools("run")) == (None, None)
    assert caller.may("run", "any/path")
    assert not caller.may("write", "any/path")
    limited = Caller("1", "n", frozenset({"run"}), (RoleGrant(role="operator", paths=("a/*",)),))
    assert not limited.may("run", "b/x")
