"""Hooks of the embedded runtime: all of them are called, and none replaces another."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from noetl.control.live_execution import LiveExecution
from noetl.engine import Event
from noetl.engine.commands import Pause
from noetl.errors import Conflict, Fenced, Unavailable
from noetl.ports import Append, EventStore
from noetl.runtime import embedded
from noetl.runtime.embedded import EmbeddedRuntime, RuntimeHooks, open_embedded, open_local_store
from noetl.slices import turn
from noetl.tool import Tools

TEXT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: t, path: t}
workflow: [{step: start, tool: {kind: noop}}]
"""


def test_every_commit_reaches_all_hooks_in_order(tmp_path: Path) -> None:
    commits: list[tuple[str, int]] = []

    def hook(name: str, live: LiveExecution, events: list[Event]) -> None:
        del live
        commits.append((name, len(events)))

    async def main() -> str:
        hooks = RuntimeHooks(on_commit=[lambda *each: hook("a", *each), lambda *each: hook("b", *each)])
        async with open_embedded(tmp_path / "noetl.db", hooks=hooks) as runtime:
            runtime.watchers.append(lambda *each: hook("later", *each))
            digest = await runtime.playbooks.add(TEXT, None)
            state = await runtime.wait_until_idle(await runtime.start(digest, {}))
            return state.status

    assert asyncio.run(main()) == "ok"
    assert [name for name, _ in commits[:3]] == ["a", "b", "later"]
    assert len(commits) % 3 == 0


class FailingStore:
    """A store whose appends fail while `fails` is set."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self.fails = False
        self.read, self.status = store.read, store.status
        self.snapshot, self.keep = store.snapshot, store.keep

    async def append(self, appends: Sequence[Append]) -> list[Conflict | Fenced | None]:
        if self.fails:
            raise Unavailable("the disk is full")
        return await self._store.append(appends)


def test_a_failed_commit_reaches_all_hooks_and_the_waiting_callers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "OUTAGE_S", 0.0)
    first: list[Unavailable] = []
    second: list[Unavailable] = []

    async def main() -> None:
        storage = open_local_store(tmp_path / "noetl.db")
        store = FailingStore(storage.store)
        hooks = RuntimeHooks(on_unavailable=[first.append, second.append])
        runtime = EmbeddedRuntime(
            storage._replace(store=store),  # type: ignore[arg-type]  # only its port is used
            storage.database.clock,
            Tools.installed(),
            hooks=hooks,
        )
        execution_id = await runtime.start(await runtime.playbooks.add(TEXT, None), {})
        waiting = asyncio.ensure_future(runtime.wait_until_idle(execution_id))
        await turn()
        store.fails = True
        with pytest.raises(Unavailable, match="the commit failed: the disk is full"):
            await runtime.command(execution_id, Pause())
        with pytest.raises(Unavailable, match="the disk is full"):
            await waiting
        await runtime.close(0)
        storage.close()

    asyncio.run(main())
    assert len(first) == 1
    assert first == second


WAITING = TEXT.replace("kind: noop", "kind: wait, signal: go")


def test_several_callers_wait_for_an_execution_and_one_of_them_gives_up(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_embedded(tmp_path / "noetl.db") as runtime:
            execution_id = await runtime.start(await runtime.playbooks.add(WAITING, None), {})
            callers = [asyncio.ensure_future(runtime.wait_until_idle(execution_id)) for _ in range(3)]
            await turn()
            callers[1].cancel()
            await asyncio.wait([callers[1]])
            await runtime.command(execution_id, Pause())
            states = await asyncio.gather(callers[0], callers[2])
            assert [state.status for state in states] == ["paused", "paused"]
            assert callers[1].cancelled()

    asyncio.run(main())
