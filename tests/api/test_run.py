"""A playbook as an API: the response of POST /run/<path> is the output of the playbook."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.server.routes.run import wait_of
from tests.api.servers import FAILING, HELLO, WAITING, ApiServer, serve
from tests.playbooks import HEAD

TYPED = HEAD.replace("path: t", "path: shop/orders") + (
    "input: {day: {type: date, desc: the day}, size: {type: integer, default: 3}}\n"
    "workflow:\n- step: start\n  tool: {kind: noop, input: {day: '{{ workload.day }}', size: '{{ workload.size }}'}}\n"
)
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
