"""Measured ports keep the contracts of those that they wrap, and see what goes through."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from noetl.adapters.memory import MemoryQueue, MemoryStore
from noetl.clock import SystemClock
from noetl.engine.commands import Command, Pause, Report, Start
from noetl.errors import Conflict, Fenced, NotFound, Rejected, Unavailable
from noetl.output import Output
from noetl.ports import Append, Claim, Epoch, EventStore, Grant, Pointer, ReportAnswer
from noetl.telemetry.logs import start_logging
from noetl.telemetry.measured import APPENDS_MAX, MeasuredLink, MeasuredQueue, MeasuredStore, PendingPointers
from noetl.telemetry.metrics import Metrics
from noetl.testing.contracts.queue import QueueClient, WorkQueueContract
from noetl.testing.contracts.stores import PARTITIONS, EventStoreContract, append, epoch_of
from tests.unit.telemetry.test_logs import Lines

CLOCK = SystemClock()


class TestMeasuredStore(EventStoreContract):
    async def owned(self) -> tuple[EventStore, int]:
        store = MemoryStore(CLOCK, PARTITIONS)
        return MeasuredStore(store, Metrics(), CLOCK), await epoch_of(store, "s1")


class TestMeasuredQueue(WorkQueueContract):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Callable[[str], QueueClient]]:
        queue = MemoryQueue()

        def connect(_pool: str) -> QueueClient:
            nonlocal queue
            if queue.closed:
                queue = MemoryQueue()
            return QueueClient(MeasuredQueue(queue, Metrics(), CLOCK), queue)

        yield connect


class AwayStore(MemoryStore):
    """Never answers."""

    async def append(self, appends: Sequence[Append]) -> list[Conflict | Fenced | None]:
        raise Unavailable(f"{len(appends)} appends, and no answer")


class AwayQueue:
    """Never answers."""

    async def put(self, pointers: Sequence[Pointer]) -> None:
        raise Unavailable(f"{len(pointers)} pointers")

    async def take(self, limit: int) -> list[Claim]:
        raise Unavailable(f"{limit} claims")

    async def done(self, claim: Claim) -> None:
        raise Unavailable(claim.pointer.frame)


def test_appends_are_counted_by_what_became_of_them() -> None:
    metrics = Metrics()

    async def work() -> None:
        inner = MemoryStore(CLOCK, PARTITIONS)
        store, epoch = MeasuredStore(inner, metrics, CLOCK), await epoch_of(inner, "s1")
        await store.append([append(1, epoch, facts=3)])
        await store.append([append(2, epoch), append(4, epoch - 1)])
        with pytest.raises(Unavailable):
            await MeasuredStore(AwayStore(CLOCK, PARTITIONS), metrics, CLOCK).append([append(4, epoch)])

    asyncio.run(work())
    for prepare in metrics.registry.before_read:
        prepare()
    meters = metrics.store
    assert dict(meters.appends.values) == {"ok": 1, "conflict": 1, "fenced": 1, "unavailable": 1}
    assert dict(meters.stale.values) == {(): 1}
    assert dict(meters.unavailable.values) == {"append": 1}
    assert sum(meters.append_s.of().counts) == 3
    assert (sum(meters.batch.of().counts), meters.batch.of().total) == (3, 5.0)


def test_uncounted_appends_are_bounded() -> None:
    metrics = Metrics()

    async def work() -> None:
        inner = MemoryStore(CLOCK, PARTITIONS)
        store, epoch = MeasuredStore(inner, metrics, CLOCK), await epoch_of(inner, "s1")
        for seq in range(1, APPENDS_MAX + 2):
            await store.append([append(seq, epoch)])

    asyncio.run(work())
    assert metrics.store.appends.values["ok"] == sum(metrics.store.append_s.of().counts) == APPENDS_MAX


def test_reading_the_log_is_timed_by_what_is_asked() -> None:
    metrics = Metrics()

    async def work() -> None:
        store = MeasuredStore(MemoryStore(CLOCK, PARTITIONS), metrics, CLOCK)
        assert (await store.read("e"), await store.status("e"), await store.snapshot("e")) == ([], None, None)

    asyncio.run(work())
    assert sorted(metrics.store.read_s.cells) == ["read", "snapshot", "status"]


def test_a_queue_that_is_away_is_counted_by_what_was_asked() -> None:
    metrics, pending = Metrics(), PendingPointers()

    async def work() -> None:
        queue = MeasuredQueue(AwayQueue(), metrics, CLOCK, pending)
        asked: list[Awaitable[object]] = [
            queue.put([Pointer("e", "a#1", 1)]),
            queue.take(1),
            queue.done(Claim(Pointer("e", "a#1", 1), 1)),
        ]
        for each in asked:
            with pytest.raises(Unavailable):
                await each

    asyncio.run(work())
    assert dict(metrics.queue.unavailable.values) == {"put": 1, "take": 1, "done": 1}
    assert not metrics.queue.put.values
    assert pending.remove("e", "a#1") is None


class OwnLink:
    """Answers by the id of the execution."""

    async def begin(self, execution_id: str, frame: str, worker: str) -> Grant | None:
        if execution_id == "nobody":
            raise NotFound(f"no execution {execution_id} for {frame} of {worker}")
        return None

    async def report(self, execution_id: str, report: Report, *, room: int = 0) -> ReportAnswer:
        assert report.frame == "a#1"
        return ReportAnswer("stop", execution_id) if room else ReportAnswer("go")

    async def beat(self, worker: str, holds: Sequence[tuple[str, str, Epoch]]) -> list[tuple[str, str]]:
        return [(execution_id, frame) for execution_id, frame, _ in holds if worker]

    async def start(self, execution_id: str, digest: str, start: Start) -> None:
        raise Unavailable(f"{execution_id} {digest} {start.depth}")

    async def command(self, execution_id: str, command: Command) -> None:
        raise Rejected(execution_id, type(command).__name__)

    async def iterations(self, execution_id: str, run: str, only: range | None = None) -> list[Output | None]:
        return [Output(data=[execution_id, run, only])]

    async def parent(self, execution_id: str) -> str | None:
        return f"parent of {execution_id}"


def test_refusals_are_counted_by_their_reason() -> None:
    metrics = Metrics()

    async def work() -> None:
        link = MeasuredLink(OwnLink(), metrics, CLOCK)
        report = Report(frame="a#1", position=0)
        assert await link.begin("e", "a#1", "w") is None
        assert (await link.report("e", report)).word == "go"
        assert (await link.report("fenced", report, room=1)).why == "fenced"
        assert (await link.report("over", report, room=1)).why == "over"
        assert await link.beat("w", [("e", "a#1", (1, 1))]) == [("e", "a#1")]
        assert len(await link.iterations("e", "a#1")) == 1
        with pytest.raises(NotFound):
            await link.begin("nobody", "a#1", "w")
        with pytest.raises(Unavailable):
            await link.start("e", "d", Start())
        with pytest.raises(Rejected):
            await link.command("not-running", Pause())

    asyncio.run(work())
    assert dict(metrics.link.refused.values) == {
        ("begin", "nothing"): 1,
        ("begin", "not-found"): 1,
        ("report", "fenced"): 1,
        ("start", "unavailable"): 1,
        ("command", "not-running"): 1,
    }
    assert dict(metrics.link.stopped.values) == {(): 1}
    assert {name: sum(cell.counts) for name, cell in metrics.link.call_s.cells.items()} == {
        "begin": 2, "report": 3, "beat": 1, "iterations": 1, "start": 1, "command": 1,
    }  # fmt: skip


def test_a_worker_that_no_server_answers_says_so_and_why() -> None:
    lines = Lines()
    stop = start_logging(lines)

    async def work() -> None:
        link = MeasuredLink(OwnLink(), Metrics(), CLOCK)
        with pytest.raises(Unavailable):
            await link.start("version 2 of the link", "d", Start())
        await link.begin("e", "a#1", "w")

    try:
        asyncio.run(work())
    finally:
        stop()
    away, back = lines.read_all()
    assert (away["event"], "version 2 of the link" in str(away["error"])) == ("link.unavailable", True)
    assert back["event"] == "link.back"
