"""Large results as rows: stored results and the results of loops, in pages and as files."""

from __future__ import annotations

from pathlib import Path

from tests.api.servers import ApiServer, serve
from tests.playbooks import HEAD

LARGE = HEAD + (
    "workflow:\n- step: start\n"
    "  tool: {kind: python, code: \"def main(): return [{'row': n, 'text': 'many words ' * 5} for n in range(3000)]\"}\n"
)
LOOP = HEAD + (
    "workflow:\n- step: start\n"
    '  loop: {in: "{{ range(30) | list }}", iterator: n, spec: {mode: parallel}}\n'
    '  tool: {kind: noop, input: {square: "{{ iter.n * iter.n }}"}}\n'
)


def test_a_stored_result_is_paged_searched_and_downloaded(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        id = await api.run(LARGE)
        (call,) = (await api.get(f"/executions/{id}/timeline"))["steps"][0]["runs"][0]["calls"]
        ref = (await api.get(f"/executions/{id}/facts/{call['seq']}"))["data"]["output"]["ref"]
        digest = ref["meta"]["sha256"]
        page = await api.get(f"/executions/{id}/rows", digest=digest, offset=2990, limit=5)
        assert [row[0] for row in page["rows"]] == [*range(2990, 2995)]
        assert (page["shape"], page["total"]) == ("table", 3000)
        assert [(each["name"], each["type"]) for each in page["columns"]] == [("row", "integer"), ("text", "string")]
        found = await api.get(f"/executions/{id}/rows", digest=digest, text='"row":1234,')
        assert (found["places"], found["found"]) == ([1234], 1)
        file = await api.ask("GET", f"/executions/{id}/rows/file", digest=digest, format="csv")
        assert file.headers["content-disposition"] == 'attachment; filename="result.csv"'
        assert file.body.decode().splitlines()[:2] == ["row,text", f"0,{'many words ' * 5}"]
        assert len((await api.ask("GET", f"/executions/{id}/rows/file", digest=digest)).json) == 3000

    serve(tmp_path, work)


def test_the_results_of_a_loop_are_rows(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        id = await api.run(LOOP)
        page = await api.get(f"/executions/{id}/rows", run="start#1", offset=28)
        assert page["rows"] == [[784], [841]]
        assert (await api.ask("GET", f"/executions/{id}/rows", run="other#1")).status == 404
        assert (await api.ask("GET", f"/executions/{id}/rows", digest="0" * 64)).status == 404
        assert (await api.ask("GET", f"/executions/{id}/rows")).status == 400

    serve(tmp_path, work)
