"""The history of a playbook, and the rollback to an older version."""

from __future__ import annotations

from pathlib import Path

from tests.api.servers import ApiServer, serve
from tests.playbooks import HEAD

TWO = HEAD + (
    "workload: {fail: false}\n"
    "workflow:\n- step: start\n  tool: {kind: noop}\n  next: {arcs: [{step: load}]}\n"
    "- step: load\n  tool: {kind: python, input: {fail: '{{ workload.fail }}'},"
    ' code: "def main(fail): return 1 / (0 if fail else 1)"}\n'
)
TIMED = "triggers:\n- {name: %s, kind: interval, every_s: 3600}\n"


def test_a_history_shows_since_when_a_step_fails(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        ids = [await server.api.run(TWO, {"fail": fail}) for fail in (False, False, True)]
        found = await server.api.get("/playbooks/history", path="t")
        assert [each["execution_id"] for each in found["executions"]] == ids
        cells = [{step: cell["status"] for step, cell in each["steps"].items()} for each in found["executions"]]
        fine, failed = {"start": "ok", "load": "ok"}, {"start": "ok", "load": "error"}
        assert cells == [fine, fine, failed]
        assert [(each["step"], each["durations"]["count"]) for each in found["steps"]] == [("start", 3), ("load", 3)]
        assert found["durations"]["count"] == 3
        assert sum(day["durations"]["count"] for day in found["days"]) == 3
        assert sum(day["failed"] for day in found["days"]) == 1
        short = await server.api.get("/playbooks/history", path="t", limit=1)
        assert [each["execution_id"] for each in short["executions"]] == ids[-1:]
        assert (await server.api.get("/playbooks/history", path="none"))["executions"] == []
        assert (await server.api.ask("GET", "/playbooks/history?path=t&limit=101")).status == 400

    serve(tmp_path, work)


def test_a_rollback_makes_an_older_version_current_with_its_triggers(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        for name in ("hourly", "nightly"):
            await server.api.register(TWO + TIMED % name)

        async def triggers() -> list[str]:
            return [each["name"] for each in (await server.api.get("/triggers"))["items"]]

        body = {"path": "t", "version": 1}
        plan = await server.api.post("/playbooks/rollback", {**body, "dry_run": True})
        expected = {"path": "t", "version": 1, "replaces": 2, "triggers": ["hourly"], "stopped": ["nightly"]}
        assert {**plan, **expected, "done": False} == plan
        assert await triggers() == ["nightly"]
        assert (await server.api.post("/playbooks/rollback", body))["done"] is True
        assert (await server.api.get("/playbooks/one", path="t"))["version"] == 1
        assert await triggers() == ["hourly"]
        entries = (await server.api.get("/audit", action="register"))["items"]
        assert (entries[0]["what"], entries[0]["target"], entries[0]["detail"]) == ("rollback", "t@1", "from version 2")
        assert (await server.api.ask("POST", "/playbooks/rollback", body)).status == 409
        assert (await server.api.ask("POST", "/playbooks/rollback", {**body, "version": 7})).status == 404
        assert (await server.api.ask("POST", "/playbooks/rollback", {**body, "path": "x"})).status == 404

    serve(tmp_path, work)
