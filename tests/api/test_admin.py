"""Credentials, tools, workers, health and metrics over HTTP."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter

from noetl.ports import WorkerInfo
from noetl.server.services import ServerSettings
from tests.api.servers import ApiServer, opened, serve
from tests.playbooks import HEAD

SECRET = "correct horse battery staple"
USING = HEAD + (
    "keychain: [{name: it, kind: stored, key: db/main}]\n"
    "workflow:\n- step: start\n  tool: {kind: python, input: {it: '{{ keychain.it }}'}, "
    'code: "def main(it): return len(it)"}\n'
)


def test_credentials_are_write_only(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        for version in (1, 2):
            answer = await api.ask("PUT", "/credentials/db%2Fmain", {"value": SECRET})
            assert (answer.status, answer.json) == (200, {"name": "db/main", "version": version})
        listed = await api.ask("GET", "/credentials")
        assert [(each["name"], each["version"]) for each in listed.json["items"]] == [("db/main", 2)]
        shown = await api.get("/executions/" + await api.run(USING))
        assert (shown["status"], shown["output"]["data"]) == ("ok", len(SECRET))
        for path in ("/credentials", "/credentials/db%2Fmain"):
            assert SECRET.encode() not in (await api.ask("GET", path)).body
        assert (await api.ask("DELETE", "/credentials/db%2Fmain")).status == 204
        assert (await api.get("/credentials"))["items"] == []
        assert (await api.ask("DELETE", "/credentials/db%2Fmain")).status == 404

    serve(tmp_path, work)


def test_no_error_repeats_the_value_of_a_credential(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        for body, status in (
            ({"value": "abc"}, 422),
            ({"value": "x" * 1_500_000}, 422),
            ({"value": 12345678}, 400),
            ({"value": SECRET, "more": SECRET}, 400),
            ({"valeu": SECRET}, 400),
            (b'{"value": "' + SECRET.encode(), 400),
        ):
            answer = await api.ask("PUT", "/credentials/x", body)
            assert answer.status == status, answer.body
            assert SECRET.encode() not in answer.body
            assert b"12345678" not in answer.body
            assert len(answer.body) < 1_000
        long = await api.ask("PUT", "/credentials/" + "n" * 300, {"value": SECRET})
        assert (long.status, long.json["code"]) == (422, "bad-name")

    serve(tmp_path, work)


def test_tools_are_listed_and_described(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        listed = await server.api.get("/tools")
        assert {"http", "noop", "python"} <= {each["kind"] for each in listed["items"]}
        assert [each["pure"] for each in listed["items"] if each["kind"] == "noop"] == [True]
        http = await server.api.get("/tools/http")
        assert "url" in [field["name"] for field in http["fields"]]
        assert "kind: http" in http["example"]
        answer = await server.api.ask("GET", "/tools/htpp")
        assert (answer.status, 'did you mean "http"?' in answer.json["detail"]) == (404, True)

    serve(tmp_path, work)


def test_workers_are_listed_and_totalled_by_pool(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        now = server.services.clock.now()
        for name, pool, busy, ago in (
            ("a", "gpu", 3, 0),
            ("b", "gpu", 1, 5),
            ("c", "default", 0, 0),
            ("d", "gpu", 9, 60),
        ):
            at = now - timedelta(seconds=ago)
            server.workers.announce(WorkerInfo(name, pool, 4, busy, "host", 1, "0.1", {"zone": "x"}, False, at))
        shown = await server.api.get("/workers")
        assert [each["name"] for each in shown["workers"]] == ["c", "a", "b"]
        assert shown["pools"] == [
            {"pool": "default", "workers": 1, "slots": 4, "busy": 0, "waiting": 0, "oldest_s": None, "share": 4},
            {"pool": "gpu", "workers": 2, "slots": 8, "busy": 4, "waiting": 0, "oldest_s": None, "share": 8},
        ]
        assert server.workers.slots("gpu") == 8

    serve(tmp_path, work)


def test_metrics_have_the_format_of_prometheus(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    Counter("noetl_things", "Things", registry=registry).inc(3)

    async def work(server: ApiServer) -> None:
        assert (await server.api.ask("GET", "/metrics")).status == 401
        server.api.token = await server.token("read")
        answer = await server.api.ask("GET", "/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=")
        assert b"noetl_things_total 3.0\n" in answer.body

    serve(tmp_path, work, ServerSettings(registry=registry))


def test_health_is_independent_of_readiness(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        assert (await server.api.get("/health"))["status"] == "ok"
        assert (await server.api.get("/ready"))["status"] == "ready"

    serve(tmp_path, work)


def test_ready_fails_when_the_server_is_not_ready(tmp_path: Path) -> None:
    import asyncio

    async def work() -> None:
        async with opened(tmp_path, is_ready=lambda: False) as server:
            answer = await server.api.ask("GET", "/ready")
            assert (answer.status, answer.json["code"]) == (503, "not-ready")
            assert (await server.api.get("/health"))["status"] == "ok"

    asyncio.run(work())
