"""Commands that read a long log read it in pages, and see the same as in one piece."""

from __future__ import annotations

import asyncio
from pathlib import Path

import noetl
from noetl.control.log_pages import PAGE_FACTS, read_runs
from noetl.engine import FACTS_PER_COMMIT_MAX
from noetl.ports import LogRow
from noetl.session.protocol import LogReader
from noetl.session.sources import PlaybookFile
from noetl.views.documents import read_runs as read_events
from noetl.views.documents import show_document, state_document
from noetl.views.log import events_of
from noetl.views.runs import Runs
from tests.playbooks import HEAD

LOOP = (
    HEAD
    + """\
workflow:
- step: start
  loop: {in: "{{ range(2500) }}", iterator: n, spec: {mode: parallel, max_in_flight: 4}}
  tool: {kind: noop, input: {n: "{{ iter.n }}"}}
  next: {arcs: [{step: end}]}
- {step: end, tool: {kind: noop, input: {done: true}}}
"""
)


class CountedLog:
    """A log that notes how much was read at once."""

    def __init__(self, log: LogReader) -> None:
        self._log = log
        self.pages: list[int] = []  # facts

    async def read(self, execution_id: str, after: int = 0, up_to: int | None = None) -> list[LogRow]:
        rows = await self._log.read(execution_id, after, up_to)
        self.pages.append(sum(len(row.facts) for row in rows))
        return rows


def test_a_long_log_is_read_in_pages(tmp_path: Path) -> None:
    async def work() -> None:
        async with noetl.connect(str(tmp_path / "a.db")) as session:
            execution = await session.start(PlaybookFile("loop.yaml", LOOP.encode()))
            assert (await execution.result(60)).status == "ok"
            rows = await session.log.read(execution.id)
            last = rows[-1].first_seq + len(rows[-1].facts) - 1
            assert last > 2 * PAGE_FACTS
            for up_to in (None, 1, PAGE_FACTS, PAGE_FACTS + 1, last):
                log, runs = CountedLog(session.log), Runs(execution.id)
                await read_runs(log, runs, up_to)
                whole = read_events(execution.id, events_of(rows), up_to=up_to)
                assert show_document(runs) == show_document(whole)
                assert state_document(runs) == state_document(whole)
                assert max(log.pages) <= PAGE_FACTS + FACTS_PER_COMMIT_MAX  # a row is never cut
                assert len(log.pages) > 1 or up_to not in (None, last)

    asyncio.run(work())


def test_records_continue_where_they_ended(tmp_path: Path) -> None:
    """As a server reads a log that grows."""

    async def work() -> None:
        async with noetl.connect(str(tmp_path / "a.db")) as session:
            execution = await session.start(PlaybookFile("loop.yaml", LOOP.replace("2500", "5").encode()))
            await execution.result(60)
            runs = Runs(execution.id)
            for up_to in (3, 7, None, None):
                await read_runs(session.log, runs, up_to)
            assert show_document(runs).status == "ok"
            assert runs.state.seq == (await execution.info()).seq

    asyncio.run(work())
