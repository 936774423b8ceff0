"""Decisions of people: the question of a `wait` task, its form, and who has answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from noetl.engine.facts import FrameResumed
from noetl.server.app import context_of
from tests.api.servers import ApiServer, serve
from tests.playbooks import HEAD

REFUND = (
    HEAD
    + """
workload: {amount: 1200}
workflow:
- step: start
  loop: {in: [a, b], iterator: order, spec: {mode: parallel}}
  tool:
    kind: wait
    signal: refund
    title: "Refund {{ workload.amount }} for order {{ iter.order }}?"
    text: The customer has returned everything.
    data: {order: "{{ iter.order }}", amount: "{{ workload.amount }}"}
    form:
      amount: {type: number, max: 1200, desc: how much}
      reason: {type: string, enum: [damaged, late], default: late}
"""
)


async def open_decisions(server: ApiServer, id: str, count: int) -> list[dict[str, Any]]:
    while True:
        found: list[dict[str, Any]] = (await server.api.get(f"/executions/{id}/decisions"))["items"]
        if sum(each["status"] == "open" for each in found) == count:
            return found


def test_one_question_of_several_is_answered_with_typed_values(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        await api.register(REFUND)
        id = (await api.post("/executions", {"path": "t"}, status=201))["execution_id"]
        first, second = await open_decisions(server, id, 2)
        assert (first["title"], first["text"]) == ("Refund 1200 for order a?", "The customer has returned everything.")
        assert (first["data"], [*first["form"]]) == ({"order": "a", "amount": 1200}, ["amount", "reason"])
        waits = (await api.get(f"/executions/{id}/head"))["waits"]
        assert [each["title"] for each in waits] == [first["title"], second["title"]]
        answer = {"name": "refund", "frame": second["frame"], "data": {"approved": True, "amount": "1300"}}
        refused = await api.ask("POST", f"/executions/{id}/signal", answer)
        assert (refused.status, refused.json["code"]) == (409, "bad-form")
        assert "amount: expected at most 1200" in refused.json["detail"]
        answer["data"]["amount"] = "900.5"
        await api.post(f"/executions/{id}/signal", answer)
        again = await api.ask("POST", f"/executions/{id}/signal", answer)
        assert again.json["code"] == "nobody-waits", "it is decided once"
        kept, decided = await open_decisions(server, id, 1)
        assert kept == first
        assert (decided["status"], decided["by"]) == ("decided", "local")
        assert decided["answer"] == {"approved": True, "amount": 900.5, "reason": "late"}
        assert [each["frame"] for each in (await api.get(f"/executions/{id}/head"))["waits"]] == [first["frame"]]
        await api.post(f"/executions/{id}/signal", {"name": "refund", "data": {"approved": False}})
        await server.runtime.wait_until_idle(id)
        shown = await api.get(f"/executions/{id}")
        assert shown["output"]["data"][0] == {"approved": False}, "a rejection needs no form"
        resumed = [fact for row in await server.services.store.read(id) for fact in row.facts]
        assert [fact.by for fact in resumed if isinstance(fact, FrameResumed)] == ["local", "local"]

    serve(tmp_path, work)


def test_a_question_that_ends_without_an_answer_expires(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(REFUND)
        id = (await server.api.post("/executions", {"path": "t"}, status=201))["execution_id"]
        await open_decisions(server, id, 2)
        await server.api.post(f"/executions/{id}/cancel")
        await server.runtime.wait_until_idle(id)
        found = (await server.api.get(f"/executions/{id}/decisions"))["items"]
        assert [each["status"] for each in found] == ["expired", "expired"]
        assert (await server.api.get(f"/executions/{id}/head"))["waits"] == []

    serve(tmp_path, work)


def test_a_form_that_cannot_be_shown_fails_its_task(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        for number, (form, message) in enumerate({
            "{approved: {type: boolean}}": '"approved" is part of every answer',
            "{a: {type: number, pattern: x}}": '"pattern" is not valid with type: number',
            '"{{ workload.amount }}"': "expected a mapping",
        }.items()):  # fmt: skip
            text = (
                HEAD
                + f"workload: {{amount: {number}}}\nworkflow:\n- step: start\n  tool: {{kind: wait, signal: go, form: {form}}}\n"
            )
            answer = await server.api.ask("POST", "/executions?wait=60", {"text": text})
            assert message in str(answer.json), answer.json

    serve(tmp_path, work)


def test_a_poll_reads_only_what_is_new_and_a_reload_keeps_the_time_of_a_question(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        await api.register(REFUND)
        id = (await api.post("/executions", {"path": "t"}, status=201))["execution_id"]
        first, second = await open_decisions(server, id, 2)
        lists = context_of(server.app).decisions
        before = (await lists.get(id))[0]
        assert (await lists.get(id))[0] is before, "nothing is folded again"
        del server.runtime.control.executions[id]  # as after a restart
        answer = {"name": "refund", "frame": second["frame"], "data": {"approved": False}}
        await api.post(f"/executions/{id}/signal", answer)
        waits = (await api.get(f"/executions/{id}/head"))["waits"]
        assert [(each["frame"], each["since"]) for each in waits] == [(first["frame"], first["since"])]
        assert (await open_decisions(server, id, 1))[1]["status"] == "decided"
        await api.post(f"/executions/{id}/cancel", {})
        await server.runtime.wait_until_idle(id)
        assert [each["status"] for each in await open_decisions(server, id, 0)] == ["expired", "decided"]
        assert (await api.ask("DELETE", f"/executions/{id}")).status in (200, 204)
        assert (await api.ask("GET", f"/executions/{id}/decisions")).status == 404

    serve(tmp_path, work)
