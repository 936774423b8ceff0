"""Values that outlive executions, over HTTP."""

from __future__ import annotations

from pathlib import Path

from noetl.client import Client
from noetl.errors import NotFound, Rejected
from noetl.ports import SavedValue
from noetl.session.remote import RemoteSession
from noetl.testing.contracts import error_of
from tests.api.servers import ApiServer, serve
from tests.playbooks import HEAD

COUNTING = HEAD.replace("path: t", "path: t/count") + (
    "workflow:\n- step: start\n"
    '  tool: {kind: noop, input: {n: "{{ (saved.n | default(0)) + 1 }}"}}\n'
    '  set: {saved.n: "{{ output.data.n }}"}\n'
)


def test_saved_values_are_listed_set_and_removed(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        ids = [await api.run(COUNTING), await api.run(COUNTING)]
        (item,) = (await api.get("/saved?path=t/count"))["items"]
        assert (item["key"], item["value"], item["execution_id"], item["by"]) == ("n", 2, ids[1], None)
        answer = await api.ask("PUT", "/saved?path=t/count&key=n", {"value": 40})
        assert (answer.status, answer.json["by"]) == (200, "local")
        await api.run(COUNTING)
        history = (await api.get("/saved/history?path=t/count&key=n"))["items"]
        assert [each["value"] for each in history] == [41, 40, 2, 1]
        assert (await api.ask("DELETE", "/saved?path=t/count&key=n")).status == 204
        assert (await api.ask("DELETE", "/saved?path=t/count&key=n")).status == 404
        assert (await api.get("/saved?path=t/count"))["items"] == []
        assert (await api.get("/saved/history?path=t/count&key=n"))["items"][0]["removed"] is True
        for body, key in (({"value": "x" * 70_000}, "n"), ({"value": 1}, "a-b")):
            refused = await api.ask("PUT", f"/saved?path=t/count&key={key}", body)
            assert (refused.status, refused.json["code"]) == (409, "bad-saved")
        entries = (await api.get("/audit?action=saved"))["items"]
        assert [(each["what"], each["target"], each["detail"]) for each in entries] == [
            ("unset", "t/count", "n"), ("set", "t/count", "n")
        ]  # fmt: skip

    serve(tmp_path, work)


def test_a_remote_session_has_the_same_verbs(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.run(COUNTING)
        async with Client(server.api.url) as client:
            await client.saved.put("t/count", SavedValue("n", 9, client.clock.now()))
        async with RemoteSession(server.api.url) as session:
            assert [each.value for each in await session.saved.history("t/count", "n")] == [9, 1]
            await session.saved.put("t/count", SavedValue("n", None, session.clock.now(), removed=True))
            assert await session.saved.current("t/count") == []
            gone = session.saved.put("t/count", SavedValue("n", None, session.clock.now(), removed=True))
            assert isinstance(await error_of(gone), NotFound)
            bad = session.saved.put("t/count", SavedValue("a-b", 1, session.clock.now()))
            assert isinstance(await error_of(bad), Rejected)

    serve(tmp_path, work)
