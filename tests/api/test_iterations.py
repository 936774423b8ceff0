"""The iterations of loops by the API: pages, filters, one iteration, and retries."""

from __future__ import annotations

from pathlib import Path

from tests.api.servers import ApiServer, serve
from tests.playbooks import HEAD

LOOP = HEAD + (
    'workload: {file: ""}\nworkflow:\n- step: start\n'
    '  spec: {policy: {failure: {mode: best_effort, tolerate: 0}}}\n'
    '  loop: {in: "{{ range(250) | list }}", iterator: n, spec: {mode: parallel}}\n'
    '  tool:\n'
    '    kind: python\n'
    '    input: {n: "{{ iter.n }}", file: "{{ workload.file }}"}\n'
    '    code: |\n'
    '      import os\n'
    '      def main(n, file):\n'
    '          if n == 249 and not os.path.exists(file):\n'
    '              raise ValueError(f"no {n}")\n'
    '          return {"square": n * n}\n'
)  # fmt: skip
STORED = HEAD + (
    "workflow:\n- step: start\n"
    "  loop: {in: \"{{ range(3000) | map('string') | map('center', 40) | list }}\", iterator: n, spec: {mode: parallel}}\n"
    "  tool: {kind: noop}\n"
)


PARTS = HEAD + (
    'workload: {folder: ""}\nworkflow:\n- step: start\n'
    '  spec: {policy: {failure: {mode: best_effort, tolerate: 0}}}\n'
    '  loop: {in: "{{ range(6) | list }}", iterator: n, spec: {mode: parallel}}\n'
    '  tool:\n'
    '    kind: python\n'
    '    input: {n: "{{ iter.n }}", folder: "{{ workload.folder }}"}\n'
    '    code: |\n'
    '      import os\n'
    '      def main(n, folder):\n'
    '          if n in (1, 4) and not os.path.exists(f"{folder}/{n}"):\n'
    '              raise ValueError(f"no {n}")\n'
    '          return n\n'
)  # fmt: skip


async def retried(server: ApiServer, id: str, *indexes: int) -> dict[str, int]:
    """The iterations by status after a retry of these."""
    api = server.api
    await api.post(f"/executions/{id}/retry", {"step": "start", "iterations": indexes})
    while (await api.get(f"/executions/{id}/head"))["status"] == "running":
        pass
    runs = (await api.get(f"/executions/{id}"))["steps"]
    page = await api.get(f"/executions/{id}/iterations", run=runs[-1]["id"])
    assert page["can_retry"] == (page["counts"]["failed"] > 0)
    return {status: count for status, count in page["counts"].items() if count}


def test_one_failed_iteration_is_retried_and_the_other_stays_failed(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        id = await api.run(PARTS, workload={"folder": str(tmp_path)})
        one = await api.get(f"/executions/{id}/iterations/one", run="start#1", index=4)
        assert (one["step"], one["can_retry"], one["retried_by"]) == ("start", True, None)
        for wrong, message in ((3, "start#1: iteration 3 has not failed"), (9, "start#1: it has 6 iterations")):
            answer = await api.ask("POST", f"/executions/{id}/retry", {"step": "start", "iterations": [wrong]})
            assert (answer.status, message in answer.json["detail"]) == (409, True)

        assert await retried(server, id, 4) == {"ok": 4, "failed": 2}, "it fails again"
        (tmp_path / "4").touch()
        assert await retried(server, id, 4) == {"ok": 5, "failed": 1}
        left = await api.get(f"/executions/{id}")
        assert left["error"]["message"] == "1 of 6 iterations failed: [1]; [1] ValueError: no 1"
        old = await api.get(f"/executions/{id}/iterations/one", run="start#1", index=1)
        assert (old["can_retry"], old["retried_by"]) == (False, "start#2")
        (tmp_path / "1").touch()
        assert await retried(server, id, 1) == {"ok": 6}
        assert (await api.get(f"/executions/{id}"))["status"] == "ok"

    serve(tmp_path, work)


def test_iterations_have_items_outputs_and_errors(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api, file = server.api, tmp_path / "file"
        id = await api.run(LOOP, workload={"file": str(file)})
        page = await api.get(f"/executions/{id}/iterations", run="start#1", offset=248, limit=2)
        assert (page["count"], page["found"]) == (250, 250)
        assert page["counts"] == {"waiting": 0, "running": 0, "ok": 249, "failed": 1}
        first, second = page["items"]
        assert (first["item"], first["status"], first["attempts"], first["error"]) == ("248", "ok", 1, None)
        assert first["output"] == '{"square":61504}'
        assert first["duration_s"] >= 0
        assert (second["status"], second["output"]) == ("failed", "")
        assert "no 249" in second["error"]
        failed = await api.get(f"/executions/{id}/iterations", run="start#1", status="failed")
        assert [each["index"] for each in failed["items"]] == [249]
        found = await api.get(f"/executions/{id}/iterations", run="start#1", text="no 249")
        assert [each["index"] for each in found["items"]] == [249]
        one = await api.get(f"/executions/{id}/iterations/one", run="start#1", index=249)
        assert (one["value"], one["complete"]) == (249, True)
        assert [(call["id"], call["status"]) for call in one["calls"]] == [("start#1[249]/1", "error")]
        assert (await api.ask("GET", f"/executions/{id}/iterations/one", run="start#1", index=250)).status == 404
        assert (await api.ask("GET", f"/executions/{id}/iterations", run="other#1")).status == 404

        file.touch()
        await api.post(f"/executions/{id}/retry", {})
        while (await api.get(f"/executions/{id}/head"))["status"] == "running":
            pass
        again = await api.get(f"/executions/{id}/iterations", run="start#2", offset=249)
        assert again["counts"] == {"waiting": 0, "running": 0, "ok": 250, "failed": 0}
        assert (again["items"][0]["output"], again["items"][0]["error"]) == ('{"square":62001}', None)

        kept = await api.get(f"/executions/{id}/iterations/one", run="start#2", index=5)
        assert [call["id"] for call in kept["calls"]] == ["start#1[5]/1"]
        retried = await api.get(f"/executions/{id}/iterations/one", run="start#2", index=249)
        assert [(call["id"], call["status"]) for call in retried["calls"]] == [
            ("start#1[249]/1", "error"),
            ("start#2[249]/1", "ok"),
        ]

    serve(tmp_path, work)


def test_items_in_the_result_store_are_read_for_a_page(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        id = await api.run(STORED)
        page = await api.get(f"/executions/{id}/iterations", run="start#1", offset=2999)
        assert [each["item"].strip('" ') for each in page["items"]] == ["2999"]
        one = await api.get(f"/executions/{id}/iterations/one", run="start#1", index=2999)
        assert one["value"].strip() == "2999"

    serve(tmp_path, work)
