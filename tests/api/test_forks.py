"""POST /executions/{id}/fork: a new execution that keeps the finished work of another one (D114)."""

from __future__ import annotations

from pathlib import Path

from tests.api.servers import ApiServer, serve
from tests.playbooks import HEAD

BROKEN = HEAD.replace("path: t", "path: shop/sum") + (
    "workload: {n: 3}\n"
    "workflow:\n"
    "- step: start\n"
    "  tool: {kind: python, code: 'def main(n): return list(range(n))', input: {n: '{{ workload.n }}'}}\n"
    "  set: {ctx.rows: '{{ output.data }}'}\n"
    "  next: {arcs: [{step: sum}]}\n"
    "- step: sum\n"
    "  tool: {kind: python, code: 'def main(rows): return sum(rowz)', input: {rows: '{{ ctx.rows }}'}}\n"
)
FIXED = BROKEN.replace("rowz", "rows")
KEPT = {"kept": ["start#1"], "redone": [{"run": "sum#1", "why": "its tasks have changed"}], "new": []}


async def failed(server: ApiServer) -> str:
    answer = await server.api.ask("POST", "/executions?wait=60", {"text": BROKEN})
    assert answer.json["status"] == "error"
    id: str = answer.json["execution_id"]
    return id


def test_a_fork_runs_the_new_text_and_keeps_what_has_not_changed(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        old = await failed(server)
        planned = await server.api.ask("POST", f"/executions/{old}/fork", {"text": FIXED, "dry_run": True})
        assert planned.status == 200
        assert {key: planned.json["plan"][key] for key in KEPT} == KEPT
        assert "execution_id" not in planned.json
        current = await server.api.get("/playbooks/one?path=shop/sum")
        assert current["text"] == BROKEN, "a plan registers nothing"
        forked = await server.api.ask("POST", f"/executions/{old}/fork", {"text": FIXED})
        new = forked.json["execution_id"]
        await server.runtime.wait_until_idle(new)
        shown = await server.api.get(f"/executions/{new}")
        assert (shown["status"], shown["output"]["data"]) == ("ok", 3)
        assert shown["fork"]["execution_id"] == old
        assert [each.get("kept", 0) for each in shown["steps"]] == [1, 0]
        refused = await server.api.ask("DELETE", f"/executions/{old}")
        assert (refused.status, refused.json["code"]) == (409, "forked")

    serve(tmp_path, work)


def test_requests_that_cannot_be_forked_are_refused(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        old = await failed(server)
        for body, status, code in (
            ({"at": 999}, 400, "bad-request"),
            ({"from_step": "nowhere"}, 422, "unknown-step"),
            ({"text": FIXED, "path": "shop/sum"}, 400, "bad-request"),
            ({"text": "workflow: []"}, 422, "playbook-problems"),
        ):
            answer = await server.api.ask("POST", f"/executions/{old}/fork", body)
            assert (answer.status, answer.json["code"]) == (status, code), body
        answer = await server.api.ask("POST", f"/executions/{old}/fork", {"from_step": "star"})
        assert 'no step "star"; did you mean "start"?' in answer.json["detail"]

    serve(tmp_path, work)
