"""POST /playbooks/test and /playbooks/what-if: nothing is called or stored, roles count, and hostile texts are bounded."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from noetl.control.api_tokens import digest_of, new_token
from noetl.ports import RoleGrant
from noetl.replay.trials import WAITING_MAX, TrialProcesses
from noetl.server.services import ServerSettings
from tests.api.servers import ApiServer, serve
from tests.playbooks import HEAD

SETTINGS = ServerSettings(open=True, trials=TrialProcesses())
ORDERS = HEAD.replace("path: t", "path: shop/orders") + (
    "workload: {pages: 3}\n"
    "workflow:\n"
    "- step: start\n"
    "  loop: {in: '{{ range(workload.pages) }}', iterator: n}\n"
    "  tool: {name: get, kind: python, code: 'def main(n): return [n] * 20_000', input: {n: '{{ iter.n }}'}}\n"
    "  set: {ctx.rows: '{{ output.data | map(\"length\") | sum }}'}\n"
    "  next: {arcs: [{step: store, when: '{{ ctx.rows > 10 }}'}, {step: small}]}\n"
    "- step: store\n"
    "  tool: {kind: noop, input: {rows: '{{ ctx.rows }}'}}\n"
    "- step: small\n"
    "  tool: {kind: noop}\n"
)
EDITED = ORDERS.replace("ctx.rows > 10", "ctx.rows > 100_000")
TESTS = """\
playbook: orders.yaml
tests:
- name: rows are stored
  stubs: [{call: start.get, output: [1, 2, 3, 4]}]
  expect: {route: [start, store], output: {rows: 12}}
- name: nothing to store
  stubs: [{call: start.get, output: []}]
  expect: {route: [start, store]}
"""
# Each turn of the loop is quick, and there is no end.
ENDLESS = HEAD + (
    "workflow:\n- step: start\n  tool: {kind: noop, set: {ctx.big: '{{ range(9000) | list }}'}}\n"
    "  next: {arcs: [{step: start, when: '{{ ctx.never is not defined }}'}, {step: end}]}\n"
)


def test_tests_of_a_text_are_run_and_nothing_is_stored(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        done = await server.api.post("/playbooks/test", {"text": ORDERS, "tests": TESTS, "coverage": True})
        assert (done["passed"], done["failed"], done["problems"]) == (1, 1, [])
        first, second = done["tests"]
        assert (first["name"], first["mismatches"], first["route"]) == ("rows are stored", [], ["start", "store"])
        assert {"what": "route", "expected": "start → store", "actual": "start → small"} in second["mismatches"]
        assert done["coverage"][0]["steps"] == {"ran": 3, "of": 3}
        only = await server.api.post("/playbooks/test", {"text": ORDERS, "tests": TESTS, "only": "rows"})
        assert (only["passed"], only["failed"]) == (1, 0)
        assert (await server.api.get("/playbooks"))["items"] == []

    serve(tmp_path, work, SETTINGS)


def test_problems_are_those_of_the_text_that_has_them(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        live = TESTS.replace("output: [1, 2, 3, 4]", "live: true")
        for body, of, line in (
            ({"text": ORDERS.replace("step: store, when", "step: stor, when"), "tests": TESTS}, "playbook", 10),
            ({"text": ORDERS, "tests": TESTS.replace("start.get", "start.gett")}, "tests", 4),
            ({"text": ORDERS, "tests": live}, "tests", 3),
        ):
            done = await server.api.post("/playbooks/test", body)
            assert (done["problems_of"], done["problems"][0]["line"], done["tests"]) == (of, line, [])

    serve(tmp_path, work, SETTINGS)


async def reports(server: ApiServer, body: dict[str, Any]) -> list[dict[str, Any]]:
    return [each["report"] for each in (await server.api.post("/playbooks/what-if", body))["items"]]


def test_an_edited_text_is_compared_with_recorded_executions(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        first, second = await server.api.run(ORDERS), await server.api.run(ORDERS, {"pages": 9})
        [same] = await reports(server, {"text": ORDERS, "executions": [first]})
        assert (same["differs"], same["calls"]["same"], same["coverage"]) == (False, 3, {"answered": 3, "of": 3})
        both = await reports(server, {"text": EDITED, "path": "shop/orders", "last": 5})
        assert [(each["execution_id"], each["differs"]) for each in both] == [(second, False), (first, True)]
        assert both[1]["routes"] == {"same": False, "recorded": ["start", "store"], "replayed": ["start", "small"]}
        assert both[1]["first_divergence"]["why"] == "start → small happens and was not recorded"
        listed = await server.api.get("/executions")
        assert len(listed["items"]) == 2, "nothing was started"

    serve(tmp_path, work, SETTINGS)


def test_a_log_that_is_too_long_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl.server.routes.trials.FACTS_MAX", 5)

    async def work(server: ApiServer) -> None:
        id = await server.api.run(ORDERS)
        answer = await server.api.ask("POST", "/playbooks/what-if", {"text": ORDERS, "executions": [id]})
        assert (answer.status, answer.json["code"]) == (413, "too-large")
        [item] = (await server.api.post("/playbooks/what-if", {"text": ORDERS, "path": "shop/orders"}))["items"]
        assert item["report"] is None
        assert "a server compares at most 5: use `noetl what-if`" in item["error"]

    serve(tmp_path, work, SETTINGS)


def test_what_if_respects_the_paths_of_a_role(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        server.api.token = await server.token("read", "run", "write")
        id = await server.api.run(ORDERS)
        found, text = new_token(
            "guest", (), None, server.services.clock, os.urandom, roles=(RoleGrant(role="viewer", paths=("other/*",)),)
        )
        await server.services.tokens.add(found, digest_of(text))
        named: list[dict[str, Any]] = [{"executions": [id]}, {"path": "shop/orders"}]
        for body in named:
            answer = await server.api.ask("POST", "/playbooks/what-if", {"text": ORDERS, **body}, token=text)
            assert answer.status == 404, answer.body
        mistaken: list[dict[str, Any]] = [{}, {"executions": [id], "path": "x"}]
        for wrong in mistaken:
            assert (await server.api.ask("POST", "/playbooks/what-if", {"text": ORDERS, **wrong})).status == 422

    serve(tmp_path, work, SETTINGS._replace(open=False))


@pytest.mark.parametrize(("trial_s", "said"), [(60, "too much memory"), (0.5, "did not end within 0.5 s")])
def test_a_hostile_text_ends_with_its_process_and_the_server_goes_on(tmp_path: Path, trial_s: float, said: str) -> None:
    async def work(server: ApiServer) -> None:
        body = {"text": ENDLESS, "tests": "playbook: a\ntests: [{name: a}]\n"}
        running = asyncio.create_task(server.api.ask("POST", "/playbooks/test", body))
        while not running.done():
            await server.api.get("/health")
            await asyncio.wait({running}, timeout=0.5)
        answer = running.result()
        assert (answer.status, answer.json["code"]) == (413, "too-large")
        assert said in answer.json["detail"]

    serve(tmp_path, work, SETTINGS._replace(trials=TrialProcesses(trial_s)))


def test_too_many_at_once_are_told_to_wait(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        body = {"text": ENDLESS, "tests": "playbook: a\ntests: [{name: a}]\n"}
        asked = [server.api.ask("POST", "/playbooks/test", body) for _ in range(WAITING_MAX + 4)]
        assert Counter(each.status for each in await asyncio.gather(*asked)) == {413: WAITING_MAX, 503: 4}

    serve(tmp_path, work, SETTINGS._replace(trials=TrialProcesses(0.1)))
