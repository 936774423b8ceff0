"""Start requests that cannot run are refused and recorded; unauthorized ones are not recorded (D65)."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import pytest

from noetl.client import Client, PlaybookRefused
from noetl.engine.facts import Evaluated, Fact, Processed, Requested
from noetl.errors import NotFound, PlaybookError
from noetl.output import Failure
from noetl.ports import PlaybookText
from noetl.server.services import ServerSettings
from tests.api.servers import HELLO, NOOP, WAITING, ApiServer, serve
from tests.playbooks import HEAD

BROKEN = HEAD + "workflow:\n- step: start\n  tool: {kind: noop}\n  next: {arcs: [{step: nowhere}]}\n"
DOUBTFUL = HEAD + "workflow:\n- {step: start, tool: {kind: noop}}\n- {step: lost, tool: {kind: noop}}\n"
STRANGE = HEAD + "workflow: [{step: start, tool: {kind: teleport}}]\n"
LOCKED = HEAD + "keychain: [{name: shop, kind: stored}]\nworkflow: [{step: start, tool: {kind: noop}}]\n"
OLD = "apiVersion: noetl.io/v1\nkind: Playbook\nmetadata: {name: t, path: t}\nworkflow:\n- step: start\n  tool: {kind: noop}\n"


async def facts_of(server: ApiServer, id: str) -> list[Fact]:
    return [fact for row in await server.services.store.read(id) for fact in row.facts]


async def on_record(server: ApiServer) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await server.api.get("/executions"))["items"]
    return found


async def refused(server: ApiServer, body: dict[str, Any], status: int) -> dict[str, Any]:
    answer = await server.api.ask("POST", "/executions", body)
    assert answer.status == status, answer.body
    told: dict[str, Any] = answer.json
    assert answer.headers["location"] == f"/executions/{told['execution_id']}"
    return told


def test_a_start_of_an_unknown_playbook_is_refused_and_recorded(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        told = await refused(server, {"path": "no/such", "workload": {"n": 1}}, 404)
        id = told["execution_id"]
        error = Failure(kind="playbook", message=told["detail"])
        assert await facts_of(server, id) == [
            Requested(path="no/such", digest="", workload={"n": 1}, by="local"),
            Evaluated(error=error),
            Processed(status="error"),
        ]
        (listed,) = await on_record(server)
        assert (listed["execution_id"], listed["path"], listed["status"]) == (id, "no/such", "error")
        shown = await server.api.get(f"/executions/{id}")
        assert (shown["status"], shown["error"]["message"], shown["steps"]) == ("error", told["detail"], [])

    serve(tmp_path, work)


def test_a_text_with_problems_is_recorded_but_not_registered(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        told = await refused(server, {"text": BROKEN}, 422)
        assert [each["code"] for each in told["problems"]] == ["unknown-step"]
        requested, evaluated, _ = await facts_of(server, told["execution_id"])
        assert isinstance(requested, Requested)
        assert (requested.path, requested.digest) == ("t", hashlib.sha256(BROKEN.encode()).hexdigest())
        assert isinstance(evaluated, Evaluated)
        assert evaluated.error is not None
        assert (evaluated.error.kind, evaluated.error.message[:26]) == (
            "problems",
            "the playbook has 1 problem",
        )
        assert (await server.api.ask("GET", "/playbooks/one", path="t")).status == 404

    serve(tmp_path, work)


def test_a_text_that_can_run_is_registered_and_started_once_for_a_key(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api, key = server.api, {"Idempotency-Key": "mine"}
        first = await api.ask("POST", "/executions", {"text": DOUBTFUL}, headers=key)
        assert (first.status, [each["severity"] for each in first.json["problems"]]) == (201, ["warning"])
        again = await api.ask("POST", "/executions", {"text": DOUBTFUL}, headers=key)
        assert again.json["execution_id"] == first.json["execution_id"]
        assert (await api.ask("POST", "/executions", {"text": NOOP}, headers=key)).status == 422
        assert len(await on_record(server)) == 1
        assert [each["version"] for each in (await api.get("/playbooks/versions", path="t"))["items"]] == [1]
        upgraded = await api.post("/executions", {"text": OLD, "dialect": "auto"}, wait=120)
        assert upgraded["status"] == "ok"

    serve(tmp_path, work)


def test_a_registered_playbook_that_can_no_longer_run_is_recorded(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        digest = hashlib.sha256(STRANGE.encode()).hexdigest()
        await server.services.catalog.put(PlaybookText(digest, "t", STRANGE))
        told = await refused(server, {"digest": digest}, 422)
        assert [each["code"] for each in told["problems"]] == ["unknown-kind"]
        requested = (await facts_of(server, told["execution_id"]))[0]
        assert requested == Requested(path="t", digest=digest, workload={}, by="local")

    serve(tmp_path, work)


def test_an_unresolved_keychain_is_recorded_under_the_id_of_the_start(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        shown = await server.api.post("/executions", {"text": LOCKED}, wait=120)
        assert (shown["status"], shown["error"]["kind"], shown["steps"]) == ("error", "credential", [])
        last = (await facts_of(server, shown["execution_id"]))[1:]
        assert isinstance(last[0], Evaluated)
        assert (last[0].error is not None, last[1:]) == (True, [Processed(status="error")])

    serve(tmp_path, work)


def test_nothing_is_recorded_without_a_path(tmp_path: Path) -> None:
    """D78."""

    async def work(server: ApiServer) -> None:
        for body, status in (
            ({"text": "a: [1, 2"}, 422),
            ({"text": "just words"}, 422),
            ({"text": BROKEN.replace("path: t", "path: ''")}, 422),
            ({"text": BROKEN.replace("path: t", f"path: {'x' * 1_001}")}, 422),
            ({"text": BROKEN.replace("path: t", 'path: "a\\0b"')}, 422),
            ({"text": BROKEN.replace("path: t", 'path: "a\\e[2Jb"')}, 422),
            ({"text": "# " + "x" * (1 << 20)}, 413),
            ({"path": "x" * 1_001}, 404),
            ({"path": "a\0b"}, 400),
            ({"path": "a\x1b[2J"}, 404),
            ({"digest": "0" * 64}, 404),
            ({"path": "t", "text": NOOP}, 400),
            ({"path": "no/such", "workload": {"n": "\0"}}, 404),
        ):
            answer = await server.api.ask("POST", "/executions", body)
            assert answer.status == status, (body, answer.body)
        assert [each["path"] for each in await on_record(server)] == ["no/such"]
        lone = b'{"path": "a\\ud800", "workload": {}}'
        assert (await server.api.ask("POST", "/executions", lone)).status in (400, 404)
        assert len(await on_record(server)) == 1

    serve(tmp_path, work)


def test_a_caller_without_the_scope_run_leaves_no_record(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        requests: tuple[dict[str, Any], ...] = ({"path": "no/such"}, {"text": BROKEN}, {"text": NOOP})
        refusing = {
            "": 401,
            await server.expired("admin"): 401,
            await server.token("read"): 403,
            await server.token("write"): 403,
        }
        for token, status in refusing.items():
            for body in requests:
                answer = await server.api.ask("POST", "/executions", body, token=token)
                assert (answer.status, "execution_id" in answer.json) == (status, False)
        runs = await server.token("run")
        digest = hashlib.sha256(NOOP.encode()).hexdigest()
        made = PlaybookText(digest, "made/by-a-task", NOOP)
        await server.services.catalog.put(made, listed=False)  # which registers nothing
        for body in requests[1:]:  # starting a text needs the scope write, which this token lacks
            answer = await server.api.ask("POST", "/executions", body, token=runs)
            assert (answer.status, answer.json["code"]) == (403, "low-scope")
        server.api.token = runs
        assert await on_record(server) == []
        answer = await server.api.ask("POST", "/executions", requests[0])
        assert (answer.status, len(await on_record(server))) == (404, 1)

    serve(tmp_path, work, ServerSettings())


def test_a_caller_without_the_scope_write_may_start_a_registered_text(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        runs, boss = await server.token("run", name="ci"), await server.token("admin")
        older = (await server.api.post("/executions", {"text": NOOP}, 201, token=boss))["execution_id"]
        await server.api.post("/executions", {"text": DOUBTFUL}, 201, token=boss)
        key = {"Idempotency-Key": "once"}
        started = {
            (await server.api.post("/executions", {"text": NOOP}, 201, token=runs, headers=key))["execution_id"]
            for _ in range(2)
        }
        assert len(started - {older}) == 1
        first, *_ = await facts_of(server, started.pop())
        assert isinstance(first, Requested)
        assert (first.digest, first.by) == (hashlib.sha256(NOOP.encode()).hexdigest(), "ci")
        current = await server.api.get("/playbooks/one", path="t", token=runs)
        assert current["text"] == DOUBTFUL, "nothing was registered"
        await server.api.ask("POST", "/playbooks/archive", token=boss, path="t")
        answer = await server.api.ask("POST", "/executions", {"text": NOOP}, token=runs)
        assert (answer.status, answer.json["detail"]) == (
            403,
            'the token "ci" lacks the scope "write", which is needed to start '
            "a text that is not registered, or is archived",
        )
        digest = hashlib.sha256(NOOP.encode()).hexdigest()
        answer = await server.api.ask("POST", "/executions", {"digest": digest}, token=runs)
        assert (answer.status, answer.json["code"]) == (403, "low-scope")
        answer = await server.api.ask("POST", "/executions", {"digest": "0" * 64}, token=runs)
        assert answer.status == 404

    serve(tmp_path, work, ServerSettings())


def test_refusals_do_not_affect_running_executions(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(WAITING)
        id = (await server.api.post("/executions", {"path": "waiting"}, status=201))["execution_id"]
        await refused(server, {"path": "no/such"}, 404)
        await refused(server, {"path": "waiting", "version": 7}, 404)
        while (await server.api.ask("POST", f"/executions/{id}/signal", {"name": "go"})).status != 200:
            continue
        await server.runtime.wait_until_idle(id)
        assert sorted(each["status"] for each in await on_record(server)) == ["error", "error", "ok"]

    serve(tmp_path, work)


def test_a_refused_request_leaves_its_key_free(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        key = {"Idempotency-Key": "mine"}
        assert (await server.api.ask("POST", "/executions", {"path": "t"}, headers=key)).status == 404
        await server.api.register(NOOP)
        assert (await server.api.ask("POST", "/executions", {"path": "t"}, headers=key)).status == 201

    serve(tmp_path, work)


@pytest.mark.parametrize("verb", ["retry", "cancel", "pause", "resume"])
def test_a_command_to_a_refused_execution_explains_the_refusal(tmp_path: Path, verb: str) -> None:
    async def work(server: ApiServer) -> None:
        for body in ({"text": BROKEN}, {"path": "no/such"}):
            answer = await server.api.ask("POST", "/executions", body)
            id = answer.json["execution_id"]
            why = "the playbook has 1 problem" if "text" in body else answer.json["detail"]
            answer = await server.api.ask("POST", f"/executions/{id}/{verb}", {})
            assert (answer.status, answer.json["code"]) == (409, "never-began")
            assert answer.json["detail"].startswith(f"it never started: {why}")
            assert answer.json["detail"].endswith("; fix that and start it again")

    serve(tmp_path, work)


def test_the_client_reports_problems_in_its_file_and_the_execution(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        async with Client(server.server.url) as client:
            with pytest.raises(PlaybookRefused) as refused:
                await client.start_text(BROKEN, file="mine.yaml")
            (problem,) = refused.value.problems
            assert (problem.at.file, problem.code) == ("mine.yaml", "unknown-step")
            with pytest.raises(NotFound, match="the log records the request as ") as unknown:
                await client.start("no/such")
            ids = [refused.value.execution_id, str(unknown.value).rpartition(" ")[2]]
            assert {each["execution_id"] for each in await on_record(server)} == set(ids)
            with pytest.raises(PlaybookError) as unread:
                await client.start_text("a: [1")
            assert not isinstance(unread.value, PlaybookRefused)
            started = await client.start_text(HELLO, {"name": "Ada"})
            assert (started.status, started.problems) == ("running", ())

    serve(tmp_path, work)


def test_a_refused_start_does_not_wait(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        async with asyncio.timeout(60):
            answer = await server.api.ask("POST", "/executions", {"path": "no/such"}, wait=300)
        assert answer.status == 404

    serve(tmp_path, work)
