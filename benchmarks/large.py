"""Large databases: many events in one file, and many open executions. Run it with `python -m benchmarks large`.

The executions are copies of a log that the runtime has written, appended by the store under new ids.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from itertools import islice
from pathlib import Path

from benchmarks.sizes import scaled
from noetl.clock import SystemClock
from noetl.engine.state import Status
from noetl.ports import Append, encode_facts
from noetl.runtime.embedded import open_embedded
from noetl.runtime.local_server import open_local_server
from noetl.session.api import connect
from noetl.session.protocol import Session, Standing

Row = tuple[str, float, str]
EVENTS = scaled(10_000_000, 10_000)
OPEN = scaled(100_000, 200)
STEPS = 20  # of an execution: about 100 facts
WAITS = "00000000-0000-7000-8000-000000000001"  # an execution that waits
BATCH = 2_000  # appends in one transaction
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: bench, path: bench/%s}\n"
WAITING = HEAD % "waiting" + "workflow: [{step: start, tool: {kind: wait, signal: go}}]\n"


def chain() -> str:
    steps = [
        f"- {{step: s{n}, tool: {{kind: noop}}, next: {{arcs: [{{step: s{n + 1}}}]}}}}\n" for n in range(STEPS - 1)
    ]
    last = f"- {{step: s{STEPS - 1}, tool: {{kind: noop}}}}\n"
    return HEAD % "chain" + "executor: {spec: {entry_step: s0}}\nworkflow:\n" + "".join(steps) + last


async def fill(
    path: Path, text: str, status: Status, events: int | None, count: int | None, ids: list[str] | None = None
) -> tuple[int, str]:
    """Append copies of one execution: so many events, or so many executions. Returns the number, and one id."""
    async with open_embedded(path) as runtime:
        digest = await runtime.playbooks.add(text, None)
        id = await runtime.start(digest, {})
        if status == "ok":
            await runtime.wait_until_idle(id)
        else:
            while not (await runtime.storage.listing.head(id)).waits:
                await SystemClock().sleep(0.01)
        store, clock = runtime.storage.store, SystemClock()
        rows = await store.read(id)
        facts = sum(len(row.facts) for row in rows)
        waits = (await runtime.storage.listing.head(id)).waits
        bodies = [encode_facts(row.facts) for row in rows]
        number = count if count is not None else -(-(events or 0) // facts)
        owner = await runtime.control.owners.number(id)
        made = ids or [clock.new_id() for _ in range(number)]

        def appends() -> Iterator[Append]:
            for place, each in enumerate(made):
                later = timedelta(milliseconds=place - number)
                for row, body in zip(rows, bodies, strict=True):
                    last = row is rows[-1]
                    yield Append(
                        each, row.first_seq, row.at + later, row.facts, owner, status if last else "running",
                        waits=waits if last and waits else None, encoded=body,
                    )  # fmt: skip

        left = appends()
        while batch := list(islice(left, BATCH)):
            assert not any(await store.append(batch))
    return number * facts, made[len(made) // 2]


async def spent(path: Path, id: str) -> list[Row]:
    """The time of reading commands and of a resume, each in a new session, without the start of a process."""

    async def list_newest(session: Session, status: Standing | None = None, path: str | None = None) -> None:
        _ = [each async for each in session.executions(status=status, path=path, limit=20)]

    async def show(session: Session, name: str) -> None:
        await (await session.execution(name)).show()

    works: dict[str, Callable[[Session], Awaitable[object]]] = {
        "list": list_newest,
        "list of errors": lambda session: list_newest(session, "error"),
        "list of interrupted ones": lambda session: list_newest(session, "interrupted"),
        "list of a pattern that matches nothing": lambda session: list_newest(session, path="other/*"),
        "show of any execution": lambda session: show(session, id),
        "show of the last one": lambda session: show(session, "last"),
        "resume of a waiting one": lambda session: session.resume(WAITS),
    }
    rows: list[Row] = []
    for name, work in works.items():
        async with connect(str(path)) as session:
            began, used = time.perf_counter(), time.process_time()
            await work(session)
            rows.append((f"large: {name}", time.perf_counter() - began, "s"))
            rows.append((f"large: {name}, processor", time.process_time() - used, "s"))
    return rows


async def start_server(path: Path) -> tuple[float, float, float]:
    """Seconds until it serves, CPU seconds until it has taken over all open executions, and its memory in MB."""
    began, used = time.perf_counter(), time.process_time()
    async with open_local_server(path) as server:
        ready = time.perf_counter() - began
        control = server.runtime.control
        while len(control.executions) + len(control.idle) < OPEN:
            await SystemClock().sleep(0.1)
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return ready, time.process_time() - used, pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def measure() -> list[Row]:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        path, open_path = Path(folder) / "events.db", Path(folder) / "open.db"
        began = time.perf_counter()
        events, id = asyncio.run(fill(path, chain(), "ok", EVENTS, None))
        rows.append((f"large: write {events:,} events", time.perf_counter() - began, "s"))
        asyncio.run(fill(path, WAITING, "running", None, 1, [WAITS]))
        rows += asyncio.run(spent(path, id))
        asyncio.run(fill(open_path, WAITING, "running", None, OPEN))
        rows += [
            (f"large: a server with {OPEN:,} open executions, {name}", value, unit)
            for (name, unit), value in zip(
                (("ready", "s"), ("all taken over, processor", "s"), ("memory", "MB")),
                asyncio.run(start_server(open_path)),
                strict=True,
            )
        ]
    return rows
