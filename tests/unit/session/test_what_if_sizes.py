"""What-if over many long executions: no network, no process, a bounded time, and a coverage."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path
from uuid import UUID

import pytest

import noetl
from noetl.adapters.sqlite.ownership import SqliteOwnership
from noetl.ports import Append
from noetl.session.execution import Execution
from noetl.session.local import LocalSession
from noetl.session.sources import PlaybookFile
from noetl.session.what_if import WhatIf
from tests.playbooks import HEAD
from tests.sizes import FULL

EXECUTIONS, CALLS = (100, 1_000) if FULL else (3, 50)
CPU_S_MAX = 30.0

PAGES = HEAD + (
    f"workload: {{pages: {CALLS}}}\n"
    "workflow:\n- step: start\n"
    '  loop: {in: "{{ range(workload.pages) }}", iterator: n, spec: {mode: parallel, max_in_flight: 8}}\n'
    "  tool: {name: double, kind: python, input: {n: \"{{ iter.n }}\"}, code: 'def main(n): return 2 * n'}\n"
    '  set: {ctx.sum: "{{ output.data | sum }}"}\n'
)


async def copied(session: LocalSession, old: Execution, count: int) -> list[Execution]:
    """Other executions with the same log."""
    rows = await session.log.read(old.id)
    ownership = SqliteOwnership(session.store.database)
    made = []
    for number in range(count):
        id = str(UUID(int=UUID(old.id).int + 1 + number))
        owner = await ownership.hold(id)
        last = (await old.info()).status
        appends = [
            Append(id, row.first_seq, row.at, row.facts, owner, last if row is rows[-1] else "running") for row in rows
        ]
        assert await session.store.store.append(appends) == [None] * len(appends)
        made.append(Execution(session, id))
    return made


def test_many_long_executions_are_compared_without_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(compare_all(tmp_path, monkeypatch))


async def compare_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with noetl.connect(str(tmp_path / "a.db")) as session:
        assert isinstance(session, LocalSession)
        first = await session.start(PlaybookFile("t.yaml", PAGES.encode()))
        assert (await first.result(120)).status == "ok"
        executions = [first, *await copied(session, first, EXECUTIONS - 1)]

        def refuse(*_arguments: object, **_options: object) -> None:
            raise AssertionError("what-if has called something")

        monkeypatch.setattr(socket.socket, "connect", refuse)
        monkeypatch.setattr(socket, "getaddrinfo", refuse)
        monkeypatch.setattr("asyncio.create_subprocess_exec", refuse)
        began = time.process_time()
        compared = WhatIf(session, PlaybookFile("t.yaml", PAGES.replace("| sum", "| sum | int").encode()))
        reports = [await compared.compare(each) for each in executions]
        spent = time.process_time() - began
        print(f"{EXECUTIONS} executions of {CALLS:,} calls: {spent:.1f} s of CPU")
        assert {(each.differs, each.calls.same, each.coverage.percent) for each in reports} == {(False, CALLS, 100.0)}
        assert spent < CPU_S_MAX
