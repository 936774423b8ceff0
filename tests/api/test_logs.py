"""The log of an execution over HTTP: the same documents as on the command line (D76)."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from noetl.engine.facts import Fact
from tests.api.servers import FAILING, HELLO, NOOP, WAITING, ApiServer, serve
from tests.playbooks import HEAD
from tests.unit.cli.invoke import run_explain_execution, run_output, run_show, run_state

LARGE = HEAD + (
    "workload: {count: 3}\nworkflow:\n- step: start\n"
    '  tool: {kind: python, input: {count: "{{ workload.count }}"}, code: "def main(count): return [\'x\' * 100_000] * count"}\n'
)
LOOP = HEAD + (
    "workflow:\n- step: start\n"
    '  loop: {in: "{{ range(300) | list }}", iterator: item, spec: {mode: parallel}}\n  tool: {kind: noop}\n'
)
NOBODY = "00000000-0000-7000-8000-000000000000"


def test_documents_equal_those_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told: dict[str, object] = {}

    async def work(server: ApiServer) -> None:
        api = server.api
        told["id"] = id = await api.run(HELLO, {"name": "Ada"})
        told["show"] = await api.get(f"/executions/{id}")
        told["state"] = await api.get(f"/executions/{id}/state", at=5)
        told["output"] = await api.get(f"/executions/{id}/output")
        told["why"] = await api.get(f"/executions/{id}/why", step="start")

    serve(tmp_path, work)
    db, id = str(tmp_path / "noetl.db"), str(told["id"])
    run_show(id, "json", db)
    assert json.loads(capsys.readouterr().out) == told["show"]
    run_state(id, 5, "json", db)
    assert json.loads(capsys.readouterr().out) == told["state"]
    run_output(id, None, db, raw=False)
    assert json.loads(capsys.readouterr().out) == told["output"]
    run_explain_execution(id, "start", db, "json")
    assert json.loads(capsys.readouterr().out) == told["why"]


def test_pages_of_events_are_contiguous(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        id = await api.run(LOOP)
        whole = await api.get(f"/executions/{id}/events", limit=1000, after=0)
        while whole["next"] is not None:
            page = await api.get(f"/executions/{id}/events", limit=1000, after=whole["next"])
            whole = {"items": whole["items"] + page["items"], "next": page["next"]}
        items, after = [], 0
        while after is not None:
            page = await api.get(f"/executions/{id}/events", after=after, limit=97)
            items += page["items"]
            after = page["next"]
        assert items == whole["items"]
        assert len({each["event_id"] for each in items}) == len(items) > 900
        backwards = await api.get(f"/executions/{id}/events", after=50, limit=10)
        assert {each["seq"] for each in backwards["items"]} == set(range(51, 61))
        assert (await api.get(f"/executions/{id}/events", after=10**6))["items"] == []

    serve(tmp_path, work)


def test_the_raw_log_contains_the_written_facts(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        id = await server.api.run(LOOP)
        rows = await server.services.store.read(id)
        facts, after, pages = [], 0, 0
        while after is not None:
            page = await server.api.get(f"/executions/{id}/log", after=after, limit=50)
            facts += [msgspec.convert(fact, Fact) for row in page["items"] for fact in row["facts"]]
            after, pages = page["next"], pages + 1
        assert facts == [fact for row in rows for fact in row.facts]
        assert pages > 1

    serve(tmp_path, work)


def test_the_state_after_any_fact(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        id = await api.run(HELLO)
        last = await api.get(f"/executions/{id}/state")
        assert await api.get(f"/executions/{id}/state", at=last["seq"]) == last
        assert (await api.get(f"/executions/{id}/state", at=1))["seq"] == 1
        answer = await api.ask("GET", f"/executions/{id}/state", at=last["seq"] + 1)
        assert (answer.status, answer.json["code"]) == (404, "no-such-fact")
        assert (await api.ask("GET", f"/executions/{id}/state", at=0)).status == 400

    serve(tmp_path, work)


def test_cached_runs_are_updated_with_new_facts(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        await api.register(WAITING)
        id = (await api.post("/executions", {"path": "waiting"}, status=201))["execution_id"]
        while (await api.ask("POST", f"/executions/{id}/signal", {"name": "go"})).status != 200:
            assert (await api.get(f"/executions/{id}"))["status"] == "running"
        await server.runtime.wait_until_idle(id)
        shown = await api.get(f"/executions/{id}")
        assert (shown["status"], [each["step"] for each in shown["steps"]]) == ("ok", ["start", "after"])

    serve(tmp_path, work)


def test_outputs_are_complete_wherever_they_are_stored(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        large = await api.run(LARGE)
        assert (await api.get(f"/executions/{large}"))["output"]["data"] is None
        assert await api.get(f"/executions/{large}/output") == ["x" * 100_000] * 3
        assert await api.get(f"/executions/{large}/output", step="start") == ["x" * 100_000] * 3
        loop = await api.run(LOOP)
        assert len(await api.get(f"/executions/{loop}/output")) == 300
        nothing = await api.run(NOOP)
        assert (await api.ask("GET", f"/executions/{nothing}/output")).json is None

    serve(tmp_path, work)


def test_a_failed_or_running_execution_has_no_output(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        failed = await api.ask("GET", f"/executions/{await api.run(FAILING)}/output")
        assert (failed.status, failed.json["code"]) == (409, "execution-failed")
        assert "no" in failed.json["detail"]
        await api.register(WAITING)
        id = (await api.post("/executions", {"path": "waiting"}, status=201))["execution_id"]
        assert (await api.ask("GET", f"/executions/{id}/output")).json["code"] == "not-over"
        assert (await api.ask("GET", f"/executions/{id}/output", step="after")).status == 404

    serve(tmp_path, work)


def test_missing_objects_are_not_found(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        for id in (NOBODY, "x", "..%2f..%2fetc", "a%00b", "é" * 10, "0" * 100):
            for part in (
                "",
                "/head",
                "/tree",
                "/events",
                "/log",
                "/state",
                "/output",
                "/why?step=a",
                "/stream",
            ):
                answer = await api.ask("GET", f"/executions/{id}{part}")
                assert answer.status == 404, (id, part, answer.body)
                assert answer.headers["content-type"] == "application/problem+json"
        id = await api.run(NOOP)
        why = await api.ask("GET", f"/executions/{id}/why", step="nowhere")
        assert (why.status, why.json["detail"]) == (
            404,
            'the playbook has no step "nowhere": it has start',
        )

    serve(tmp_path, work)


def test_a_log_that_cannot_be_folded_is_damaged(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        digest = (await server.api.register(NOOP))["digest"]
        id = (await server.api.post("/executions", {"digest": digest}, status=201))["execution_id"]
        await server.runtime.wait_until_idle(id)
        database = server.runtime.storage.database
        query = """UPDATE log SET body = replace(body, '"step.done","run":"start#1"', '"step.done","run":"start#9"')"""
        await database.writer.write(lambda cursor: cursor.execute(query).fetchall())
        answer = await server.api.ask("GET", f"/executions/{id}")
        assert (answer.status, answer.json["code"]) == (500, "damaged")
        assert "noetl audit" in answer.json["detail"]
        stream = await server.api.ask("GET", f"/executions/{id}/stream")
        assert b"event: problem\n" in stream.body

    serve(tmp_path, work)
