"""One action on many executions: the plan, the outcome for each, repetition, roles and the audit trail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from noetl.server.services import ServerSettings
from tests.api.servers import FAILING, NOOP, WAITING, ApiServer, serve
from tests.playbooks import HEAD

SECRET = WAITING.replace("path: waiting", "path: payroll/secret")


async def bulk(server: ApiServer, action: str, *ids: str, token: str | None = None, **more: Any) -> Any:
    body = {"action": action, **({"executions": [{"execution_id": id} for id in ids]} if ids else {}), **more}
    answer = await server.api.ask("POST", "/executions/bulk", body, token=token)
    assert answer.status == 200, answer.body
    return answer.json


def results(response: Any) -> dict[str, str]:
    return {each["execution_id"]: each["result"] for each in response["items"]}


async def start(server: ApiServer, text: str) -> str:
    digest = (await server.api.register(text))["digest"]
    return str((await server.api.post("/executions", {"digest": digest}, status=201))["execution_id"])


def test_a_plan_changes_nothing_and_its_execution_gives_an_outcome_for_each(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        live = [await start(server, WAITING) for _ in range(3)]
        ended = await server.api.run(NOOP)
        plan = await bulk(server, "cancel", filter={}, dry_run=True)
        assert results(plan) == {**dict.fromkeys(live, "planned"), ended: "unchanged"}
        assert plan["matching"] == 4
        heads = await server.api.get("/executions", open="true")
        assert len(heads["items"]) == 3
        result = await bulk(server, "cancel", *live, ended, live[0], reason="wrong month")
        assert results(result) == {**dict.fromkeys(live, "done"), ended: "unchanged"}
        while (await server.api.get("/executions", open="true"))["items"]:
            continue
        again = await bulk(server, "cancel", *live, "00000000-0000-7000-8000-000000000000")
        assert set(results(again).values()) == {"unchanged", "refused"}
        assert again["items"][0]["detail"].startswith("already ended")
        assert "no execution" in again["items"][-1]["detail"]
        entries = (await server.api.get("/audit", action="command"))["items"]
        assert sorted((each["what"], each["target"]) for each in entries) == sorted(("cancel", id) for id in live)

    serve(tmp_path, work)


def test_a_retry_is_not_repeated_and_a_filter_limits_what_is_deleted(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        failed, fine = await server.api.run(FAILING), await server.api.run(NOOP)
        plan = await bulk(server, "retry", filter={"status": "error"}, dry_run=True)
        (item,) = plan["items"]
        assert (item["execution_id"], item["result"], item["status"]) == (failed, "planned", "error")
        target = {"execution_id": failed, "seq": item["seq"]}
        assert results(await bulk(server, "retry", executions=[target])) == {failed: "done"}
        while (await server.api.get(f"/executions/{failed}/head"))["status"] == "running":
            continue
        again = await bulk(server, "retry", executions=[target])
        assert again["items"][0]["detail"] == "changed since the plan"
        assert (await bulk(server, "retry", fine))["items"][0]["detail"] == "nothing failed"
        gone = await bulk(server, "delete", filter={"path": "failing"})
        assert results(gone) == {failed: "done"}
        assert [each["execution_id"] for each in (await server.api.get("/executions"))["items"]] == [fine]

    serve(tmp_path, work)


def test_each_execution_is_checked_against_the_roles_of_the_caller(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        server.api.token = await server.token("admin")
        hidden = await start(server, SECRET)
        visible = await start(server, WAITING)
        roles = [{"role": "operator", "paths": ["waiting"]}]
        token = (await server.api.post("/tokens", {"name": "ops", "roles": roles}, status=201))["token"]
        plan = await bulk(server, "cancel", filter={}, dry_run=True, token=token)
        assert results(plan) == {visible: "planned"}
        result = await bulk(server, "cancel", hidden, visible, token=token)
        assert results(result) == {hidden: "refused", visible: "done"}
        assert result["items"][0] == {
            "execution_id": hidden, "result": "refused", "detail": f"no execution {hidden}", "path": "",
            "status": None, "seq": 0,
        }  # fmt: skip
        viewer = await server.token("read")
        body = {"action": "cancel", "executions": [{"execution_id": hidden}]}
        assert (await server.api.ask("POST", "/executions/bulk", body, token=viewer)).status == 403

    serve(tmp_path, work, ServerSettings())


def test_a_request_names_executions_or_a_filter(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        many = [{"execution_id": str(number)} for number in range(1_001)]
        for body in (
            {"action": "cancel"},
            {"action": "cancel", "executions": [{"execution_id": "a"}], "filter": {}},
            {"action": "cancel", "executions": many},
            {"action": "eat", "filter": {}},
            {"action": "cancel", "filter": {"pth": "x"}},
            {"action": "retry", "filter": {}, "reason": "it is of no use"},
        ):
            answer = await server.api.ask("POST", "/executions/bulk", body)
            assert answer.status == 400, answer.body

    serve(tmp_path, work)


PARENT = HEAD.replace("path: t", "path: parent") + "workflow:\n- step: start\n  tool: {kind: playbook, path: t}\n"


def test_a_called_execution_is_deleted_with_its_caller_only(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(NOOP)
        parent = await server.api.run(PARENT)
        (child,) = (each["execution_id"] for each in (await server.api.get("/executions", path="t"))["items"])
        result = await bulk(server, "delete", child)
        assert (results(result), "called by" in result["items"][0]["detail"]) == ({child: "refused"}, True)
        result = await bulk(server, "delete", parent)
        assert result["items"][0]["detail"] == "with 1 that it called"

    serve(tmp_path, work)


def test_executions_are_labelled_after_their_start_alone_and_together(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        live, ended = await start(server, WAITING), await server.api.run(NOOP)
        before = await server.api.get(f"/executions/{ended}/head")
        change = {"incident": "4711", "team": "shop"}
        plan = await bulk(server, "label", live, ended, labels=change, dry_run=True)
        assert results(plan) == {live: "planned", ended: "planned"}
        assert (await server.api.get(f"/executions/{ended}/labels"))["changes"] == []
        assert results(await bulk(server, "label", live, ended, labels=change)) == {live: "done", ended: "done"}
        again = await bulk(server, "label", live, ended, labels={"team": "shop"})
        assert {each["detail"] for each in again["items"]} == {"it has these labels already"}
        found = await server.api.get("/executions", label="incident=4711")
        assert {each["execution_id"] for each in found["items"]} == {live, ended}
        assert await server.api.get(f"/executions/{ended}/head") == {**before, "labels": change}
        answer = await server.api.post(f"/executions/{live}/labels", {"labels": {"team": None, "day": "2"}})
        assert answer["labels"] == {"incident": "4711", "day": "2"}
        assert [each["labels"] for each in answer["changes"]] == [change, {"team": None, "day": "2"}]
        assert {each["by"] for each in answer["changes"]} == {"local"}
        await server.api.post(f"/executions/{live}/labels", {"labels": {"day": "2"}})
        assert len((await server.api.get(f"/executions/{live}/labels"))["changes"]) == 2
        entries = (await server.api.get("/audit", action="command"))["items"]
        assert sorted(each["detail"] for each in entries if each["what"] == "label") == [
            "incident=4711, team=shop", "incident=4711, team=shop", "without team, day=2",
        ]  # fmt: skip

    serve(tmp_path, work)


def test_labels_that_no_execution_can_have_are_refused(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        id = await server.api.run(NOOP)
        many = {str(number): "" for number in range(51)}
        for wrong in ({}, {"a=b": "c"}, {"fork-of": id}, {"a": "x" * 201}, many):
            answer = await server.api.ask("POST", f"/executions/{id}/labels", {"labels": wrong})
            assert (answer.status, answer.json["code"]) == (400, "bad-label"), wrong
        for body in ({"action": "label"}, {"action": "retry", "labels": {"a": "b"}}):
            answer = await server.api.ask("POST", "/executions/bulk", {**body, "executions": [{"execution_id": id}]})
            assert answer.status == 400
        full = {str(number): "" for number in range(50)}
        await server.api.post(f"/executions/{id}/labels", {"labels": full})
        more = await bulk(server, "label", id, labels={"one": "more"})
        assert more["items"][0]["result"] == "refused"
        assert "at most 50 labels" in more["items"][0]["detail"]

    serve(tmp_path, work)
