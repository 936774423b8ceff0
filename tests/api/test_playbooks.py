"""The catalog over HTTP: register, list, versions, diff, archive, check, explain, graph."""

from __future__ import annotations

from pathlib import Path

from tests.api.servers import HELLO, NOOP, ApiServer, serve
from tests.playbooks import HEAD

BROKEN = HEAD + "workflow:\n- step: start\n  tool: {kind: noop}\n  next: {arcs: [{step: nowhere}]}\n"
OLD = "apiVersion: noetl.io/v1\nkind: Playbook\nmetadata: {name: t, path: t}\nworkflow:\n- step: start\n  tool: {kind: noop}\n"


def named(path: str) -> str:
    return NOOP.replace("path: t", f"path: {path}")


def test_a_text_is_registered_once(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        yaml = {"Content-Type": "application/yaml"}
        first = await api.ask("POST", "/playbooks", NOOP.encode(), headers=yaml)
        assert (first.status, first.json["path"], first.json["version"], first.json["created"]) == (
            201,
            "t",
            1,
            True,
        )
        again = await api.ask("POST", "/playbooks", {"text": NOOP})
        assert (again.status, again.json["version"], again.json["created"]) == (200, 1, False)
        assert again.json["digest"] == first.json["digest"]
        other = await api.ask("POST", "/playbooks", {"text": HELLO})
        assert (other.status, other.json["version"]) == (201, 2)

    serve(tmp_path, work)


def test_a_text_with_errors_is_rejected_with_positions(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        answer = await server.api.ask("POST", "/playbooks", {"text": BROKEN})
        assert (answer.status, answer.json["code"]) == (422, "playbook-problems")
        assert answer.headers["content-type"] == "application/problem+json"
        found = [each for each in answer.json["problems"] if each["severity"] == "error"]
        assert [(each["code"], each["line"]) for each in found] == [("unknown-step", 7)]
        assert (await server.api.get("/playbooks"))["items"] == []

    serve(tmp_path, work)


def test_an_older_dialect_is_upgraded_on_request(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        refused = await server.api.ask("POST", "/playbooks", {"text": OLD})
        assert refused.status == 422
        made = await server.api.post("/playbooks", {"text": OLD, "dialect": "auto"}, status=201)
        text = (await server.api.get(f"/texts/{made['digest']}"))["text"]
        assert text.startswith("apiVersion: noetl.io/v2")

    serve(tmp_path, work)


def test_playbooks_are_listed_by_path_in_pages(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        for path in ("b", "a/deep", "c"):
            await server.api.register(named(path))
        page = await server.api.get("/playbooks", limit=2)
        assert ([each["path"] for each in page["items"]], page["next"]) == (["a/deep", "b"], "b")
        rest = await server.api.get("/playbooks", limit=2, after="b")
        assert ([each["path"] for each in rest["items"]], rest["next"]) == (["c"], None)

    serve(tmp_path, work)


def test_versions_are_read_and_compared(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        first, second = await api.register(NOOP), await api.register(HELLO)
        listed = await api.get("/playbooks/versions", path="t")
        assert [(each["version"], each["current"]) for each in listed["items"]] == [(2, True), (1, False)]
        current = await api.get("/playbooks/one", path="t")
        assert (current["text"], current["version"], current["digest"]) == (HELLO, 2, second["digest"])
        assert (await api.get("/playbooks/one", path="t", version=1))["text"] == NOOP
        assert (await api.get(f"/texts/{first['digest']}"))["text"] == NOOP
        diff = (await api.get("/playbooks/diff", path="t", from_=1, to=2))["diff"]
        assert diff.startswith("--- t@1\n+++ t@2\n")
        assert "-  tool: {kind: noop}\n" in diff
        for wrong in ({"path": "t", "version": 3}, {"path": "nothing"}):
            assert (await api.ask("GET", "/playbooks/one", **wrong)).status == 404

    serve(tmp_path, work)


def test_an_archived_playbook_cannot_start(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        await api.register(NOOP)
        assert (await api.ask("POST", "/playbooks/archive", path="t")).status == 204
        assert (await api.get("/playbooks"))["items"] == []
        assert [each["archived"] for each in (await api.get("/playbooks", archived="true"))["items"]] == [True]
        assert (await api.ask("POST", "/executions", {"path": "t"})).status == 404
        assert (await api.get("/playbooks/one", path="t"))["text"] == NOOP
        assert (await api.ask("POST", "/playbooks/archive", path="nothing")).status == 404
        await api.register(NOOP)
        assert (await api.ask("POST", "/executions", {"path": "t"})).status == 201

    serve(tmp_path, work)


def test_a_check_lists_all_problems_and_stores_nothing(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        assert (await api.post("/playbooks/check", {"text": NOOP}))["ok"] is True
        wrong = await api.post("/playbooks/check", {"text": BROKEN})
        assert wrong["ok"] is False
        assert "unknown-step" in [each["code"] for each in wrong["problems"]]
        assert (await api.post("/playbooks/check", {"text": "- 1", "dialect": "auto"}))["ok"] is False
        assert (await api.get("/playbooks"))["items"] == []

    serve(tmp_path, work)


def test_a_playbook_is_explained_and_drawn_by_text_path_and_digest(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        digest = (await api.register(HELLO))["digest"]
        for body in ({"text": HELLO}, {"path": "t"}, {"path": "t", "version": 1}, {"digest": digest}):
            told = await api.post("/playbooks/explain", body)
            assert "● start\n├─ " in told["text"]  # the tree that `noetl explain` prints
            graph = await api.post("/playbooks/graph", body)
            start = next(each for each in graph["steps"] if each["name"] == "start")
            assert (start["line"], start["kinds"]) == (6, ["python"])
            assert [len(arc["points"]) > 1 for arc in graph["arcs"]] == [True, True]
        for form, begins in (("svg", b"<svg"), ("mermaid", b"---"), ("dot", b"digraph")):
            drawn = await api.ask("POST", "/playbooks/graph", {"path": "t"}, format=form)
            assert (drawn.status, drawn.body[: len(begins)]) == (200, begins)
        for body in ({}, {"path": "t", "text": HELLO}, {"nothing": 1}):
            assert (await api.ask("POST", "/playbooks/graph", body)).status == 400
        assert (await api.ask("POST", "/playbooks/explain", {"text": "- 1"})).status == 422
        assert (await api.ask("POST", "/playbooks/explain", {"path": "nothing"})).status == 404

    serve(tmp_path, work)
