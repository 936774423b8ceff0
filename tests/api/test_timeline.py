"""Executions as the UI draws them: timelines, facts as lines, any moment, and overviews for lists."""

from __future__ import annotations

from pathlib import Path

from noetl.server.log_readers import STRIDE_FACTS
from tests.api.servers import FAILING, HELLO, NOOP, WAITING, ApiServer, serve
from tests.playbooks import HEAD

LOOP = HEAD + (
    "workflow:\n- step: start\n"
    '  loop: {in: "{{ range(900) | list }}", iterator: item, spec: {mode: sequential}}\n'
    '  tool: {kind: noop, set: {ctx.last: "{{ iter.item }}"}}\n'
)
NOBODY = "00000000-0000-7000-8000-000000000000"


def test_a_timeline_grows_with_its_log(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        digest = (await api.register(WAITING))["digest"]
        id = (await api.post("/executions", {"digest": digest}, status=201))["execution_id"]
        document = await api.get(f"/executions/{id}/timeline")
        while not document["signals"]:
            document = await api.get(f"/executions/{id}/timeline")
        assert document["status"] == "running"
        assert document["signals"] == ["go"]
        (line,) = document["steps"]
        assert line["runs"][0]["why"] == "waits for the signal go"
        await api.post(f"/executions/{id}/signal", {"name": "go", "data": 1})
        while document["status"] == "running":
            document = await api.get(f"/executions/{id}/timeline")
        assert document["status"] == "ok"
        assert document["signals"] == []
        assert [line["step"] for line in document["steps"]] == ["start", "after"]
        assert document["seq"] == (await api.get(f"/executions/{id}/head"))["seq"]

    serve(tmp_path, work)


def test_the_moment_after_any_fact_equals_the_state(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        id = await api.run(LOOP)
        last = (await api.get(f"/executions/{id}/head"))["seq"]
        assert last > STRIDE_FACTS, "there are states on the way"
        for at in (1, STRIDE_FACTS - 1, STRIDE_FACTS, STRIDE_FACTS + 1, last):
            told = await api.get(f"/executions/{id}/moment", at=at)
            state = await api.get(f"/executions/{id}/state", at=at)
            assert told["ctx"] == state["ctx"]
            assert told["workload"] == state["workload"]
            assert told["fact"]["seq"] == at
            assert told["fact"] == await api.get(f"/executions/{id}/facts/{at}")
            again = await api.get(f"/executions/{id}/moment", at=at, have=told["ctx_seq"])
            assert again == {**told, "ctx": None}

    serve(tmp_path, work)


def test_pages_of_facts_are_contiguous(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        id = await api.run(LOOP)
        last = (await api.get(f"/executions/{id}/head"))["seq"]
        seqs: list[int] = []
        after: int | None = 0
        while after is not None:
            page = await api.get(f"/executions/{id}/facts", after=after, limit=1000)
            seqs += [item["seq"] for item in page["items"]]
            after = page["next"]
        assert seqs == list(range(1, last + 1))
        page = await api.get(f"/executions/{id}/facts", after=last - 2, limit=100)
        assert [item["seq"] for item in page["items"]] == [last - 1, last]
        assert page["next"] is None

    serve(tmp_path, work)


def test_facts_are_found_by_kind_step_text_and_failure(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        id = await api.run(FAILING)

        async def found(**asked: object) -> list[str]:
            page = await api.get(f"/executions/{id}/facts", **asked)
            assert page["next"] is None
            return [item["name"] for item in page["items"]]

        assert await found(kind="step.scheduled,task.done") == ["step.scheduled", "task.done"]
        assert set(await found(step="start")) >= {"step.scheduled", "task.done", "step.failed"}
        assert await found(step="nobody") == []
        assert "task.done" in await found(text="VALUEERROR")
        assert await found(text="no such words") == []
        assert (await found(bad="true"))[0] == "task.done"

    serve(tmp_path, work)


def test_missing_facts_and_executions_are_not_found(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        id = await api.run(NOOP)
        last = (await api.get(f"/executions/{id}/head"))["seq"]
        for path in (
            f"/executions/{NOBODY}/timeline",
            f"/executions/{NOBODY}/facts",
            "/executions/a'b/timeline",
        ):
            assert (await api.ask("GET", path)).status == 404, path
        for path in (f"/executions/{NOBODY}/moment", f"/executions/{NOBODY}/facts/1"):
            answer = await api.ask("GET", path, at=1)
            assert (answer.status, answer.json["code"]) == (404, "not-found"), path
        for path in (f"/executions/{id}/moment", f"/executions/{id}/facts/{last + 1}"):
            answer = await api.ask("GET", path, at=last + 1)
            assert (answer.status, answer.json["code"]) == (404, "no-such-fact"), path
            assert f"1 to {last}" in answer.json["detail"]
        assert (await api.ask("GET", f"/executions/{id}/moment", at=0)).status == 400

    serve(tmp_path, work)


def test_an_overview_has_the_caller_and_the_status_of_steps(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        good, bad, long = await api.run(HELLO), await api.run(FAILING), await api.run(LOOP)
        told = await api.get("/executions/glances", ids=f"{good},{bad},{NOBODY},nonsense!,{long}")
        by = {item["execution_id"]: item for item in told["items"]}
        assert list(by) == [good, bad, long]
        assert by[good]["steps"] == {"ok": 1}
        assert by[bad]["steps"] == {"error": 1}
        assert by[long]["steps"] is None, "a long log is not folded for a row of a list"
        assert by[good]["by"] is not None
        await api.get(f"/executions/{long}/timeline")
        (again,) = (await api.get("/executions/glances", ids=good))["items"]
        assert again == by[good]

    serve(tmp_path, work)


def test_two_executions_are_compared(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        one, other = await server.api.run(NOOP, {"n": 1}), await server.api.run(NOOP, {"n": 2})
        found = await server.api.get(f"/executions/{one}/diff", **{"with": other})
        assert (found["a"]["id"], found["b"]["id"]) == (one, other)
        assert found["differs"]
        assert found["workload"] == [{"path": "workload.n", "change": "changed", "before": "1", "after": "2"}]
        assert not (await server.api.get(f"/executions/{one}/diff", **{"with": one}))["differs"]
        assert (await server.api.ask("GET", f"/executions/{one}/diff?with=none")).status == 404

    serve(tmp_path, work)
