"""A playbook as an API: the response of POST /run/<path> is the output of the playbook."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.output import JSON
from noetl.server.routes.run import wait_of, workload_of
from tests.api.servers import FAILING, HELLO, WAITING, ApiServer, serve
from tests.playbooks import HEAD

TYPED = HEAD.replace("path: t", "path: shop/orders") + (
    "input: {day: {type: date, desc: the day}, size: {type: integer, default: 3}}\n"
    "workflow:\n- step: start\n  tool: {kind: noop, input: {day: '{{ workload.day }}', size: '{{ workload.size }}'}}\n"
)
RETURNS = "{kind: python, input: {value: '{{ workload.value }}'}, code: 'def main(value): return value'}\n"
LARGE = HEAD.replace("path: t", "path: large") + (
    "workflow:\n- step: start\n  tool: {kind: python, code: 'def main(): return list(range(50_000))'}\n"
)


def test_the_response_is_the_output_of_the_playbook(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(HELLO)
        answer = await server.api.ask("POST", "/run/t", {"name": "Ada"})
        assert (answer.status, answer.json) == (200, {"greeting": "hello Ada"})
        id = answer.headers["noetl-execution-id"]
        assert answer.headers["location"] == f"/executions/{id}"
        assert (await server.api.get(f"/executions/{id}"))["status"] == "ok"

    serve(tmp_path, work)


@pytest.mark.parametrize("value", ["a text", "12", "", None, False, 1.5, []])
def test_every_output_is_json(value: JSON, tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(HEAD + "workload: {value: null}\nworkflow:\n- step: start\n  tool: " + RETURNS)
        answer = await server.api.ask("POST", "/run/t", {"value": value})
        assert (answer.status, answer.json, answer.headers["content-type"]) == (200, value, "application/json")

    serve(tmp_path, work)


def test_a_large_output_is_returned_whole(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(LARGE)
        assert (await server.api.ask("POST", "/run/large")).json == list(range(50_000))

    serve(tmp_path, work)


def test_a_failed_execution_is_a_problem_with_its_kind_and_id(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(FAILING)
        answer = await server.api.ask("POST", "/run/failing")
        assert answer.status == 500
        assert answer.headers["content-type"].startswith("application/problem+json")
        assert answer.json["code"] == "execution-failed"
        assert answer.json["execution_id"] == answer.headers["noetl-execution-id"]
        shown = await server.api.get(f"/executions/{answer.json['execution_id']}")
        assert answer.json["kind"] == shown["error"]["kind"]
        assert answer.json["detail"] == shown["error"]["message"]

    serve(tmp_path, work)


def test_a_caller_that_does_not_wait_gets_the_location(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(WAITING)
        for prefer in ("respond-async", "wait=0", "handling=strict, respond-async"):
            answer = await server.api.ask("POST", "/run/waiting", headers={"Prefer": prefer})
            assert (answer.status, answer.json["status"]) == (202, "running")
            assert answer.headers["noetl-execution-id"] == answer.json["execution_id"]

    serve(tmp_path, work)


def test_a_repeated_key_returns_the_output_of_the_first_request(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(HELLO)
        key = {"Idempotency-Key": "order 7"}
        first = await server.api.ask("POST", "/run/t", {"name": "Ada"}, headers=key)
        again = await server.api.ask("POST", "/run/t", {"name": "Ada"}, headers=key)
        assert first.headers["noetl-execution-id"] == again.headers["noetl-execution-id"]
        assert first.json == again.json
        other = await server.api.ask("POST", "/run/t", {"name": "Eve"}, headers=key)
        assert (other.status, other.json["code"]) == (422, "idempotency-mismatch")

    serve(tmp_path, work)


def test_wrong_requests_are_refused_before_anything_runs(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(TYPED)
        assert (await server.api.ask("POST", "/run/unknown/path")).status == 404
        wrong = await server.api.ask("POST", "/run/shop/orders", {"day": "soon", "colour": 1})
        assert wrong.status == 422
        assert {each["name"] for each in wrong.json["fields"]} == {"workload.day", "workload.colour"}
        assert (await server.api.ask("POST", "/run/shop/orders", [1])).status == 400

    serve(tmp_path, work)


READ = HEAD.replace("path: t", "path: shop/read") + (
    "executor: {spec: {methods: [GET, POST]}}\n"
    "input:\n  day: {type: date}\n  size: {type: integer, default: 3}\n  all: {type: boolean, default: false}\n"
    "  ids: {type: list, items: {type: integer}, default: []}\n  name: {type: string, default: ''}\n"
    "workflow:\n- step: start\n  tool: {kind: noop, input: '{{ workload }}'}\n"
).replace("input: '{{ workload }}'", "input: {got: '{{ workload }}'}")


def test_a_query_string_is_the_workload_where_the_playbook_permits_it(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(READ)
        query = "day=2026-01-31&size=7&all=true&ids=4&ids=5&name=007"
        answer = await server.api.ask("GET", f"/run/shop/read?{query}")
        got = {"day": "2026-01-31", "size": 7, "all": True, "ids": [4, 5], "name": "007"}
        assert (answer.status, answer.json) == (200, {"got": got})
        assert (await server.api.get(f"/executions/{answer.headers['noetl-execution-id']}"))["status"] == "ok"
        assert answer.headers["cache-control"] == "no-store"
        assert (await server.api.ask("GET", "/run/shop/read?day=2026-01-31&ids=[1,2]")).json["got"]["ids"] == [1, 2]
        assert (await server.api.ask("GET", "/run/shop/read?day=2026-01-31&ids=9")).json["got"]["ids"] == [9]
        assert (await server.api.ask("POST", "/run/shop/read", {"day": "2026-01-31"})).status == 200
        wrong = await server.api.ask("GET", "/run/shop/read?day=2026-01-31&size=many&colour=red")
        assert wrong.status == 422
        assert {each["name"] for each in wrong.json["fields"]} == {"workload.size", "workload.colour"}
        later = await server.api.ask("GET", "/run/shop/read?day=2026-01-31", headers={"Prefer": "respond-async"})
        assert later.status == 202
        assert (await server.api.ask("GET", "/run/unknown")).status == 404

    serve(tmp_path, work)


def test_a_method_that_the_playbook_does_not_permit_is_refused(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(HELLO)
        await server.api.register(READ.replace("[GET, POST]", "[GET]"))
        await server.api.register(TYPED.replace("input:", "executor: {spec: {methods: []}}\ninput:", 1))
        for method, path, allowed in (
            ("GET", "/run/t", "POST"), ("POST", "/run/shop/read", "GET"), ("POST", "/run/shop/orders", "")
        ):  # fmt: skip
            answer = await server.api.ask(method, path)
            assert (answer.status, answer.json["code"], answer.headers["allow"]) == (405, "wrong-method", allowed)
        assert (await server.api.get("/executions"))["items"] == []
        assert "/run/shop/orders" not in (await server.api.get("/schema/openapi.json"))["paths"]

    serve(tmp_path, work)


def test_texts_without_a_declaration_stay_texts() -> None:
    assert workload_of({"n": ["1"], "m": ["1", "x"]}, None) == {"n": "1", "m": ["1", "x"]}


@pytest.mark.parametrize(
    ("prefer", "wait_s"),
    [
        (None, 300),
        ("", 300),
        ("wait=5", 5),
        ("WAIT=5, x", 5),
        ("wait=9999", 300),
        ("wait=x", 300),
        ("respond-async; wait=5", 0),
    ],
)
def test_preferences(prefer: str | None, wait_s: float) -> None:
    assert wait_of(prefer) == wait_s


def test_registered_playbooks_with_inputs_are_in_the_openapi_document(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(HELLO)
        assert "/run/t" not in (await server.api.get("/schema/openapi.json"))["paths"]
        await server.api.register(TYPED)
        document = await server.api.get("/schema/openapi.json")
        await server.api.register(READ)
        document = await server.api.get("/schema/openapi.json")
        parameters = document["paths"]["/run/shop/read"]["get"]["parameters"]
        assert [(each["name"], each["required"]) for each in parameters][:2] == [("day", True), ("size", False)]
        assert list(document["paths"]["/run/shop/orders"]) == ["post"]
        operation = document["paths"]["/run/shop/orders"]["post"]
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        assert schema == {
            "type": "object",
            "properties": {
                "day": {"type": "string", "format": "date", "description": "the day"},
                "size": {"type": "integer", "default": 3},
            },
            "required": ["day"],
            "additionalProperties": False,
        }

    serve(tmp_path, work)
