"""The audit trail of a server: every change and every denied request, without values, and bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from noetl.errors import Unavailable
from noetl.ports import AuditRecord, AuditTrailEntry
from noetl.server.audit import DENIED_MAX, DENIED_S, FLUSH_S, WAITING_MAX, AuditTrail
from noetl.server.auth import Caller
from noetl.server.services import ServerSettings
from noetl.testing.fake_clock import FakeClock
from tests.api.role_matrix import REQUESTS, Scene, Sent, playbook, prepare
from tests.api.servers import FAILING, NOOP, WAITING, ApiServer, serve
from tests.playbooks import HEAD

SETTINGS = ServerSettings(requests_per_s=1e6, requests_burst=1e6, subscribers_max=0)
CANARY = "hunter22-canary"


async def entries(server: ApiServer, **wanted: Any) -> list[dict[str, Any]]:
    """The oldest first."""
    items: list[dict[str, Any]] = (await server.api.get("/audit", **wanted))["items"]
    return items[::-1]


def test_every_change_is_recorded_with_its_caller(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        api.token = await server.token("admin", name="root")
        await api.register(WAITING)
        id = (await api.post("/executions", {"path": "waiting"}, status=201))["execution_id"]
        for command, body in (("pause", None), ("resume", None), ("signal", {"name": "go", "data": CANARY})):
            await api.post(f"/executions/{id}/{command}", body)
        await api.ask("PUT", "/credentials/pg", {"value": CANARY})
        await api.ask("DELETE", "/credentials/pg")
        made = await api.post("/tokens", {"name": "ci", "roles": [{"role": "viewer", "paths": ["a/*"]}]}, status=201)
        await api.ask("DELETE", f"/tokens/{made['id']}")
        await api.ask("POST", "/playbooks/archive?path=waiting")
        found = [(each["action"], each["what"], each["target"]) for each in await entries(server)]
        own = str(api.token).split("_")[1]
        assert found == [
            ("sign-in", "token", own),
            ("register", "register", "waiting@1"),
            ("start", "start", id),
            ("command", "pause", id),
            ("command", "resume", id),
            ("command", "signal", id),
            ("secret", "set", "pg"),
            ("secret", "remove", "pg"),
            ("token", "create", made["id"]),
            ("token", "revoke", made["id"]),
            ("register", "archive", "waiting"),
        ]
        whole = await entries(server)
        assert {(each["who"], each["caller"], each["address"]) for each in whole} == {("root", own, "127.0.0.1")}
        assert whole[2]["detail"] == "waiting", "the path of the playbook"
        assert whole[8]["detail"] == "ci: viewer a/*"
        assert CANARY not in str(whole)
        assert made["token"].split("_", 2)[2] not in str(whole)  # the secret may contain "_" itself

    serve(tmp_path, work, SETTINGS)


def test_denied_requests_are_counted_without_their_values(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        api.token = await server.token("admin", name="root")
        id = await api.run(NOOP)
        reader = await server.token("read", name="reader")
        roles = [{"role": "viewer", "paths": ["other/*"]}]
        limited = (await api.post("/tokens", {"name": "limited", "roles": roles}, status=201))["token"]
        for _ in range(5):
            await api.ask("GET", f"/executions/{CANARY}", token="noetl_0000_" + CANARY)
            await api.ask("PUT", f"/credentials/{CANARY}", {"value": CANARY}, token=reader)
            await api.ask("GET", f"/executions/{id}", token=limited)
        found = await entries(server, action="denied")
        assert [(each["who"], each["what"], each["detail"], each["times"]) for each in found] == [
            ("", "GET /executions/{execution_id}", "bad-token", 5),
            ("reader", "PUT /credentials/{name}", "low-scope", 5),
            ("limited", "GET /executions/{execution_id}", "outside-paths", 5),
        ]
        assert CANARY not in str(await entries(server))

    serve(tmp_path, work, SETTINGS)


def test_filters_and_pages(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        for number in range(5):
            await api.ask("PUT", f"/credentials/s{number}", {"value": CANARY})
        page = await api.get("/audit", action="secret", limit=2)
        assert [each["target"] for each in page["items"]] == ["s4", "s3"]
        page = await api.get("/audit", action="secret", limit=2, before=page["next"])
        assert [each["target"] for each in page["items"]] == ["s2", "s1"]
        assert await entries(server, who="nobody") == await entries(server, since="2100-01-01T00:00:00Z") == []
        assert len(await entries(server, who="local", since="2020-01-01T00:00:00Z")) == 5
        for wrong in ("action=x", "since=yesterday", "since=2026-01-01T00:00:00", "before=0"):
            assert (await api.ask("GET", f"/audit?{wrong}")).status == 400, wrong

    serve(tmp_path, work)


def test_entries_survive_the_end_of_the_server(tmp_path: Path) -> None:
    started: list[str] = []

    async def first(server: ApiServer) -> None:
        started.append(await server.api.run(NOOP))

    async def second(server: ApiServer) -> None:
        found = await entries(server, action="start")
        assert [(each["target"], each["detail"]) for each in found] == [(started[0], "t")], "started by its digest"

    serve(tmp_path, first)
    serve(tmp_path, second)


WEBHOOKS = HEAD.replace("path: t", "path: shop/orders") + (
    f"keychain:\n- {{name: shop_key, kind: bearer, token: {CANARY}}}\n"
    "triggers:\n"
    "- {name: open, kind: webhook, path: open, key: '{{ request.query.key }}'}\n"
    "- {name: signed, kind: webhook, path: signed, verify: {token: shop_key}}\n"
    "- {name: poll, kind: interval, every_s: 1}\n"
    "workflow:\n- step: start\n  tool: {kind: wait, signal: go}\n"
)


def test_starts_by_webhooks_are_recorded(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        api.token = await server.token("admin", name="root")
        await api.register(WEBHOOKS)
        runner = await server.token("run", name="runner")
        twice = (f"/hooks/open?key={CANARY}",) * 2  # the second one is a duplicate
        found = [await api.ask("POST", path, token=runner) for path in twice]
        signed = {"Authorization": f"Bearer {CANARY}"}
        found.append(await api.ask("POST", "/hooks/signed", {"order": CANARY}, headers=signed))
        assert [each.status for each in found] == [202, 200, 202]
        trail = [each for each in await entries(server) if each["who"] != "root"]
        own = runner.split("_")[1]
        assert [
            (each["action"], each["what"], each["target"], each["who"], each["caller"], each["detail"])
            for each in trail
        ] == [
            ("sign-in", "token", own, "runner", own, ""),
            ("start", "webhook", found[0].json["execution_id"], "runner", own, "shop/orders:open"),
            ("start", "webhook", found[2].json["execution_id"], "", "", "shop/orders:signed"),
        ]
        assert {each["address"] for each in trail} == {"127.0.0.1"}
        assert CANARY not in str(trail)

    serve(tmp_path, work, SETTINGS)


LIMITED = WEBHOOKS.replace(
    "triggers:", "executor: {spec: {policy: {concurrency: {limit: 1, when_full: refuse}}}}\ntriggers:"
)


def test_refused_starts_are_recorded(tmp_path: Path) -> None:
    """Those that the log of an execution records."""

    async def work(server: ApiServer) -> None:
        api = server.api
        api.token = await server.token("admin", name="root")
        await api.register(LIMITED)
        first = (await api.post("/executions", {"path": "shop/orders"}, status=201))["execution_id"]
        refused = await api.ask("POST", "/executions", {"path": "shop/orders"})
        webhook = await api.ask("POST", "/hooks/open?key=1")
        await api.post(f"/executions/{first}/pause")
        fork = await api.ask("POST", f"/executions/{first}/fork", {})
        missing = await api.ask("POST", "/executions", {"path": "shop/none"})
        assert [each.status for each in (refused, webhook, fork, missing)] == [409, 409, 409, 404]
        found = [(each["what"], each["target"], each["detail"]) for each in await entries(server, action="start")]
        assert found == [
            ("start", first, "shop/orders"),
            ("refused", refused.json["execution_id"], "shop/orders"),
            ("refused", "", "shop/orders:open"),
            ("refused", fork.json["execution_id"], f"shop/orders, fork of {first}"),
            ("refused", missing.json["execution_id"], "shop/none"),
        ]

    serve(tmp_path, work, SETTINGS)


def test_starts_by_schedules_are_in_their_history_and_not_in_the_trail(tmp_path: Path) -> None:
    """No request started them: the log of the execution names the trigger."""

    async def work(server: ApiServer) -> None:
        server.api.token = await server.token("admin", name="root")
        await server.api.register(WEBHOOKS)
        triggers = server.services.triggers
        while not (await triggers.store.get("shop/orders", "poll")).fired:
            await triggers.fire_due()
        ((_, firing),) = await triggers.store.history("shop/orders", "poll")
        first = (await server.api.get(f"/executions/{firing.execution_id}/events"))["items"][0]
        assert "trigger shop/orders:poll" in str(first)
        assert await entries(server, action="start") == []

    serve(tmp_path, work, SETTINGS)


EXECUTION = "/executions/{execution_id:str}"
# Requests that change nothing
LOOKING = {
    "POST /playbooks/check", "POST /playbooks/explain", "POST /playbooks/graph", "POST /playbooks/test",
    "POST /playbooks/what-if", f"POST {EXECUTION}/debug/evaluate",
}  # fmt: skip
# This server has no session of another person. Breakpoints hold an execution in tests/api/test_debug.py, which
# contains their entries.
REFUSED = {
    "DELETE /sessions/{id:str}", f"POST {EXECUTION}/debug/continue", f"POST {EXECUTION}/debug/step",
    f"POST {EXECUTION}/debug/set",
}  # fmt: skip


BULK = {"action": "label", "filter": {"path": "in/large"}, "labels": {"seen": "twice"}}
LAST = [f"POST {EXECUTION}/cancel", "POST /playbooks/archive", f"DELETE {EXECUTION}"]


async def changing(scene: Scene) -> list[tuple[str, Sent]]:
    """The requests of the matrix that are not GET, as they have an effect."""
    failed, finished = await scene.api.run(FAILING), await scene.api.run(NOOP)
    found = {key: make(scene, "in") for key, make in REQUESTS.items() if not key.startswith("GET ")}
    waiting, ended = (f"/executions/{each['in']}" for each in (scene.waiting, scene.ended))
    found |= {
        "GET /run/{path:path}": Sent("GET", "/run/in/noop"),
        f"POST {EXECUTION}/pause": Sent("POST", f"{waiting}/pause"),
        f"POST {EXECUTION}/resume": Sent("POST", f"{waiting}/resume"),
        f"POST {EXECUTION}/breakpoints": Sent("POST", f"{waiting}/breakpoints", {"place": "start"}),
        f"DELETE {EXECUTION}/breakpoints": Sent("DELETE", f"{waiting}/breakpoints"),
        f"POST {EXECUTION}/signal": Sent("POST", f"{waiting}/signal", {"name": "go"}),
        f"POST {EXECUTION}/cancel": Sent("POST", f"/executions/{scene.waiting['out']}/cancel"),
        f"POST {EXECUTION}/fork": Sent("POST", f"{ended}/fork", {}),
        f"POST {EXECUTION}/retry": Sent("POST", f"/executions/{failed}/retry"),
        f"DELETE {EXECUTION}": Sent("DELETE", f"/executions/{finished}"),
        "POST /playbooks": Sent("POST", "/playbooks", {"text": playbook("in/new")}),
        "POST /executions/bulk": Sent("POST", "/executions/bulk", BULK),
    }
    return sorted(((key, sent) for key, sent in found.items() if key not in LOOKING), key=lambda each: each[0] in LAST)


def test_every_request_that_changes_something_is_recorded(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        api.token = await server.token("admin", name="root")
        requests = await changing(await prepare(api))
        missing, refused = {}, set()
        known = len(await entries(server, limit=1_000))
        for key, sent in requests:
            headers = {"Content-Type": "text/yaml"} if sent.yaml else {}
            answer = await api.ask(sent.method, sent.path, sent.body, headers=headers)
            found = len(await entries(server, limit=1_000))
            if answer.status >= 300:
                refused.add(key)
            elif found == known:
                missing[key] = answer.body
            known = found
        assert missing == {}
        assert refused == REFUSED

    serve(tmp_path, work, SETTINGS)


def test_a_text_that_a_start_registers_is_recorded(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        api.token = await server.token("admin", name="root")
        for text in (NOOP, NOOP, WAITING.replace("path: waiting", "path: t")):
            id = (await api.post("/executions", {"text": text}, status=201))["execution_id"]
        await api.post(f"/executions/{id}/fork", {"text": NOOP, "at": 3, "dry_run": True})
        await api.post(f"/executions/{id}/fork", {"text": NOOP, "at": 3})
        found = [(each["action"], each["target"]) for each in await entries(server) if each["action"] != "start"]
        assert found[1:] == [("register", "t@1"), ("register", "t@2"), ("register", "t@1")]

    serve(tmp_path, work, SETTINGS)


# Limits


class Recorder:
    """An AuditStore that can be unavailable."""

    def __init__(self) -> None:
        self.entries: list[AuditTrailEntry] = []
        self.writes = 0
        self.is_down = False

    async def add(self, entries: Sequence[AuditTrailEntry]) -> None:
        if self.is_down:
            raise Unavailable("down")
        self.writes += 1
        self.entries += entries

    async def read(
        self,
        limit: int = 100,
        *,
        before: int | None = None,
        since: datetime | None = None,
        action: str | None = None,
        who: str | None = None,
    ) -> list[AuditRecord]:
        raise NotImplementedError


ANN = Caller("1", "ann", frozenset({"run"}), (), "::1")


def test_a_stranger_cannot_fill_the_disk() -> None:
    async def work() -> None:
        store, clock = Recorder(), FakeClock()
        trail = AuditTrail(store, clock)
        for number in range(10_000):
            trail.deny(None, f"10.0.{number % 256}.{number // 256}", "GET /executions", "no-token")
        for number in range(100):
            trail.deny(Caller(f"id{number}", "ann", frozenset()), "::1", "GET /tokens", "low-scope")
        await trail.flush()
        assert store.entries == [], "a minute is not over"
        clock.advance(DENIED_S)
        await trail.flush()
        assert len(store.entries) == 2 * (DENIED_MAX + 1)
        assert sum(each.times for each in store.entries) == 10_100, "all are counted"
        rest = [each for each in store.entries if each.what == "other requests"]
        assert [(each.who, each.times) for each in rest] == [("", 10_000 - DENIED_MAX), ("*", 100 - DENIED_MAX)]
        await trail.close()

    asyncio.run(work())


def test_starts_are_written_together_within_a_second() -> None:
    async def work() -> None:
        store, clock = Recorder(), FakeClock()
        trail = AuditTrail(store, clock)
        for number in range(500):
            trail.collect(ANN, "start", "start", str(number))
        await clock.settle()
        assert store.entries == []
        clock.advance(FLUSH_S)
        await clock.settle()
        assert ([each.target for each in store.entries], store.writes) == ([str(each) for each in range(500)], 1)
        await trail.close()

    asyncio.run(work())


def test_entries_wait_while_the_store_is_unavailable_and_lost_ones_are_counted() -> None:
    async def work() -> None:
        store = Recorder()
        trail = AuditTrail(store, FakeClock())
        store.is_down = True
        await trail.record(ANN, "token", "create", "x")
        for number in range(WAITING_MAX + 5):
            trail.collect(ANN, "start", "start", str(number))
        store.is_down = False
        await trail.close()
        assert len(store.entries) == WAITING_MAX + 1
        assert store.entries[0].action == "token"
        assert (store.entries[-1].action, store.entries[-1].times) == ("lost", 6)

    asyncio.run(work())


def test_a_token_signs_in_once_an_hour() -> None:
    async def work() -> None:
        store, clock = Recorder(), FakeClock()
        trail = AuditTrail(store, clock)
        for seconds in (0, 10, 3_000, 3_000, 3_601):
            clock.advance(seconds)
            trail.sign_in(ANN)
        await trail.close()
        assert [(each.action, each.who) for each in store.entries] == [("sign-in", "ann")] * 2

    asyncio.run(work())
