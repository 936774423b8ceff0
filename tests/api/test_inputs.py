"""Typed inputs over HTTP (D104): a start whose values do not fit is refused with one entry per field."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.client import Client
from noetl.errors import InputError, InputProblem
from noetl.session.remote import RemoteSession
from tests.api.servers import ApiServer, serve
from tests.playbooks import HEAD

ORDERS = HEAD + (
    "input:\n  n: {type: integer, default: 3, min: 1}\n  day: {type: date, desc: the day}\n"
    'workflow:\n- step: start\n  tool: {kind: noop, input: {n: "{{ workload.n }}", day: "{{ workload.day }}"}}\n'
)
WRONG = [
    InputProblem("nn", 'there is no such input; did you mean "n"? (the inputs are n, day)'),
    InputProblem("day", "missing: it is required (date: the day)"),
]


def test_a_start_with_values_that_do_not_fit(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(ORDERS)
        answer = await server.api.ask("POST", "/executions", {"path": "t", "workload": {"nn": 4}})
        assert (answer.status, answer.json["code"]) == (422, "bad-input")
        assert answer.json["fields"] == [
            {"name": f"workload.{each.name}", "message": each.message, "where": "body"} for each in WRONG
        ]
        assert answer.json["detail"].startswith("the inputs do not fit the playbook: nn: there is no such input")
        assert (await server.api.get("/executions"))["items"] == []
        assert server.runtime.control.executions == {}

    serve(tmp_path, work)


def test_the_log_has_the_request_and_the_converted_values(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(ORDERS)
        asked = {"path": "t", "workload": {"n": "4", "day": "2026-01-31"}}
        shown = await server.api.post("/executions", asked, wait=120)
        assert shown["output"]["data"] == {"n": 4, "day": "2026-01-31"}
        rows = await server.services.store.read(shown["execution_id"])
        requested, _, started = [fact for row in rows for fact in row.facts][:3]
        assert requested.workload == {"n": "4", "day": "2026-01-31"}  # type: ignore[union-attr]  # Requested
        assert started.workload == {"n": 4, "day": "2026-01-31"}  # type: ignore[union-attr]  # Started

    serve(tmp_path, work)


def test_the_key_of_a_refused_start_remains_free(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(ORDERS)
        async with Client(server.api.url) as client:
            with pytest.raises(InputError) as error:
                await client.start("t", workload={"nn": 4}, key="k")
            assert list(error.value.problems) == WRONG
            started = await client.start("t", workload={"day": "2026-01-31"}, key="k")
            again = await client.start("t", workload={"day": "2026-01-31"}, key="k")
            assert again.execution_id == started.execution_id

    serve(tmp_path, work)


def test_a_session_on_a_server_raises_the_same_error(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        file = tmp_path / "t.yaml"
        file.write_text(ORDERS)
        async with RemoteSession(server.api.url) as session:
            with pytest.raises(InputError) as error:
                await session.start(file, workload={"nn": 4})
        assert list(error.value.problems) == WRONG

    serve(tmp_path, work)


def test_explain_lists_the_inputs(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        explained = await server.api.post("/playbooks/explain", {"text": ORDERS})
        assert explained["explanation"]["inputs"] == [
            {
                "name": "n",
                "type": "integer",
                "default": "3",
                "required": False,
                "limits": ["at least 1"],
                "desc": None,
                "secret": False,
            },
            {
                "name": "day",
                "type": "date",
                "default": "required",
                "required": True,
                "limits": [],
                "desc": "the day",
                "secret": False,
            },
        ]

    serve(tmp_path, work)
