"""The lines that tasks print, over HTTP: pages, text, live; and `noetl logs` of a remote session."""

from __future__ import annotations

from pathlib import Path

from noetl.session.connect import open_session, resolve
from noetl.session.errors import UsageError
from noetl.session.execution import Execution
from tests.api.servers import ApiServer, serve
from tests.api.test_streams import Message, following, signal
from tests.playbooks import HEAD

PRINTING = HEAD + (
    "workflow:\n"
    "- step: start\n  tool: {kind: shell, sh: 'echo one; echo two >&2'}\n  next: {arcs: [{step: each}]}\n"
    "- step: each\n  loop: {in: [1, 2], iterator: n}\n  tool: {kind: shell, sh: 'echo item {{ iter.n }}; test {{ iter.n }} != 2'}\n"
)
LIVE = HEAD.replace("path: t", "path: live") + (
    "workflow:\n"
    "- step: start\n  tool: {kind: shell, sh: 'echo before'}\n  next: {arcs: [{step: ask}]}\n"
    "- step: ask\n  tool: {kind: wait, signal: go}\n  next: {arcs: [{step: after}]}\n"
    "- step: after\n  tool: {kind: shell, sh: 'printf after'}\n"
)


def test_pages_filters_and_text(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        id = await server.api.run(PRINTING)
        await server.runtime.worker.close()  # stores what it still holds
        page = await server.api.get(f"/executions/{id}/logs")
        said = sorted((line["call"], line["stream"], line["text"]) for line in page["items"])
        assert said == [
            ("each#1[0]/1", "out", "item 1"), ("each#1[1]/1", "out", "item 2"), ("start#1/1", "err", "two"),
            ("start#1/1", "out", "one"),
        ]  # fmt: skip
        assert set(page["items"][0]) == {"at", "run", "call", "stream", "text"}
        last = page["last"]
        assert await server.api.get(f"/executions/{id}/logs", after=last) == {"items": [], "last": last}
        of_step = await server.api.get(f"/executions/{id}/logs", step="each")
        assert [line["text"] for line in of_step["items"]] == ["item 1", "item 2"]
        failed = await server.api.get(f"/executions/{id}/logs", failed="true")
        assert [line["text"] for line in failed["items"]] == ["item 2"]
        text = await server.api.ask("GET", f"/executions/{id}/logs/text", step="each")
        assert text.body == b"each#1[0]/1 out | item 1\neach#1[1]/1 out | item 2\n"
        assert text.headers["content-disposition"] == f'attachment; filename="{id}.log"'
        assert (await server.api.ask("GET", "/executions/unknown/logs")).status == 404
        assert (await server.api.ask("GET", "/executions/unknown/logs/text")).status == 404
        assert (await server.api.ask("GET", "/executions/unknown/logs/stream")).status == 404

    serve(tmp_path, work)


def _texts(messages: list[Message]) -> list[str]:
    return [each.data["text"] for each in messages if each.event == "printed"]


def test_lines_are_sent_while_the_execution_runs(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        digest = (await server.api.register(LIVE))["digest"]
        id = (await server.api.post("/executions", {"digest": digest}, status=201))["execution_id"]
        async with following(server, f"/executions/{id}/logs/stream") as stream:
            first = await stream.next()
            assert first is not None
            assert (first.event, first.data["text"]) == ("printed", "before")
            assert first.id is not None
            await signal(server, id)
            rest = await stream.all()
        assert _texts(rest) == ["after"]
        assert (rest[-1].event, rest[-1].data["status"]) == ("end", "ok")
        async with following(server, f"/executions/{id}/logs/stream?after={first.id}") as stream:
            assert _texts(await stream.all()) == ["after"]

    serve(tmp_path, work)


def test_a_remote_session_reads_and_follows_them(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        digest = (await server.api.register(LIVE))["digest"]
        id = (await server.api.post("/executions", {"digest": digest}, status=201))["execution_id"]
        async with open_session(resolve(None, server.api.url)) as session:
            execution = Execution(session, id)
            seen: list[str] = []
            async for line in execution.logs(follow=True):
                seen.append(line.text)
                if line.text == "before":
                    await session.signal(id, "go")
            assert seen == ["before", "after"]
            assert [line.text async for line in execution.logs("after")] == ["after"]
            try:
                assert [line async for line in execution.logs("nowhere")] == []
            except UsageError as error:
                assert "start, ask, after" in str(error)  # noqa: PT017  # an async generator raises it
            else:
                raise AssertionError("an unknown step is an error")

    serve(tmp_path, work)
