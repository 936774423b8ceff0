"""Large databases: many events in one file, and many open executions. Run it with `python -m benchmarks large`.

The executions are copies of logs that the runtime has written, appended by the store under new ids. `large_postgres`
measures the same on PostgreSQL.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from benchmarks.sizes import scaled
from noetl.clock import SystemClock
from noetl.control.executions import Control
from noetl.engine.commands import Pause
from noetl.engine.facts import FrameParked
from noetl.engine.state import Status
from noetl.ports import Append, EventStore, LogRow, PersonWait, encode_facts
from noetl.runtime.embedded import open_embedded
from noetl.runtime.local_server import open_local_server
from noetl.session.api import connect
from noetl.session.protocol import Session, Standing

Row = tuple[str, float, str]
EVENTS = scaled(10_000_000, 10_000)
OPEN = scaled(100_000, 200)
STEPS = 20  # of an execution: about 100 facts
WAITS = "00000000-0000-7000-8000-000000000001"  # an execution that waits
BATCH = 2_000  # executions whose logs grow at the same time, and appends in one transaction
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: bench, path: bench/%s}\n"
SIGNAL = HEAD % "signal" + "workflow: [{step: start, tool: {kind: wait, signal: go}}]\n"
TIMER = HEAD % "timer" + "workflow: [{step: start, tool: {kind: wait, seconds: 604800}}]\n"
INSTANT = HEAD % "instant" + 'workflow: [{step: start, tool: {kind: wait, until: "2099-01-01T00:00:00Z"}}]\n'
OPEN_TEXTS = {"open executions": (SIGNAL,), "open executions that wait for timers": (TIMER, INSTANT)}


def chain() -> str:
    steps = [
        f"- {{step: s{n}, tool: {{kind: noop}}, next: {{arcs: [{{step: s{n + 1}}}]}}}}\n" for n in range(STEPS - 1)
    ]
    last = f"- {{step: s{STEPS - 1}, tool: {{kind: noop}}}}\n"
    return HEAD % "chain" + "executor: {spec: {entry_step: s0}}\nworkflow:\n" + "".join(steps) + last


class Recorded(NamedTuple):
    """The log of one execution, to be copied."""

    text: str
    rows: list[LogRow]
    bodies: list[bytes]
    status: Status
    waits: tuple[PersonWait, ...]  # what a person has to decide

    @property
    def facts(self) -> int:
        return sum(len(row.facts) for row in self.rows)

    def append(self, id: str, number: int, owner: int, later: timedelta) -> Append:
        """The numbered append of a copy."""
        row, is_last = self.rows[number], number == len(self.rows) - 1
        return Append(
            id, row.first_seq, row.at + later, row.facts, owner, self.status if is_last else "running",
            waits=self.waits if is_last and self.waits else None, encoded=self.bodies[number],
        )  # fmt: skip


async def record(path: Path, text: str, status: Status) -> Recorded:
    """The log of an execution that has ended, waits, or is paused while it waits."""
    async with open_embedded(path) as runtime:
        id = await runtime.start(await runtime.playbooks.add(text, None), {})
        listing, store = runtime.storage.listing, runtime.storage.store
        if status == "ok":
            await runtime.wait_until_idle(id)
        else:
            while not any(isinstance(fact, FrameParked) for row in await store.read(id) for fact in row.facts):
                await SystemClock().sleep(0.01)
        if status == "paused":
            await runtime.command(id, Pause())
        rows, head = await store.read(id), await listing.head(id)
        assert head.status == status
        return Recorded(text, rows, [encode_facts(row.facts) for row in rows], status, head.waits)


def new_ids(number: int) -> list[str]:
    clock = SystemClock()
    return [clock.new_id() for _ in range(number)]


async def copy(recorded: Recorded, store: EventStore, owner_of: Callable[[str], int], ids: Sequence[str]) -> None:
    """Append copies under these ids. Their logs grow side by side, as those of real executions do."""

    def appends() -> Iterator[Append]:
        for first in range(0, len(ids), BATCH):
            for number in range(len(recorded.rows)):
                for place, id in enumerate(ids[first : first + BATCH], first):
                    later = timedelta(milliseconds=place - len(ids))
                    yield recorded.append(id, number, owner_of(id), later)

    left = appends()
    while batch := list(islice(left, BATCH)):
        assert not any(await store.append(batch))


async def fill(path: Path, recorded: Recorded, ids: Sequence[str]) -> None:
    async with open_embedded(path) as runtime:
        await runtime.playbooks.add(recorded.text, None)
        owner = await runtime.control.owners.number(ids[0])
        await copy(recorded, runtime.storage.store, lambda _: owner, ids)


async def list_newest(session: Session, status: Standing | None = None, path: str | None = None) -> None:
    _ = [each async for each in session.executions(status=status, path=path, limit=20)]


async def show(session: Session, name: str) -> None:
    await (await session.execution(name)).show()


def works(id: str) -> dict[str, Callable[[Session], Awaitable[object]]]:
    """`id`: of any execution."""
    return {
        "list": list_newest,
        "list of errors": lambda session: list_newest(session, "error"),
        "list of interrupted ones": lambda session: list_newest(session, "interrupted"),
        "list of a pattern that matches nothing": lambda session: list_newest(session, path="other/*"),
        "show of any execution": lambda session: show(session, id),
        "show of the last one": lambda session: show(session, "last"),
    }


async def spent(path: Path, id: str) -> list[Row]:
    """The time of reading commands and of a resume, each in a new session, without the start of a process."""

    async def resume(session: Session) -> None:
        await session.resume(WAITS)

    rows: list[Row] = []
    for name, work in {**works(id), "resume of a waiting one": resume}.items():
        async with connect(str(path)) as session:
            began, used = time.perf_counter(), time.process_time()
            await work(session)
            rows.append((f"large: {name}", time.perf_counter() - began, "s"))
            rows.append((f"large: {name}, processor", time.process_time() - used, "s"))
    return rows


class Taken(NamedTuple):
    """A server that has taken over all open executions."""

    ready: float  # seconds until it serves
    processor: float  # seconds until it has taken over all
    memory: float  # MB

    def rows(self, where: str, what: str) -> list[Row]:
        name = f"{where}: a server with {OPEN:,} {what}"
        return [
            (f"{name}, ready", self.ready, "s"),
            (f"{name}, all taken over, processor", self.processor, "s"),
            (f"{name}, memory", self.memory, "MB"),
        ]


def in_own_process(work: Callable[..., Coroutine[object, object, Taken]], *values: object) -> Taken:
    """Its memory shall contain nothing of this process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(_run, work, values).result()


