"""The caches of folded logs: several pages of one execution share one fold."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

from noetl.adapters.memory import MemoryStore
from noetl.clock import SystemClock
from noetl.ports import Append, LogRow
from noetl.server.log_readers import RunsCache, TimelineCache, show_at_once
from noetl.slices import turn
from noetl.views.documents import ShowDocument, show_document
from tests.unit.views.playing import played

LOOP = """
workflow:
- step: start
  loop: {in: "{{ ['a', 'b', 'c'] }}", iterator: name}
  tool: {kind: http, url: x}
"""


STEPS = 500
FORK = f"""
workflow:
- step: start
  tool: {{kind: http, url: x}}
  next:
    spec: {{mode: inclusive}}
    arcs: [{", ".join(f"{{step: s{n}}}" for n in range(STEPS))}]
{"".join(f"- {{step: s{n}, tool: {{kind: http, url: x}}}}{chr(10)}" for n in range(STEPS))}"""


class CountingStore(MemoryStore):
    """It counts the facts that are read."""

    facts_read = 0

    async def read(self, execution_id: str, after: int = 0, up_to: int | None = None) -> list[LogRow]:
        rows = await super().read(execution_id, after, up_to)
        self.facts_read += sum(len(row.facts) for row in rows)
        return rows


async def _filled(text: str = LOOP, *commands: str) -> tuple[CountingStore, int]:
    store, log = CountingStore(SystemClock(), 1), played(text, *commands).log
    owner = (await store.own("s", [0], 60.0)).epochs[0]
    facts = tuple(event.fact for event in log)
    assert await store.append([Append("e", 1, log[0].at, facts, owner, "running")]) == [None]
    return store, len(facts)


def test_records_of_runs_come_from_a_timeline_that_somebody_views() -> None:
    async def read() -> None:
        store, count = await _filled()
        timelines = TimelineCache(store, SystemClock())
        runs = RunsCache(store, store, timelines)
        async with asyncio.TaskGroup() as tasks:  # as the panes of a page that is opened
            viewed = tasks.create_task(timelines.get("e"))
            shown = tasks.create_task(runs.query("e", lambda records: records.state.seq))
        assert (viewed.result().state.seq, shown.result()) == (count, count)
        assert await runs.query("e", lambda records: [*records.steps]) == ["start#1"]
        assert store.facts_read == count

    asyncio.run(read())


def test_records_of_runs_need_no_timeline() -> None:
    async def read() -> None:
        store, count = await _filled()
        timelines = TimelineCache(store, SystemClock())
        runs = RunsCache(store, store, timelines)
        assert await runs.query("e", lambda records: records.state.seq) == count
        assert not timelines.has("e")
        assert store.facts_read == count

    asyncio.run(read())


def test_a_short_log_is_shown_at_once() -> None:
    async def read() -> None:
        store, _ = await _filled()
        shown = await RunsCache(store, store, TimelineCache(store, SystemClock())).show("e")
        assert show_at_once("e", await store.read("e")) == shown
        store, _ = await _filled(FORK, "report start#1 ok")
        assert show_at_once("e", await store.read("e")) is None, "its document takes several turns"

    asyncio.run(read())


def test_others_have_turns_while_an_execution_with_many_runs_is_shown() -> None:
    async def turns_during(work: Coroutine[None, None, ShowDocument]) -> tuple[int, ShowDocument]:
        task, turns = asyncio.ensure_future(work), 0
        while not task.done():
            await turn()
            turns += 1
        return turns, task.result()

    async def read() -> None:
        store, _ = await _filled(FORK, "report start#1 ok")
        runs = RunsCache(store, store, TimelineCache(store, SystemClock()))
        assert await runs.query("e", lambda records: len(records.steps)) == 1 + STEPS  # the log is folded
        at_once, document = await turns_during(runs.query("e", show_document))
        in_slices, shown = await turns_during(runs.show("e"))
        assert len(shown.steps) == 1 + STEPS
        assert shown == document
        assert in_slices > at_once

    asyncio.run(read())
