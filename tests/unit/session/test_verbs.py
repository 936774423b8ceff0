"""The same verbs give the same answers on a database file and on a server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import noetl
from noetl.errors import NotFound, Rejected
from noetl.ports import PlaybookText
from noetl.session.errors import StartRefused, Unsupported, UsageError
from noetl.session.execution import Execution
from noetl.session.protocol import Session
from noetl.session.sources import PlaybookFile, digest_of
from noetl.session.verify import audit_executions, replay_execution
from tests.playbooks import HEAD

OK = HEAD + (
    "workload: {name: you}\nworkflow:\n- step: start\n"
    '  tool: {kind: python, input: {name: "{{ workload.name }}"}, code: "def main(name): return {\'hello\': name}"}\n'
)
LARGE = HEAD + (
    "workflow:\n- step: start\n"
    '  loop: {in: "{{ range(3) | list }}", iterator: n}\n'
    "  tool: {kind: python, code: \"def main(): return 'x' * 100_000\"}\n"
)
WAITS = HEAD + "workflow:\n- step: start\n  tool: {kind: wait, signal: go}\n"
TWO_WAITS = HEAD + (
    "workflow:\n- step: start\n"
    "  loop: {in: [a, b], iterator: name, spec: {mode: parallel}}\n"
    "  tool: {kind: wait, signal: go}\n"
)
BOOKS = (
    HEAD
    + """\
workload: {file: ""}
workflow:
- step: start
  tool: {kind: noop, input: {id: 7}}
  compensate:
    tool:
      kind: python
      input: {file: "{{ workload.file }}", id: "{{ output.data.id }}"}
      code: "def main(file, id):\\n    open(file, 'w').write(str(id))\\n"
  next: {arcs: [{step: waits}]}
- step: waits
  tool: {kind: wait, signal: go}
