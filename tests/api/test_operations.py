"""The routes for operators: what workers run, who holds limits, when triggers fire, and the course of the metrics."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from noetl.clock import SystemClock
from noetl.ports import WorkerInfo
from noetl.server.services import ServerSettings
from noetl.telemetry.control_metrics import FactMetrics
from noetl.telemetry.history import MetricsHistory
from noetl.telemetry.metrics import Metrics
from noetl.views.log import instant
from tests.api.servers import FAILING, WAITING, ApiServer, Shifted, serve
from tests.playbooks import HEAD

SLOW = HEAD.replace("path: t", "path: slow") + (
    'workload: {file: ""}\nworkflow:\n- step: start\n'
    '  tool: {name: sleep, kind: shell, argv: [sh, -c, "while [ ! -e \\"$0\\" ]; do sleep 0.05; done", "{{ workload.file }}"]}\n'
)
LOOP = HEAD.replace("path: t", "path: wide") + (
    'workload: {file: ""}\nworkflow:\n- step: start\n'
    '  loop: {in: "{{ range(9) }}", iterator: n, spec: {mode: parallel, max_in_flight: 9}}\n'
    '  tool: {kind: shell, argv: [sh, -c, "while [ ! -e \\"$0\\" ]; do sleep 0.05; done", "{{ workload.file }}"]}\n'
)
LIMITED = HEAD.replace("path: t", "path: limited") + (
    "executor: {spec: {policy: {concurrency: {limit: 1, when_full: queue}}}}\n"
    "workflow:\n- step: start\n  tool: {kind: wait, signal: go}\n"
)
NIGHTLY = HEAD.replace("path: t", "path: nightly") + (
    'triggers:\n- {name: night, kind: cron, cron: "0 3 * * *"}\n- {name: often, kind: interval, every_s: 60}\n'
    "workflow:\n- step: start\n  tool: {kind: noop}\n"
)


async def begin(server: ApiServer, text: str, **workload: Any) -> str:
    digest = (await server.api.register(text))["digest"]
    answer = await server.api.post("/executions", {"digest": digest, "workload": workload}, status=201)
    return str(answer["execution_id"])


def test_workers_show_what_they_run_and_pools_what_waits(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        name = server.runtime.worker.name
        now = server.services.clock.now()
        server.workers.announce(WorkerInfo(name, "default", 8, 1, "here", 7, "1.0", {}, False, now))
        file = tmp_path / "file"
        id = await begin(server, SLOW, file=str(file))
        found: dict[str, Any] = {}
        while not found.get("running") or found["running"][0]["task"] is None:
            [found] = (await server.api.get("/workers"))["workers"]
        [frame] = found["running"]
        assert (frame["execution_id"], frame["path"], frame["frame"], frame["task"]) == (id, "slow", "start#1", "sleep")
        assert frame["since"] >= instant(now)
        others = [await begin(server, SLOW, file=str(file)) for _ in range(10)]
        pool: dict[str, Any] = {"waiting": 0}
        while pool["waiting"] < 3:  # the runtime has eight slots
            [pool] = (await server.api.get("/workers"))["pools"]
        assert (pool["waiting"], pool["oldest_s"] >= 0) == (3, True)
        file.touch()
        for each in (id, *others):
            while (await server.api.get(f"/executions/{each}/head"))["status"] == "running":
                pass
        [pool] = (await server.api.get("/workers"))["pools"]
        assert (pool["waiting"], pool["oldest_s"]) == (0, None)

    serve(tmp_path, work)


def test_limits_show_who_holds_and_who_waits(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        assert await server.api.get("/limits") == {"items": [], "left_out": 0}
        first, second = await begin(server, LIMITED), await begin(server, LIMITED)
        items: list[dict[str, Any]] = []
        while not items or not items[0]["waits"]:
            items = (await server.api.get("/limits"))["items"]
        [limit] = items
        assert (limit["kind"], limit["key"], limit["in_flight"], limit["rate"]) == ("executions", "limited", 1, None)
        assert [each["execution_id"] for each in limit["holders"]] == [first]
        assert [(each["execution_id"], each["path"]) for each in limit["waiting"]] == [(second, "limited")]
        assert (limit["holds"], limit["waits"]) == (1, 1)

    serve(tmp_path, work)


def test_the_calendar_has_past_and_future_times(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(NIGHTLY)
        fired = await server.api.post("/triggers/fire", status=201, path="nightly", name="night")
        now = server.services.clock.now()
        since = (now - timedelta(hours=1)).isoformat()
        week = await server.api.get("/triggers/calendar", since=since, days=7)
        nights = [each for each in week["entries"] if each["name"] == "night"]
        [past] = [each for each in nights if each["status"] is not None]
        assert (past["execution_id"], past["status"]) == (fired["execution_id"], "started")
        assert len([each for each in nights if each["status"] is None]) == 7
        assert all(each["at"].endswith("03:00:00Z") for each in nights if each["status"] is None)
        assert [each["name"] for each in week["cut"]] == ["often"], "every minute of a week is too much"
        minutes = [each["at"] for each in week["entries"] if each["name"] == "often"]
        assert (len(minutes), minutes == sorted(minutes)) == (100, True)
        before = await server.api.get("/triggers/calendar", since=(now - timedelta(days=9)).isoformat(), days=7)
        assert before["entries"] == []
        assert (await server.api.ask("GET", "/triggers/calendar", since="2026-01-01T00:00:00")).status == 422

    serve(tmp_path, work)


def test_the_history_of_a_server_has_rates_and_alerts(tmp_path: Path) -> None:
    metrics, clock = Metrics(), SystemClock()
    history = MetricsHistory(metrics, clock)

    async def work(server: ApiServer) -> None:
        empty = await server.api.get("/health/history")
        assert (empty["points"], empty["server_since"]) == ([], None)
        count = FactMetrics(metrics)
        server.runtime.watchers.append(count)
        history.take()
        await server.api.run(FAILING)
        await begin(server, WAITING)
        later = MetricsHistory(metrics, Shifted(clock, timedelta(seconds=60)))
        later.samples.extend(history.samples)
        later.take()
        history.samples.append(later.samples[-1])
        history.alerts = later.alerts
        answer = await server.api.get("/health/history", seconds=600)
        [point] = answer["points"]
        assert 1.9 < point["executions_per_min"] < 2.1
        assert 0.9 < point["failed_per_min"] < 1.1
        first = answer["alerts"][0]
        assert (first["name"], first["state"]) == ("NoetlExecutionsFail", "firing")
        assert first["detail"] == "in the last 15 minutes, failing: 1"
        assert {each["state"] for each in answer["alerts"][1:]} == {"ok"}

    serve(tmp_path, work, ServerSettings(open=True, history=history))


def test_frames_that_wait_for_the_share_of_their_execution_say_so(tmp_path: Path) -> None:
    why = 'waits for a slot: the execution holds 6 of the 8 slots of the pool "default", its share (NOETL_SLOT_RESERVE)'

    async def work(server: ApiServer) -> None:
        dispatch = server.runtime.control.dispatch
        dispatch._settings = dispatch._settings._replace(slot_reserve=0.25)
        now = server.services.clock.now()
        server.workers.announce(WorkerInfo("w", "default", 8, 8, "here", 7, "1.0", {}, False, now))
        [pool] = (await server.api.get("/workers"))["pools"]
        assert (pool["slots"], pool["share"]) == (8, 6)
        file = tmp_path / "file"
        id = await begin(server, LOOP, file=str(file))
        shown: dict[str, Any] = {}
        while shown.get("why") is None:
            [shown] = (await server.api.get(f"/executions/{id}"))["steps"]
        assert shown["why"] == why
        [line] = (await server.api.get(f"/executions/{id}/timeline"))["steps"]
        assert [run["why"] for run in line["runs"]] == [why]
        assert [run["why"] for run in (await server.api.get(f"/executions/{id}/state"))["runs"]] == [why]
        [run] = (await server.api.get(f"/executions/{id}/why", step="start"))["runs"]
        assert run["waits_for"] == why.removeprefix("waits ")
        file.touch()
        while (await server.api.get(f"/executions/{id}/head"))["status"] == "running":
            pass
        [shown] = (await server.api.get(f"/executions/{id}"))["steps"]
        assert (shown["status"], shown.get("why")) == ("ok", None)

    serve(tmp_path, work)
