"""Who reads a long log leaves a copy of the run records, so that the next reader folds only what came after."""

from __future__ import annotations

import asyncio
from pathlib import Path

from noetl.control.run_records import ENDED_S, STORED_FACTS_MIN, RunRecords, records_schema
from noetl.ports import Snapshot
from noetl.runtime.local_server import open_local_server
from noetl.session.local import LocalSession
from noetl.session.sources import PlaybookFile
from noetl.slices import turn
from noetl.testing import FakeClock
from noetl.views.documents import show_document
from noetl.views.runs import Runs
from tests.unit.session.test_log_pages import LOOP, CountedLog

ITEMS = STORED_FACTS_MIN // 2  # each has two facts


def _loop() -> str:
    return LOOP.replace("range(2500)", "workload.items").replace("max_in_flight: 4", "max_in_flight: 100")


async def _ran(session: LocalSession, items: int) -> str:
    execution = await session.start(PlaybookFile("loop.yaml", _loop().encode()), workload={"items": list(range(items))})
    assert (await execution.result(60)).status == "ok"
    await session.store.database.writer.write(lambda cursor: cursor.execute("DELETE FROM run_records") and None)
    return execution.id


async def _read(session: LocalSession, id: str, up_to: int | None = None) -> tuple[Runs, int]:
    """The records, and how many facts were read for them."""
    log = CountedLog(session.store.store)
    return await RunRecords(session.store.store, log).read(id, up_to), sum(log.pages)


def test_a_second_reader_reads_nothing_again(tmp_path: Path) -> None:
    async def work() -> None:
        async with LocalSession(tmp_path / "a.db", create=True) as session:
            id, store = await _ran(session, ITEMS), session.store.store
            first, facts = await _read(session, id)
            assert facts == first.state.seq > STORED_FACTS_MIN
            kept = await store.snapshot(id, "records")
            assert kept is not None
            assert kept.seq == facts

            again, facts = await _read(session, id)
            assert (show_document(again), facts) == (show_document(first), 0)
            earlier, facts = await _read(session, id, first.state.seq - 9)
            assert earlier.state.seq == first.state.seq - 9 < facts

            for copy in (
                Snapshot(kept.seq, "of another version", kept.body),
                Snapshot(kept.seq, records_schema(), b"damaged"),
            ):
                await store.keep(id, copy, "records")
                again, facts = await _read(session, id)
                assert (show_document(again), facts) == (show_document(first), kept.seq)
            assert await store.snapshot(id, "records") == kept

            assert await session.delete(id) == 1
            assert await store.snapshot(id, "records") is None

    asyncio.run(work())


def test_a_server_reads_a_long_log_when_the_execution_has_ended(tmp_path: Path) -> None:
    async def work() -> None:
        clock = FakeClock()
        async with open_local_server(tmp_path / "a.db", clock) as server:
            store, playbooks = server.services.store, server.services.playbooks
            ids = []
            for items in (50, ITEMS):
                digest = await playbooks.add(_loop(), None)
                ids.append(await server.runtime.start(digest, {"items": list(range(items))}))
                await server.runtime.wait_until_idle(ids[-1])
            await clock.settle()
            assert await store.snapshot(ids[1], "records") is None
            clock.advance(ENDED_S)
            async with asyncio.timeout(60):
                while (copy := await store.snapshot(ids[1], "records")) is None:
                    await turn()
            assert copy.seq > STORED_FACTS_MIN
            assert await store.snapshot(ids[0], "records") is None

    asyncio.run(work())


def test_a_short_log_has_no_copy(tmp_path: Path) -> None:
    async def work() -> None:
        async with LocalSession(tmp_path / "a.db", create=True) as session:
            id = await _ran(session, 50)
            await session.show(id)
            assert await session.store.store.snapshot(id, "records") is None

    asyncio.run(work())


def test_records_that_are_read_little_by_little_are_stored_when_they_have_grown(tmp_path: Path) -> None:
    async def work() -> None:
        async with LocalSession(tmp_path / "a.db", create=True) as session:
            id, store = await _ran(session, ITEMS + ITEMS // 2), session.store.store
            reader, runs, stored = RunRecords(store), Runs(id), []
            for up_to in (STORED_FACTS_MIN // 2, STORED_FACTS_MIN, STORED_FACTS_MIN + STORED_FACTS_MIN // 2):
                await reader.update(runs, up_to)
                kept = await store.snapshot(id, "records")
                stored.append(kept and kept.seq)
            assert stored == [None, STORED_FACTS_MIN, STORED_FACTS_MIN]

    asyncio.run(work())
