"""The debugger over HTTP: breakpoints, what is held, values there, changes by hand."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from noetl.engine.commands import SetBreakpoint
from noetl.errors import Rejected
from noetl.server.services import ServerSettings
from noetl.session.protocol import ForkSpec
from noetl.session.remote import RemoteSession
from tests.api.servers import ApiServer, serve
from tests.e2e.processes import NOETL
from tests.playbooks import HEAD

LETTERS = HEAD.replace("path: t", "path: shop/letters") + (
    "workload: {letters: [a, b, c]}\n"
    "workflow:\n"
    "- step: start\n"
    "  loop: {in: '{{ workload.letters }}', iterator: letter}\n"
    "  tool:\n"
    "  - {name: read, kind: python, code: 'def main(x): return x * 2', input: {x: '{{ iter.letter }}'}}\n"
    "  - {name: keep, kind: noop, input: {x: '{{ read.data }}'}, set: {ctx.last: '{{ input.x }}'}}\n"
    "  next: {arcs: [{step: end_it}]}\n"
    "- step: end_it\n"
    "  tool: {kind: python, code: 'def main(x): return x', input: {x: '{{ ctx.last }}'}}\n"
)


async def held(server: ApiServer, id: str, place: str) -> dict[str, Any]:
    """Where it is, as soon as something is held there."""
    while True:
        found: dict[str, Any] = await server.api.get(f"/executions/{id}/debug")
        if any(each["place"] == place for each in found["held"]):
            return found


def test_an_iteration_is_held_changed_and_goes_on(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        point = {"place": "start.keep", "when": "iter.index == 1"}
        started = await api.post("/executions", {"text": LETTERS, "breakpoints": [point]}, status=201)
        id = started["execution_id"]
        found = await held(server, id, "start.keep")
        assert found["breakpoints"] == [{"place": "start.keep", "when": "{{ iter.index == 1 }}", "line": 10}]
        assert found["held"] == [
            {"at": "start#1[1]", "place": "start.keep", "run": "start#1", "step": "start", "task": "keep",
             "iteration": 1, "calls": 1, "breakpoint": "start.keep", "line": 10}
        ]  # fmt: skip
        at = {"at": "start#1[1]"}
        scopes = await api.get(f"/executions/{id}/debug/scopes?at=start%231%5B1%5D")
        assert scopes["scopes"]["iter"] == {"letter": "b", "index": 1}
        for expression, value in (
            ("read.data ~ '!'", {"value": "bb!"}),
            ("{{ keychain.shop }}", {"value": "***", "masked": True}),
        ):
            assert await api.post(f"/executions/{id}/debug/evaluate", {"expression": expression, **at}) == value
        wrong = await api.post(f"/executions/{id}/debug/evaluate", {"expression": "nothing.at.all", **at})
        assert "nothing" in wrong["error"]
        changed = await api.post(f"/executions/{id}/debug/set", {"set": {"iter.letter": "x", "ctx.seen": 1}, **at})
        assert changed["changes"][0]["set"] == {"iter.letter": "x", "ctx.seen": 1}
        stepped = await api.post(f"/executions/{id}/debug/step", at)
        assert stepped["seq"] > changed["seq"]
        found = await held(server, id, "start.read")
        assert [each["at"] for each in found["held"]] == ["start#1[2]"]
        assert (await api.ask("DELETE", f"/executions/{id}/breakpoints", place="start.keep")).json["breakpoints"] == []
        await api.post(f"/executions/{id}/breakpoints", {"place": "end_it"})
        await api.post(f"/executions/{id}/debug/continue", {})
        found = await held(server, id, "end_it")
        shown = await api.get(f"/executions/{id}")
        assert shown["held"][0]["at"] == "end_it#1"
        assert shown["steps"][1]["why"] == "waits for the debugger, before end_it"
        assert shown["changes"][0]["at"] == "start#1[1]"
        await api.post(f"/executions/{id}/debug/set", {"at": "end_it#1", "set": {"ctx.last": "mine"}})
        await api.post(f"/executions/{id}/debug/continue", {"at": "end_it#1"})
        await server.runtime.wait_until_idle(id)
        assert (await api.get(f"/executions/{id}"))["output"]["data"] == "mine"
        trail = [(each["what"], each["detail"]) for each in (await api.get("/audit?action=command"))["items"]]
        assert trail == [
            ("continue", "end_it#1"), ("set", "end_it#1: ctx.last"), ("continue", "all"), ("break", "end_it"),
            ("clear", "start.keep"), ("step", "start#1[1]"), ("set", "start#1[1]: iter.letter, ctx.seen"),
        ]  # fmt: skip

    serve(tmp_path, work)


def test_what_cannot_be_debugged_is_refused(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        for point, code in (
            ({"place": "start.red"}, "unknown-place"),
            ({"place": "start", "when": "iter.index == 1"}, "bad-condition"),
            ({"place": "start", "when": "1 +"}, "bad-condition"),
        ):
            refused = await api.ask("POST", "/executions", {"text": LETTERS, "breakpoints": [point]})
            assert (refused.status, refused.json["code"]) == (422, code), refused.json
        started = await api.post(
            "/executions", {"text": LETTERS, "breakpoints": [{"place": "*", "once": True}]}, status=201
        )
        id = started["execution_id"]
        found = await held(server, id, "start")
        assert (found["breakpoints"], found["held"][0]["breakpoint"]) == ([], "*")
        for path, body, status, code in (
            ("debug/step", {"at": "start#2"}, 409, "not-held"),
            ("debug/set", {"at": "start#1", "set": {"workload.n": 1}}, 422, "bad-change"),
            ("debug/set", {"at": "start#1", "set": {"iter.letter": 1}}, 422, "bad-change"),
            ("debug/evaluate", {"at": "start#7", "expression": "1"}, 409, "not-held"),
            ("debug/step", {}, 400, "bad-request"),
        ):
            refused = await api.ask("POST", f"/executions/{id}/{path}", body)
            assert (refused.status, refused.json["code"]) == (status, code), refused.json
        refused = await api.ask("DELETE", f"/executions/{id}/breakpoints", place="start")
        assert (refused.status, refused.json["code"]) == (409, "no-breakpoint")
        await api.post(f"/executions/{id}/cancel")
        await server.runtime.wait_until_idle(id)
        refused = await api.ask("POST", f"/executions/{id}/breakpoints", {"place": "start"})
        assert (refused.status, refused.json["code"]) == (409, "execution-over")
        assert (await api.get(f"/executions/{id}/debug"))["held"] == []

    serve(tmp_path, work)


def test_a_session_on_a_server_debugs_like_one_on_a_file(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        file = tmp_path / "letters.yaml"
        file.write_text(LETTERS)
        async with RemoteSession(server.api.url) as session:
            point = SetBreakpoint(place="start.keep", when="iter.letter == 'c'")
            execution = await session.start(file, breakpoints=[point])
            debugger = execution.debugger()
            await held(server, execution.id, "start.keep")
            (hold,) = (await debugger.document()).held
            assert (await debugger.evaluate("read.data", hold.at)).value == "cc"
            assert (await debugger.scopes(hold.at)).scopes["ctx"] == {"last": "bb"}
            await debugger.change(hold.at, {"ctx.mine": 1})
            await debugger.set_breakpoint("end_it", once=True)
            await debugger.clear_breakpoint("start.keep")
            await debugger.step(hold.at)
            await held(server, execution.id, "end_it")
            await debugger.change("end_it#1", {"ctx.last": "mine"})
            with pytest.raises(Rejected):
                await debugger.release("start#1")
            await session.pause(execution.id)
            fork = await session.fork(execution.id, ForkSpec(from_step="end_it", breakpoints=(point,)))
            await held(server, fork.id, "start.keep")  # what followed the change by hand is done again
            await fork.debugger().release()
            assert (await fork.result()).output == "cc", "a change by hand belongs to the old execution"
            await session.resume(execution.id)
            await debugger.release()
            result = await execution.result()
            assert (result.output, result.ctx) == ("mine", {"last": "mine", "mine": 1})

    serve(tmp_path, work)


def test_the_debugger_of_the_terminal_stops_in_a_child_on_a_server(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.post("/playbooks", {"text": LETTERS}, status=201)
        file = tmp_path / "calls.yaml"
        file.write_text(f"{HEAD}workflow:\n- step: start\n  tool: {{kind: playbook, path: shop/letters}}\n")
        arguments = (
            "debug",
            str(file),
            "--server",
            server.api.url,
            "--break",
            "start/start.keep",
            "--break",
            "start/end_it",
        )
        process = await asyncio.create_subprocess_exec(
            NOETL, *arguments, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        out = (
            await process.communicate(b"print read.data\nclear start.keep\ncontinue\nset ctx.last mine\ncontinue\n")
        )[0]
        assert process.returncode == 0, out.decode()
        assert "■ start.keep  start#1/start#1[0]  breakpoint start.keep" in out.decode()
        assert "■ end_it  start#1/end_it#1  breakpoint end_it" in out.decode()
        assert out.decode().rstrip().endswith("output:\n  mine")

    serve(tmp_path, work)


def test_a_child_of_a_loop_that_is_held_is_named_in_the_document_of_its_parent(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        server.api.token = await server.token("admin")
        await server.api.post("/playbooks", {"text": LETTERS}, status=201)
        text = (
            f"{HEAD}workflow:\n- step: start\n  loop: {{in: [1, 2], iterator: n}}\n"
            "  tool: {kind: playbook, path: shop/letters}\n"
        )
        start = {"text": text, "breakpoints": [{"place": "start/start.keep"}]}
        id = (await server.api.post("/executions", start, status=201))["execution_id"]
        while not (document := await server.api.get(f"/executions/{id}/debug"))["held_children"]:
            continue
        (child,) = document["held_children"]
        assert (child["at"], child["path"], document["held"]) == ("start#1[0]", "shop/letters", [])
        assert [(each["at"], each["place"]) for each in child["held"]] == [("start#1[0]", "start.keep")]
        assert child["execution_id"] == document["children"][0]["execution_id"]
        roles = [{"role": "viewer", "paths": ["t"]}]
        token = (await server.api.post("/tokens", {"name": "half", "roles": roles}, status=201))["token"]
        answer = await server.api.ask("GET", f"/executions/{id}/debug", token=token)
        assert (answer.status, answer.json["held_children"]) == (200, []), "another path"

    serve(tmp_path, work, ServerSettings())
