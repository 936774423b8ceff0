"""Limits by key over HTTP: a refused start, and who holds what an execution waits for."""

from __future__ import annotations

from pathlib import Path

from noetl.session.remote import RemoteSession
from tests.api.servers import ApiServer, serve
from tests.playbooks import HEAD

TEXT = (
    HEAD
    + """\
executor: {spec: {policy: {concurrency: {key: "{{ workload.key }}", limit: 1, when_full: WHEN}}}}
workload: {key: a}
workflow: [{step: start, tool: {kind: wait, input: {signal: go}}}]
"""
)
STEP = (
    HEAD.replace("path: t", "path: t/step")
    + """\
workflow:
- step: start
  spec: {policy: {limit: {key: shop, in_flight: 1}}}
  tool: {kind: wait, input: {signal: go}}
"""
)


async def _start(server: ApiServer, text: str, workload: dict[str, str] | None = None) -> str:
    answer = await server.api.ask("POST", "/executions", {"text": text, "workload": workload or {}})
    assert answer.status == 201, answer.json
    id: str = answer.json["execution_id"]
    return id


def test_a_start_beyond_the_limit_is_refused_and_recorded(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        text = TEXT.replace("WHEN", "refuse")
        first = await _start(server, text)
        answer = await server.api.ask("POST", "/executions", {"text": text})
        assert (answer.status, answer.json["code"]) == (409, "concurrency")
        assert first in answer.json["detail"]
        refused = await server.api.get(f"/executions/{answer.json['execution_id']}")
        assert (refused["status"], refused["error"]["kind"]) == ("error", "concurrency")
        await _start(server, text, {"key": "b"})

    serve(tmp_path, work)


def test_an_execution_says_what_it_waits_for_and_who_holds_it(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api, text = server.api, TEXT.replace("WHEN", "queue")
        first, second, third = [await _start(server, text) for _ in range(3)]
        assert "limits" not in await api.get(f"/executions/{first}")
        document = await api.get(f"/executions/{third}")
        assert document["limits"] == [{"waits": "", "key": "a", "permit": "", "ahead": 1, "held_by": [first]}]
        assert document["steps"][0]["why"] == 'waits for the limit "a" (executions at once)'
        async with RemoteSession(api.url) as session:
            shown = await session.show(second)
            assert shown.limits
            assert shown.limits[0].held_by == (first,)

    serve(tmp_path, work)


def test_a_run_says_what_it_waits_for_in_every_view(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        first, second = [await _start(server, STEP) for _ in range(2)]
        document = await api.get(f"/executions/{second}")
        while not document["limits"][0]["held_by"]:  # the permit is requested after the commit
            document = await api.get(f"/executions/{second}")
        assert document["limits"] == [
            {"waits": "start#1", "key": "shop", "permit": "start#1", "ahead": 0, "held_by": [first]}
        ]
        waits = 'waits for the limit "shop" (1 at once)'
        assert document["steps"][0]["why"] == waits
        why = await api.get(f"/executions/{second}/why?step=start")
        assert why["runs"][0]["waits_for"] == f"{waits.removeprefix('waits ')}; held by {first}"
        timeline = await api.get(f"/executions/{second}/timeline")
        assert waits in str(timeline)

    serve(tmp_path, work)
