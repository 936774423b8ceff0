"""A file with executions, written by a real runtime with a stopped clock, so that documents are stable."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import apsw

from noetl.control.live_execution import LiveExecution
from noetl.engine import Event
from noetl.engine.commands import Signal
from noetl.engine.facts import ForSignal, FrameParked
from noetl.output import JSON
from noetl.runtime.embedded import EmbeddedRuntime, open_embedded
from noetl.testing import FakeClock
from tests.playbooks import HEAD

AT = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
ENDED = "0199b3c2-0000-7000-8000-000000000001"
LEFT = "0199b3c2-0004-7000-8000-000000000002"
LARGE = "0199b3c2-0001-7000-8000-000000000003"
CALLING = "0199b3c2-0002-7000-8000-000000000004"
MISSING = "0199b3c2-0003-7000-8000-000000000005"

MIXED = (
    HEAD.replace("path: t", "path: demo/mixed")
    + """
workload: {n: 2, word: "hi"}
workflow:
- step: start
  tool: {kind: noop, input: {n: "{{ workload.n }}", word: "{{ workload.word }}"}}
  set: {ctx.n: "{{ output.data.n }}"}
  next: {spec: {mode: inclusive}, arcs: [{step: each}, {step: gate}, {step: never, when: "{{ ctx.n > 100 }}"}]}
- step: each
  loop: {in: "{{ range(workload.n) }}", iterator: i}
  tool: {kind: noop, input: {double: "{{ iter.i * 2 }}"}}
  next: {arcs: [{step: ask}]}
- step: gate
  spec: {policy: {admit: {rules: [{when: "{{ ctx.open }}", then: {allow: true}}]}}}
  tool: {kind: noop}
- step: ask
  tool: {kind: wait, signal: approve}
  next: {arcs: [{step: flaky}]}
- step: flaky
  tool:
    kind: noop
    input: {by: "{{ workload.word }}"}
    spec:
      policy:
        rules:
        - {when: "{{ _attempt < 2 }}", then: {do: retry, attempts: 3}}
        - {else: {then: {do: fail}}}
- {step: never, tool: {kind: noop}}
"""
)

PIECES = (
    HEAD.replace("path: t", "path: demo/large")
    + """
workload: {texts: []}
workflow:
- step: start
  loop: {in: "{{ workload.texts }}", iterator: text}
  tool: {kind: noop, input: {text: "{{ iter.text }}"}}
  next: {arcs: [{step: whole}]}
- step: whole
  tool: {kind: noop, input: {text: "{{ workload.texts[0] }}"}}
"""
)

CALLER = (
    HEAD.replace("path: t", "path: demo/caller")
    + """
workflow:
- step: start
  tool: {kind: playbook, path: demo/child, input: {name: "you"}}
- step: unused
  tool: {kind: noop}
"""
)

CHILD = (
    HEAD.replace("path: t", "path: demo/child")
    + """
workload: {name: world}
workflow:
- {step: start, tool: {kind: noop, input: {text: "hello, {{ workload.name }}"}}}
"""
)


class Parked:
    """Says when a frame waits for a signal."""

    def __init__(self, runtime: EmbeddedRuntime) -> None:
        self.event = asyncio.Event()
        runtime.watchers.append(self)

    def __call__(self, _live: LiveExecution, events: list[Event]) -> None:
        if any(isinstance(e.fact, FrameParked) and isinstance(e.fact.until, ForSignal) for e in events):
            self.event.set()


async def started(runtime: EmbeddedRuntime, text: str, id: str, workload: dict[str, JSON] | None = None) -> str:
    digest = await runtime.playbooks.add(text, None)
    return await runtime.start(digest, workload or {}, execution_id=id)


async def parked(runtime: EmbeddedRuntime, id: str) -> None:
    """An execution of MIXED, up to where it waits for a person."""
    parking = Parked(runtime)
    await started(runtime, MIXED, id)
    async with asyncio.timeout(120):
        await parking.event.wait()


async def _fill(path: Path) -> None:
    async with open_embedded(path, clock=FakeClock(AT), slots=1) as runtime:
        await parked(runtime, ENDED)
        await runtime.command(ENDED, Signal(name="approve", data={"ok": True}))
        await runtime.wait_until_idle(ENDED)
        await parked(runtime, LEFT)


async def _fill_large(path: Path) -> None:
    async with open_embedded(path, clock=FakeClock(AT), slots=1) as runtime:
        await started(runtime, PIECES, LARGE, {"texts": [letter * 70_000 for letter in "ab"]})
        await runtime.wait_until_idle(LARGE)


async def _fill_calling(path: Path) -> None:
    async with open_embedded(path, clock=FakeClock(AT), slots=1) as runtime:
        await runtime.playbooks.add(CHILD, None)
        await started(runtime, CALLER, CALLING)
        await runtime.wait_until_idle(CALLING)


def mixed_file(folder: Path) -> str:
    """One execution that has ended in an error, and one that was left while it waited."""
    asyncio.run(_fill(folder / "mixed.db"))
    return str(folder / "mixed.db")


def large_file(folder: Path) -> str:
    """One with results that are stored as files."""
    asyncio.run(_fill_large(folder / "large.db"))
    return str(folder / "large.db")


def calling_file(folder: Path) -> str:
    """One that has called another playbook."""
    asyncio.run(_fill_calling(folder / "calling.db"))
    return str(folder / "calling.db")


def changed(db: str, statement: str, *values: str | int | bytes) -> None:
    """Change the database from outside of NoETL."""
    connection = apsw.Connection(db)
    try:
        connection.execute(statement, values)
    finally:
        connection.close()
