"""`respond` tasks give the answer of POST /run/<path> (D110)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from noetl.engine.facts import TaskDone
from tests.api.servers import ApiServer, serve
from tests.playbooks import HEAD

EARLY = HEAD + (
    "workload: {name: you}\nworkflow:\n"
    "- step: start\n  tool:\n"
    "  - {name: accept, kind: respond, status: 202, headers: {Location: '/orders/{{ workload.name }}', X-Total: '3'},"
    " body: {for: '{{ workload.name }}'}}\n"
    "  - {name: approval, kind: wait, signal: go}\n"
    "  - {name: later, kind: respond, body: late}\n"
)
STORED = HEAD.replace("path: t", "path: report") + (
    "workflow:\n- step: start\n  tool:\n"
    "  - {name: make, kind: shell, sh: 'seq 1 200000', spec: {result: {inline_max_bytes: 0}}}\n"
    "  - {name: answer, kind: respond, headers: {Content-Type: text/csv}, ref: '{{ make.shell.stdout_ref }}'}\n"
)
LONG = HEAD.replace("path: t", "path: long") + (
    "workload: {text: true}\nworkflow:\n- step: start\n  tool:\n"
    "  - {name: make, kind: python, input: {text: '{{ workload.text }}'},"
    " code: \"def main(text): return 'x' * 200_000 if text else list(range(50_000))\"}\n"
    "  - {name: answer, kind: respond, body: '{{ _prev }}'}\n"
)
FAILS_LATER = HEAD.replace("path: t", "path: late") + (
    "workflow:\n- step: start\n  tool: {kind: respond, status: 404, body: not here}\n  next: {arcs: [{step: after}]}\n"
    "- step: after\n  tool: {kind: python, code: \"def main(): raise ValueError('no')\"}\n"
)
WRONG = HEAD.replace("path: t", "path: wrong") + (
    "workflow:\n- step: start\n  tool: {kind: respond, headers: {Set-Cookie: a=b}}\n"
)
CHILD = HEAD.replace("path: t", "path: parent") + (
    "workflow:\n- step: start\n  tool: {kind: playbook, path: late}\n"
    "  next: {arcs: [{step: after, when: \"{{ output.status == 'error' }}\"}]}\n- step: after\n"
    "  tool: {kind: noop, input: {mine: true}}\n"
)


def test_the_answer_arrives_while_the_execution_goes_on(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(EARLY)
        key = {"Idempotency-Key": "1"}
        answer = await server.api.ask("POST", "/run/t", {"name": "Ada"}, headers=key)
        assert (answer.status, answer.json) == (202, {"for": "Ada"})
        assert (answer.headers["location"], answer.headers["x-total"]) == ("/orders/Ada", "3")
        assert answer.headers["content-type"] == "application/json"
        assert "sandbox" in answer.headers["content-security-policy"]
        id = answer.headers["noetl-execution-id"]
        assert (await server.api.get(f"/executions/{id}"))["status"] == "running"
        while (await server.api.ask("POST", f"/executions/{id}/signal", {"name": "go"})).status != 200:
            pass  # the answer comes before the next task waits for the signal
        # The first answer counts, also for a later request with the same key.
        again = await server.api.ask("POST", "/run/t", {"name": "Ada"}, headers=key)
        assert (again.status, again.json, again.headers["noetl-execution-id"]) == (202, {"for": "Ada"}, id)

    serve(tmp_path, work)


def test_large_answers_come_from_the_result_store(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        for text in (STORED, LONG):
            await server.api.register(text)
        answer = await server.api.ask("POST", "/run/report")
        assert (answer.status, answer.headers["content-type"]) == (200, "text/csv")
        assert answer.body.split() == [b"%d" % n for n in range(1, 200_001)]
        assert int(answer.headers["content-length"]) == len(answer.body)
        text_answer = await server.api.ask("POST", "/run/long", {"text": True})
        assert (text_answer.body, text_answer.headers["content-type"]) == (b"x" * 200_000, "text/plain; charset=utf-8")
        list_answer = await server.api.ask("POST", "/run/long", {"text": False})
        assert list_answer.json == list(range(50_000))

    serve(tmp_path, work)


def test_a_failure_after_the_answer_does_not_change_it_and_one_of_the_task_is_a_500(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        for text in (FAILS_LATER, WRONG, CHILD):
            await server.api.register(text)
        answer = await server.api.ask("POST", "/run/late")
        assert (answer.status, answer.body) == (404, b"not here")
        wrong = await server.api.ask("POST", "/run/wrong")
        assert (wrong.status, wrong.json["kind"]) == (500, "input")
        assert "Set-Cookie" in wrong.json["detail"]
        assert "set-cookie" not in wrong.headers
        # A child gives no answer for its parent.
        parent = await server.api.ask("POST", "/run/parent")
        assert (parent.status, parent.json) == (200, {"mine": True})

    serve(tmp_path, work)


def test_a_caller_that_does_not_wait_gets_the_location(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(EARLY)
        answer = await server.api.ask("POST", "/run/t", headers={"Prefer": "respond-async"})
        assert (answer.status, answer.json["execution_id"]) == (202, answer.headers["noetl-execution-id"])
        async with asyncio.timeout(30):
            id = await server.api.run(EARLY.replace("kind: wait, signal: go", "kind: noop"))
        facts = [fact for row in await server.services.store.read(id) for fact in row.facts]
        outputs = [
            fact.output.own["respond"]
            for fact in facts
            if isinstance(fact, TaskDone) and fact.output and fact.output.own
        ]
        assert [each["body"] for each in outputs] == ["json", "text"]

    serve(tmp_path, work)
