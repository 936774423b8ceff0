"""Commands that read a long log read it in pages, and see the same as in one piece."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import noetl
from noetl.cli.checker import installed_kinds
from noetl.control.log_pages import PAGE_FACTS, fold_log, read_iterations, read_runs
from noetl.control.playbooks import Playbooks
from noetl.engine import FACTS_PER_COMMIT_MAX, Event
from noetl.engine.facts import Paused
from noetl.engine.loops import iteration_outputs
from noetl.engine.state import State
from noetl.ports import LogRow, Snapshot, SnapshotOf
from noetl.session.analysis import compare, explain_step
from noetl.session.execution import Execution
from noetl.session.local import LocalSession
from noetl.session.protocol import LogReader
from noetl.session.sources import PlaybookFile
from noetl.session.verify import audit_executions, replay_execution
from noetl.views.documents import read_runs as read_events
from noetl.views.documents import show_document, state_document
from noetl.views.envelopes import Envelopes
from noetl.views.log import events_of
from noetl.views.runs import Runs
from noetl.views.why import why
from tests.playbooks import HEAD
from tests.unit.engine.test_iterations import RETRIED, log_of

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

    async def snapshot(self, execution_id: str, of: SnapshotOf = "state") -> Snapshot | None:
        return await self._log.snapshot(execution_id, of)


class CountedSession(LocalSession):
    """A session that notes how much of a log was read at once."""

    counted: CountedLog | None = None

    @property
    def log(self) -> LogReader:
        self.counted = self.counted or CountedLog(super().log)
        return self.counted

    def largest(self) -> int:
        """The facts of the largest page since the last call; 0: nothing was read."""
        assert self.counted is not None
        largest, self.counted.pages = max(self.counted.pages, default=0), []
        return largest


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


def test_every_reading_command_reads_a_long_log_in_pages(tmp_path: Path) -> None:
    limit = PAGE_FACTS + FACTS_PER_COMMIT_MAX  # a row is never cut

    async def work() -> None:
        async with noetl.connect(str(tmp_path / "a.db")) as writer:
            id = (await writer.start(PlaybookFile("loop.yaml", LOOP.encode()))).id
            assert (await (await writer.execution(id)).result(60)).status == "ok"
            events = list(events_of(await writer.log.read(id)))
        session = CountedSession(tmp_path / "a.db")
        async with session:
            execution, kinds = Execution(session, id), installed_kinds()

            assert [each async for each in execution.events()] == list(Envelopes(State(execution_id=id)).of(events))
            assert PAGE_FACTS <= session.largest() <= limit

            report = await audit_executions(session, execution)
            assert (report.executions, report.facts, report.findings) == (1, events[-1].seq, [])
            assert PAGE_FACTS <= session.largest() <= limit

            replay = await replay_execution(execution)
            assert (replay.facts, replay.identical) == (events[-1].seq, True)
            assert PAGE_FACTS <= session.largest() <= limit

            program = await Playbooks(session.catalog, kinds).by_digest((await execution.info()).digest)
            assert await explain_step(execution, "end", kinds) == why(program, id, events, "end")
            assert PAGE_FACTS <= session.largest() <= limit

            found = await compare(session, id, id, kinds)
            assert not found.differs
            assert PAGE_FACTS <= session.largest() <= limit

            assert await execution.output("start") == [{"n": n} for n in range(2500)]
            assert await execution.output("end") == {"done": True}
            assert PAGE_FACTS <= session.largest() <= limit

            assert [line async for line in execution.logs("start")] == []
            assert [line async for line in execution.logs(failed=True)] == []
            assert PAGE_FACTS <= session.largest() <= limit

    asyncio.run(work())


class StoredRows:
    """A log of rows, which may be damaged."""

    def __init__(self, rows: list[LogRow]) -> None:
        self._rows = rows

    async def read(self, execution_id: str, after: int = 0, up_to: int | None = None) -> list[LogRow]:
        del execution_id
        last = float("inf") if up_to is None else up_to
        return [row for row in self._rows if row.first_seq <= last and row.first_seq + len(row.facts) > after + 1]


def test_facts_behind_a_gap_are_read() -> None:
    fact, at = Paused(), datetime(2026, 1, 1, tzinfo=UTC)
    kept = [seq for seq in range(1, 5 * PAGE_FACTS) if not 100 < seq <= 3 * PAGE_FACTS]
    log = StoredRows([LogRow(seq, at, (fact,)) for seq in kept])

    async def read(up_to: int | None) -> list[int]:
        found: list[Event] = []
        last = await fold_log(log, "e", found.append, 0, up_to)
        assert last == found[-1].seq
        return [event.seq for event in found]

    assert asyncio.run(read(None)) == kept
    assert asyncio.run(read(4 * PAGE_FACTS)) == [seq for seq in kept if seq <= 4 * PAGE_FACTS]
    assert asyncio.run(read(50)) == kept[:50]


def test_the_iterations_of_a_retried_loop_are_those_of_all_its_runs() -> None:
    facts = log_of(RETRIED)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    log = StoredRows([LogRow(seq, at, (fact,)) for seq, fact in enumerate(facts, 1)])
    for run in ("start#1", "start#2", "start#3"):
        for only in (None, range(1, 2)):
            expected = [output for _, output in iteration_outputs(facts, run, only)]
            assert asyncio.run(read_iterations(log, "e", run, only)) == expected
    assert asyncio.run(read_iterations(StoredRows([]), "e", "start#1")) is None