"""
)
FLAKY = HEAD + (
    "workload: {flag: ''}\nworkflow:\n- step: start\n  tool: {kind: shell, argv: [test, -e, \"{{ workload.flag }}\"]}\n"
)
PARENT = HEAD.replace("path: t", "path: parent") + (
    "workflow:\n- step: start\n  tool: {kind: playbook, path: child/one}\n"
)
CHILD = HEAD.replace("path: t", "path: child/one") + "workflow:\n- step: start\n  tool: {kind: noop}\n"


def on(target: str, work: Callable[[Session], Awaitable[None]]) -> None:
    async def main() -> None:
        async with noetl.connect(target) as session:
            await work(session)

    asyncio.run(main())


def source(text: str) -> PlaybookFile:
    return PlaybookFile("t.yaml", text.encode())


def stored(text: str, path: str = "t") -> PlaybookText:
    return PlaybookText(digest_of(text), path, text)


async def parked(execution: Execution) -> None:
    """Until it waits for its signal."""
    async for event in execution.events(follow=True):
        if event.name == "frame.parked":
            return


def test_an_execution_is_started_found_and_read(target: str) -> None:
    async def work(session: Session) -> None:
        execution = await session.start(source(OK), workload={"name": "Ada"})
        result = await execution.result(timeout_s=60)
        assert (result.status, result.output) == ("ok", {"hello": "Ada"})
        assert await execution.output("start") == {"hello": "Ada"}
        for name in (execution.id, execution.id[:24], "last"):
            assert (await session.execution(name)).id == execution.id
        with pytest.raises(UsageError, match="is not an execution id"):
            await session.execution("none")
        await execution.label({"reviewed": "ann", "never": None})
        info = await execution.info()
        assert (info.path, info.standing, await execution.status()) == ("t", "ok", "ok")
        assert info.labels == {"reviewed": "ann"}
        assert (await execution.show()).steps[0].step == "start"
        events = [event async for event in execution.events()]
        assert [event.seq for event in events if not event.part] == list(range(1, info.seq + 1))
        assert [each async for each in execution.events(after=info.seq)] == []
        assert (await execution.state()).seq == info.seq
        with pytest.raises(UsageError, match="there is no such fact"):
            await execution.state(at=info.seq + 1)
        assert (await replay_execution(execution)).identical
        assert (await audit_executions(session, execution)).findings == []
        assert await session.check_storage() == []

    on(target, work)


def test_large_results_of_loops_are_fetched(target: str) -> None:
    async def work(session: Session) -> None:
        execution = await session.start(source(LARGE))
        assert (await execution.result(timeout_s=60)).output == ["x" * 100_000] * 3

    on(target, work)


def test_a_key_names_one_execution(target: str) -> None:
    async def work(session: Session) -> None:
        first = await session.start(source(OK), key="one")
        await first.result(timeout_s=60)
        assert (await session.start(source(OK), key="one")).id == first.id
        with pytest.raises(Rejected, match="idempotency-mismatch"):
            await session.start(source(OK), workload={"name": "other"}, key="one")

    on(target, work)


def test_a_signal_can_name_one_of_several_waits(target: str) -> None:
    async def work(session: Session) -> None:
        execution = await session.start(source(TWO_WAITS))
        waiting = 0
        async for event in execution.events(follow=True):
            waiting += event.name == "frame.parked"
            if waiting == 2:
                break
        await execution.signal("go", "second", frame="start#1[1]")
        with pytest.raises(Rejected, match="nobody-waits"):
            await execution.signal("go", "again", frame="start#1[1]")
        await execution.signal("go", "first")
        assert (await execution.result(timeout_s=60)).output == ["first", "second"]

    on(target, work)


def test_an_execution_is_signalled_paused_resumed_and_cancelled(target: str) -> None:
    async def work(session: Session) -> None:
        execution = await session.start(source(WAITS))
        await parked(execution)
        with pytest.raises(Rejected, match="nobody-waits"):
            await execution.signal("stop")
        await execution.pause()
        assert await execution.status() == "paused"
        await execution.resume()
        await execution.signal("go", {"by": "Ada"})
        result = await execution.result(timeout_s=60)
        assert (result.status, result.output) == ("ok", {"by": "Ada"})
        with pytest.raises(Rejected, match="execution-over"):
            await execution.signal("go")
        with pytest.raises(Rejected, match="execution-over"):
            await execution.resume()
        other = await session.start(source(WAITS))
        await parked(other)
        await other.cancel("not needed")
        assert (await other.result(timeout_s=60)).status == "cancelled"

    on(target, work)


def test_a_cancelled_execution_undoes_its_completed_steps_if_asked_to_d116(target: str, tmp_path: Path) -> None:
    async def work(session: Session) -> None:
        for compensate in (False, True):
            note = tmp_path / f"undone-{compensate}"
            execution = await session.start(source(BOOKS), workload={"file": str(note)})
            await parked(execution)
            await execution.cancel("not needed", compensate=compensate)
            assert (await execution.result(timeout_s=60)).status == "cancelled"
            assert (note.read_text() if note.exists() else "") == ("7" if compensate else "")
            with pytest.raises(Rejected, match="execution-over"):
                await execution.cancel(compensate=True)

    on(target, work)


def test_a_failed_execution_is_retried(target: str, tmp_path: Path) -> None:
    async def work(session: Session) -> None:
        execution = await session.start(source(FLAKY), workload={"flag": str(tmp_path / "flag")})
        assert (await execution.result(timeout_s=60)).status == "error"
        (tmp_path / "flag").touch()
        await execution.retry()
        assert (await execution.result(timeout_s=60)).status == "ok"
        with pytest.raises(Rejected, match="nothing-failed"):
            await execution.retry()

    on(target, work)


def test_a_playbook_that_cannot_run_is_refused_and_logged(target: str) -> None:
    async def work(session: Session) -> None:
        text = HEAD + "workflow:\n- step: start\n  tool: {kind: nope}\n"
        assert [problem.code for problem in await session.check(source(text))] == ["unknown-kind"]
        with pytest.raises(StartRefused) as raised:
            await session.start(source(text))
        assert [problem.code for problem in raised.value.problems] == ["unknown-kind"]
        assert raised.value.execution_id is not None
        refused = await session.execution(raised.value.execution_id)
        assert (await refused.info()).status == "error"
        with pytest.raises(Rejected, match="never-began"):
            await refused.retry()
        with pytest.raises(UsageError, match="no playbook is registered"):
            await session.start("nowhere/at/all")

    on(target, work)


def test_playbooks_are_registered_compared_and_archived(target: str) -> None:
    async def work(session: Session) -> None:
        old, new = (
            OK.replace("path: t", "path: team/hello"),
            OK.replace("path: t", "path: team/hello") + "# new\n",
        )
        for text, change in ((old, "new"), (new, "new"), (new, "known")):
            (done,) = await session.playbooks.register({"t.yaml": stored(text, "team/hello")})
            assert done.change == change
        assert "team/hello" in [each.path for each in await session.playbooks.list()]
        assert [each.version for each in await session.playbooks.versions("team/hello")] == [2, 1]
        assert (await session.playbooks.text("team/hello", 1))[1] == old
        assert "+# new" in (await session.playbooks.diff("team/hello")).diff
        execution = await session.start("team/hello@1", workload={"name": "v1"})
        assert (await execution.result(timeout_s=60)).output == {"hello": "v1"}
        assert (await execution.info()).digest == digest_of(old)
        await session.playbooks.archive("team/hello")
        with pytest.raises(NotFound, match="archived"):
            await session.start("team/hello")

    on(target, work)


def test_children_are_listed_with_their_caller(target: str) -> None:
    async def work(session: Session) -> None:
        await session.playbooks.register({"child.yaml": stored(CHILD, "child/one")})
        execution = await session.start(source(PARENT))
        assert (await execution.result(timeout_s=60)).status == "ok"
        (child,) = await execution.children()
        assert (child.path, child.parent is not None) == ("child/one", True)
        found = [info.id async for info in session.executions(path="child/*", status="ok", limit=1)]
        assert found == [child.id]

    on(target, work)


def test_secrets_and_tokens_are_kept(target: str) -> None:
    async def work(session: Session) -> None:
        before = await session.secrets.set("session_test", "hunter22")
        assert await session.secrets.set("session_test", "hunter23") == before + 1
        assert "session_test" in [each.name for each in await session.secrets.list()]
        await session.secrets.remove("session_test")
        with pytest.raises(NotFound):
            await session.secrets.remove("session_test")
        made, text = await session.tokens.create("ci", frozenset({"read"}), 60.0)
        assert (made.name, text.startswith("noetl_")) == ("ci", True)
        assert made in await session.tokens.list()
        await session.tokens.remove(made.id)
        assert made.id not in [each.id for each in await session.tokens.list()]

    on(target, work)


def test_what_a_session_cannot_do_names_the_alternative(target: str) -> None:
    async def work(session: Session) -> None:
        if session.runs_here:
            with pytest.raises(Unsupported, match="--server"):
                session.detach()
            assert (await session.collect_garbage(0, dry_run=True)).dry_run
        else:
            session.detach()
            for verb in (session.collect_garbage(0), session.secrets.rotate()):
                with pytest.raises(Unsupported, match="--db PATH"):
                    await verb

    on(target, work)