def _run(work: Callable[..., Coroutine[object, object, Taken]], values: Sequence[object]) -> Taken:
    return asyncio.run(work(*values))


async def taken_over(control: Control) -> None:
    while len(control.executions) + len(control.idle) < OPEN:
        await SystemClock().sleep(0.1)


def memory() -> float:
    """Of this process, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


async def start_server(path: Path) -> Taken:
    began, used = time.perf_counter(), time.process_time()
    async with open_local_server(path) as server:
        ready = time.perf_counter() - began
        await taken_over(server.runtime.control)
        return Taken(ready, time.process_time() - used, memory())


def measure() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recorded = asyncio.run(record(folder / "recorded.db", chain(), "ok"))
        ids = new_ids(-(-EVENTS // recorded.facts))
        began = time.perf_counter()
        asyncio.run(fill(folder / "events.db", recorded, ids))
        yield f"large: write {len(ids) * recorded.facts:,} events", time.perf_counter() - began, "s"
        waiting = asyncio.run(record(folder / "recorded.db", SIGNAL, "running"))
        asyncio.run(fill(folder / "events.db", waiting, [WAITS]))
        yield from asyncio.run(spent(folder / "events.db", ids[len(ids) // 2]))
        for what, texts in OPEN_TEXTS.items():
            path = folder / f"{len(texts)}.db"
            for text in texts:
                recorded = asyncio.run(record(folder / "recorded.db", text, "running"))
                asyncio.run(fill(path, recorded, new_ids(OPEN // len(texts))))
            yield from in_own_process(start_server, path).rows("large", what)
