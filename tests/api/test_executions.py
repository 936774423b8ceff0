"""Starting executions over HTTP, with keys and with wait; listing them; commands to them."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from noetl.client import Client
from noetl.engine.facts import Cancelled, Paused, Requested
from noetl.ports import ExecutionFilter
from noetl.server.services import ServerSettings
from noetl.server.subscriptions import CompletionWaiters
from noetl.testing import FakeClock
from noetl.views.envelopes import Envelope
from tests.api.servers import FAILING, HELLO, NOOP, WAITING, ApiServer, serve
from tests.playbooks import HEAD

PARENT = HEAD.replace("path: t", "path: parent") + (
    "workflow:\n- step: start\n  tool: {kind: playbook, path: t}\n  next: {arcs: [{step: more}]}\n"
    "- step: more\n  tool: {kind: playbook, path: t}\n"
)


async def facts_of(server: ApiServer, id: str) -> list[Any]:
    return [fact for row in await server.services.store.read(id) for fact in row.facts]


def test_lists_are_searched_and_filtered_by_version_time_and_wait(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        async def found(query: str) -> list[str]:
            answer = await server.api.ask("GET", f"/executions?total=true&{query}")
            assert answer.json["total"] == len(answer.json["items"])
            return [each["execution_id"] for each in answer.json["items"]]

        for text in (HELLO, FAILING, WAITING):
            await server.api.register(re.sub(r"path: \w+", "path: shop/orders", text, count=1))
        ids = []
        for version in (1, 2, 3):
            body = {"path": "shop/orders", "version": version, "labels": {"n": f"v{version}"}}
            answer = await server.api.ask("POST", f"/executions?wait={0 if version == 3 else 30}", body)
            ids.append(answer.json["execution_id"])
        while not await found("waiting=true"):
            continue
        failed = (await server.api.ask("GET", f"/executions/{ids[1]}/head")).json
        waits = (await server.api.ask("GET", f"/executions/{ids[2]}/head")).json["waits"]
        assert await found("search=ORDER") == ids[::-1]
        assert await found(f"search={ids[0][-6:]}") == await found("search=n%3Dv1") == [ids[0]]
        assert await found(f"search={failed['error'][2:9]}&status=error") == [ids[1]]
        assert await found("path=shop/orders&version=2") == [ids[1]]
        assert await found("path_prefix=shop/") == await found("path_prefix=shop/orders") == ids[::-1]
        assert await found("path_prefix=orders") == await found("path_prefix=shop/orders/") == []
        assert await found("path=shop/orders&version=9") == await found("path=none&version=1") == []
        assert await found("waiting=true") == [ids[2]]
        assert [(each["frame"], each["signal"]) for each in waits] == [("start#1", "go")]
        assert await found(f"until={failed['started_at']}") == [ids[0]]
        for query in ("version=1", "until=2026-01-01T00:00:00", "search=%00"):
            assert (await server.api.ask("GET", f"/executions?{query}")).status == 400
        await server.api.ask("POST", f"/executions/{ids[2]}/signal", {"name": "go"})
        assert await found("waiting=true") == []

    serve(tmp_path, work)


def test_the_log_records_a_start_with_its_caller(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(HELLO)
        answer = await server.api.ask("POST", "/executions", {"path": "t", "workload": {"name": "you"}})
        assert answer.status == 201
        id = answer.json["execution_id"]
        assert answer.headers["location"] == f"/executions/{id}"
        first = (await facts_of(server, id))[0]
        assert isinstance(first, Requested)
        assert (first.workload, first.by) == ({"name": "you"}, "local")

    serve(tmp_path, work)


def test_a_start_gives_first_values_of_ctx(tmp_path: Path) -> None:
    text = HEAD + 'workflow:\n- step: start\n  tool: {kind: noop, input: {page: "{{ ctx.page }}"}}\n'

    async def work(server: ApiServer) -> None:
        await server.api.register(text)
        key = {"Idempotency-Key": "once"}
        asked = {"path": "t", "version": 1, "ctx": {"page": 3}}
        shown = await server.api.ask("POST", "/executions", asked, headers=key, wait=120)
        assert shown.json["output"]["data"] == {"page": 3}
        first = (await facts_of(server, shown.json["execution_id"]))[0]
        assert (first.ctx, first.workload) == ({"page": 3}, {})
        events = await server.api.get(f"/executions/{shown.json['execution_id']}/events")
        patched = [each["data"] for each in events["items"] if each["name"] == "ctx.patched"]
        assert patched == [{"set": {"ctx.page": 3}}]
        other = await server.api.ask("POST", "/executions", {**asked, "ctx": {"page": 4}}, headers=key)
        assert (other.status, other.json["code"]) == (422, "idempotency-mismatch")
        bad = await server.api.ask("POST", "/executions", {**asked, "ctx": {"a b": 1}})
        assert (bad.status, bad.json["code"]) == (422, "bad-ctx")
        assert (await server.api.ask("POST", "/executions", {**asked, "ctx": [1]})).status == 400

    serve(tmp_path, work)


def test_a_start_with_wait_returns_the_result(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(HELLO)
        asked = {"path": "t", "version": 1, "workload": {"name": "Ada"}}
        shown = await server.api.post("/executions", asked, wait=120)
        assert (shown["status"], shown["output"]["data"]) == ("ok", {"greeting": "hello Ada"})
        assert await server.api.get(f"/executions/{shown['execution_id']}") == shown
        await server.api.register(FAILING)
        failed = await server.api.post("/executions", {"path": "failing"}, wait=120)
        assert (failed["status"], failed["error"]["step"]) == ("error", "start")

    serve(tmp_path, work)


def test_a_start_whose_wait_is_over_returns_the_location(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(WAITING)
        answer = await server.api.ask("POST", "/executions", {"path": "waiting"}, wait=0.05)
        assert (answer.status, answer.json["status"]) == (202, "running")
        assert answer.headers["location"] == f"/executions/{answer.json['execution_id']}"

    serve(tmp_path, work)


async def signalled(server: ApiServer, id: str) -> None:
    while (await server.api.ask("POST", f"/executions/{id}/signal", {"name": "go"})).status != 200:
        continue


def test_a_waiting_request_returns_when_the_execution_ends(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        await api.register(WAITING)
        waits = asyncio.ensure_future(api.post("/executions", {"path": "waiting"}, wait=120))
        while not (heads := (await api.get("/executions"))["items"]):
            continue
        await signalled(server, heads[0]["execution_id"])
        assert (await waits)["status"] == "ok"

    serve(tmp_path, work)


def test_a_feed_event_alone_ends_the_wait(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(WAITING)
        id = (await server.api.post("/executions", {"path": "waiting"}, status=201))["execution_id"]
        async with CompletionWaiters(server.services._replace(clock=FakeClock())).waiter(id, 30) as waiter:
            waits = asyncio.ensure_future(waiter.has_ended(is_new=True))
            await signalled(server, id)
            assert await waits

    serve(tmp_path, work)


def test_the_same_key_returns_the_same_execution(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        await api.register(HELLO)
        key = {"Idempotency-Key": "order 17"}
        body = {"path": "t", "workload": {"name": "x"}}
        answers = await asyncio.gather(*(api.ask("POST", "/executions", body, headers=key) for _ in range(5)))
        assert {answer.status for answer in answers} == {201}
        assert len({answer.json["execution_id"] for answer in answers}) == 1
        assert len((await api.get("/executions"))["items"]) == 1
        for other in ({"path": "t", "workload": {"name": "y"}}, {"path": "elsewhere"}):
            answer = await api.ask("POST", "/executions", other, headers=key)
            assert (answer.status, answer.json["code"]) == (422, "idempotency-mismatch")
        await api.register(HELLO + "# another version\n")
        assert (await api.ask("POST", "/executions", body, headers=key)).status == 201
        told = await api.ask("POST", "/executions", {**body, "version": 2}, headers=key)
        assert told.json["code"] == "idempotency-mismatch"
        waited = await api.ask("POST", "/executions", body, headers=key, wait=120)
        assert (waited.status, waited.json["status"]) == (200, "ok")

    serve(tmp_path, work)


def test_the_same_key_of_another_token_starts_another_execution(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        server.api.token = await server.token("write", "run")
        await server.api.register(NOOP)
        ids = []
        for token in (await server.token("run"), await server.token("run")):
            key = {"Idempotency-Key": "mine"}
            answer = await server.api.ask("POST", "/executions", {"path": "t"}, token=token, headers=key)
            ids.append(answer.json["execution_id"])
        assert ids[0] != ids[1]

    serve(tmp_path, work, ServerSettings())


def test_an_invalid_start_is_rejected_and_not_recorded(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        await api.register(NOOP)
        deep: Any = 1
        for _ in range(70):
            deep = [deep]
        for body, status, code in (
            ({"digest": "0" * 64}, 404, "not-found"),
            ({}, 400, "bad-request"),
            ({"path": "t", "digest": "x"}, 400, "bad-request"),
            ({"path": "t", "version": 10**30}, 400, "bad-request"),
            ({"path": "t", "worklaod": {}}, 400, "bad-request"),
            ({"path": "t", "workload": [1]}, 400, "bad-request"),
            ({"path": "t", "workload": {"deep": deep}}, 422, "not-json"),
            (b"{", 400, "bad-json"),
            (b"[" * 100_000, 400, "bad-json"),
            ([], 400, "bad-request"),
        ):
            answer = await api.ask("POST", "/executions", body)
            assert (answer.status, answer.json["code"]) == (status, code), answer.body
        for wait in ("301", "-1", "soon"):
            assert (await api.ask("POST", "/executions", {"path": "t"}, wait=wait)).status == 400
        assert (await api.get("/executions"))["items"] == []

    serve(tmp_path, work)


def test_executions_are_listed_and_found(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        assert (await api.ask("GET", "/executions/last")).status == 404
        await api.register(WAITING)
        ids = [await api.run(NOOP), await api.run(FAILING)]
        ids.append((await api.post("/executions", {"path": "waiting"}, status=201))["execution_id"])
        page = await api.get("/executions", limit=2)
        assert [each["execution_id"] for each in page["items"]] == [ids[2], ids[1]]
        rest = await api.get("/executions", limit=2, before=page["next"])
        assert ([each["execution_id"] for each in rest["items"]], rest["next"]) == ([ids[0]], None)
        for wanted, found in (({"status": "error"}, [1]), ({"open": "true"}, [2]), ({"path": "t"}, [0])):
            listed = await api.get("/executions", **wanted)
            assert [each["execution_id"] for each in listed["items"]] == [ids[place] for place in found]
        assert (await api.get("/executions/last"))["execution_id"] == ids[2]
        assert (await api.get("/executions/find", prefix=ids[0]))["ids"] == [ids[0]]
        assert (await api.get("/executions/find", prefix="zz"))["ids"] == []
        head = await api.get(f"/executions/{ids[1]}/head")
        assert (head["status"], head["path"], head["owner_alive"]) == ("error", "failing", True)
        assert (await api.ask("GET", "/executions", status="nonsense")).status == 400

    serve(tmp_path, work)


def test_the_tree_contains_the_children(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(NOOP)
        id = await server.api.run(PARENT)
        tree = await server.api.get(f"/executions/{id}/tree")
        assert tree["execution"]["execution_id"] == id
        assert [child["execution"]["path"] for child in tree["children"]] == ["t", "t"]
        assert [child["execution"]["parent"].split("/")[0] for child in tree["children"]] == [id, id]

    serve(tmp_path, work)


def test_the_log_records_commands_with_their_caller(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        await api.register(WAITING)
        id = (await api.post("/executions", {"path": "waiting"}, status=201))["execution_id"]
        assert await api.post(f"/executions/{id}/pause") == {"execution_id": id, "status": "paused"}
        assert (await api.ask("POST", f"/executions/{id}/pause", {})).json["code"] == "not-running"
        assert (await api.post(f"/executions/{id}/resume"))["status"] == "running"
        told = await api.post(f"/executions/{id}/cancel", {"reason": "enough"})
        assert told["status"] in ("cancelling", "cancelled")
        facts = await facts_of(server, id)
        assert [fact.by for fact in facts if isinstance(fact, Paused)] == ["local"]
        assert [(fact.reason, fact.by) for fact in facts if isinstance(fact, Cancelled)] == [("enough", "local")]
        for verb in ("cancel", "pause", "resume", "retry"):
            answer = await api.ask("POST", f"/executions/{'0' * 8}-0000-7000-8000-{'0' * 12}/{verb}")
            assert (answer.status, answer.json["code"]) == (404, "not-found")

    serve(tmp_path, work)


def test_a_cancel_with_compensation_undoes_completed_steps_d116(tmp_path: Path) -> None:
    text = HEAD.replace("path: t", "path: books") + (
        "workflow:\n- step: start\n  tool: {kind: noop, input: {id: 7}}\n"
        "  compensate: {tool: {kind: noop, input: {gone: '{{ output.data.id }}'}, set: {ctx.gone: '{{ output.data.gone }}'}}}\n"
        "  next: {arcs: [{step: waits}]}\n- step: waits\n  tool: {kind: wait, signal: go}\n"
    )

    async def work(server: ApiServer) -> None:
        api = server.api
        await api.register(text)
        id = (await api.post("/executions", {"path": "books"}, status=201))["execution_id"]
        async with Client(api.url) as client:
            async for each in client.stream(id):
                if isinstance(each, Envelope) and each.name == "frame.parked":
                    await api.post(f"/executions/{id}/cancel", {"compensate": True})
        facts = await facts_of(server, id)
        assert [(fact.compensate, fact.by) for fact in facts if isinstance(fact, Cancelled)] == [(True, "local")]
        shown = await api.get(f"/executions/{id}")
        assert (shown["status"], shown["compensation"]) == ("cancelled", {"status": "done", "uncompensated": []})
        assert [step["id"] for step in shown["steps"]] == ["start#1", "waits#1", "start#1/compensate#1"]
        assert (await api.get(f"/executions/{id}/state"))["ctx"] == {"gone": 7}
        timeline = await api.get(f"/executions/{id}/timeline")
        assert [line["step"] for line in timeline["steps"]] == ["start", "waits", "start/compensate"]

    serve(tmp_path, work)


def test_a_retry_repeats_the_failed_step(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        flag = tmp_path / "flag"
        id = await api.run(
            HEAD
            + "workload: {flag: ''}\nworkflow:\n- step: start\n  tool: {kind: python, input: {flag: '{{ workload.flag }}'}, "
            'code: "def main(flag): open(flag).close()"}\n'
            "  next: {arcs: [{step: hold}]}\n- {step: hold, tool: {kind: wait, signal: go}}\n",
            {"flag": str(flag)},
        )
        assert (await api.get(f"/executions/{id}"))["status"] == "error"
        wrong = await api.ask("POST", f"/executions/{id}/retry", {"step": "nowhere"})
        assert (wrong.status, wrong.json["code"]) == (422, "unknown-step")
        flag.touch()
        assert (await api.post(f"/executions/{id}/retry", {}))["status"] == "running"
        await signalled(server, id)
        await server.runtime.wait_until_idle(id)
        assert (await api.get(f"/executions/{id}"))["status"] == "ok"
        done = await api.ask("POST", f"/executions/{id}/retry")
        assert (done.status, done.json["code"]) == (409, "nothing-failed")

    serve(tmp_path, work)


def test_an_unexpected_signal_is_rejected(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        await api.register(WAITING)
        id = (await api.post("/executions", {"path": "waiting"}, status=201))["execution_id"]
        answer = await api.ask("POST", f"/executions/{id}/signal", {"name": "stop"})
        assert (answer.status, answer.json["code"]) == (409, "nobody-waits")
        assert (await api.ask("POST", f"/executions/{id}/signal", {"data": 1})).status == 400

    serve(tmp_path, work)


def test_labels_are_recorded_and_found_with_a_total(tmp_path: Path) -> None:
    labelled = HEAD.replace("path: t", "path: t, labels: {team: data}") + NOOP.removeprefix(HEAD)

    async def work(server: ApiServer) -> None:
        api = server.api
        await api.register(labelled)
        ids = [
            (await api.post("/executions?wait=60", {"path": "t", "labels": labels}))["execution_id"]
            for labels in ({}, {"run": "a"}, {"run": "b", "team": "ops"})
        ]
        page = await api.get("/executions?label=team%3Ddata&total=true&limit=1")
        assert ([each["execution_id"] for each in page["items"]], page["total"]) == ([ids[1]], 2)
        assert page["items"][0]["labels"] == {"team": "data", "run": "a"}
        assert "total" not in await api.get("/executions")
        both = await api.get("/executions?label=team%3Dops&label=run%3Db&roots=true&since=2020-01-01T00:00:00Z")
        assert [each["execution_id"] for each in both["items"]] == [ids[2]]
        for query in ("label=team", "since=2020-01-01T00:00:00"):
            assert (await api.ask("GET", f"/executions?{query}")).status == 400
        refused = await api.ask("POST", "/executions", {"path": "t", "labels": {"a=b": "c"}})
        assert (refused.status, refused.json["code"]) == (400, "bad-label")
        async with Client(api.url) as client:
            first = await client.start("t", labels={"k": "v"}, key="one")
            assert (await client.start("t", labels={"k": "v"}, key="one")).execution_id == first.execution_id
            found = await client.listing.executions(100, ExecutionFilter(labels={"k": "v", "team": "data"}, roots=True))
            assert [head.labels for head in found] == [{"team": "data", "k": "v"}]

    serve(tmp_path, work)


def test_an_ended_execution_is_deleted_with_its_children(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        await api.register(NOOP)
        await api.register(WAITING)
        id = await api.run(PARENT)
        tree = await api.get(f"/executions/{id}/tree")
        child = tree["children"][0]["execution"]["execution_id"]
        await api.get(f"/executions/{id}/timeline")
        waiting = (await api.post("/executions", {"path": "waiting"}, status=201))["execution_id"]
        for each, code in ((waiting, "not-ended"), (child, "called")):
            refused = await api.ask("DELETE", f"/executions/{each}")
            assert (refused.status, refused.json["code"]) == (409, code)
        answer = await api.ask("DELETE", f"/executions/{id}")
        assert (answer.status, answer.json) == (200, {"deleted": 3})
        for path in ("", "/head", "/timeline", "/events", "/log"):
            assert (await api.ask("GET", f"/executions/{id}{path}")).status == 404, path
        assert (await api.ask("DELETE", f"/executions/{id}")).status == 404
        left = await api.get("/executions")
        assert [each["execution_id"] for each in left["items"]] == [waiting]
        entries = (await api.get("/audit?action=command"))["items"]
        assert [(each["what"], each["target"]) for each in entries] == [("delete", id)]

    serve(tmp_path, work)
