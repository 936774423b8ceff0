"""What-if and cassettes read logs, children and stored results of a file and of a server in the same way."""

from __future__ import annotations

import asyncio
from pathlib import Path

from noetl.session.protocol import Session
from noetl.session.recordings import record
from noetl.session.sources import PlaybookFile
from noetl.session.what_if import WhatIf
from tests.playbooks import HEAD
from tests.unit.session.test_verbs import FLAKY, LARGE, on

SIGNALLED = HEAD + (
    "workflow:\n- step: start\n  tool: {kind: wait, signal: go}\n  next: {arcs: [{step: tell}]}\n"
    '  set: {ctx.word: "{{ output.data.word }}"}\n'
    "- step: tell\n  tool: {kind: python, input: {word: \"{{ ctx.word }}\"}, code: 'def main(word): return word * 2'}\n"
)


def test_stored_results_are_answers(target: str) -> None:
    async def work(session: Session) -> None:
        execution = await session.start(PlaybookFile("t.yaml", LARGE.encode()))
        assert (await execution.result(60)).status == "ok"
        report = await WhatIf(session, PlaybookFile("t.yaml", LARGE.encode())).compare(execution)
        assert (report.first_divergence, report.calls.same, report.output) == (None, 3, "same")
        edited = LARGE.replace("range(3)", "range(2)")
        report = await WhatIf(session, PlaybookFile("t.yaml", edited.encode())).compare(execution)
        assert (report.differs, report.calls.same, report.calls.unused) == (True, 2, 1)
        made = await record(execution, Path("x.cassette.yaml"))
        assert (made.calls, len(made.bodies)) == ({"start.start_task": 3}, 1)

    on(target, work)


def test_signals_are_sent_with_the_recorded_data(target: str) -> None:
    async def work(session: Session) -> None:
        execution = await session.start(PlaybookFile("t.yaml", SIGNALLED.encode()))
        async with asyncio.timeout(60):
            while "frame.parked" not in [event.name async for event in execution.events()]:
                await session.clock.sleep(0.01)
        await execution.signal("go", {"word": "ha"})
        assert (await execution.result(60)).output == "haha"
        report = await WhatIf(session, PlaybookFile("t.yaml", SIGNALLED.encode())).compare(execution)
        assert (report.first_divergence, report.calls.same) == (None, 1)

    on(target, work)


def test_an_execution_that_was_retried_is_replayed_with_the_answers_that_succeeded(target: str, tmp_path: Path) -> None:
    async def work(session: Session) -> None:
        flag = tmp_path / "flag"
        execution = await session.start(PlaybookFile("t.yaml", FLAKY.encode()), workload={"flag": str(flag)})
        assert (await execution.result(60)).status == "error"
        flag.touch()
        await execution.retry()
        assert (await execution.result(60)).status == "ok"
        report = await WhatIf(session, PlaybookFile("t.yaml", FLAKY.encode())).compare(execution)
        assert (report.first_divergence, report.status, report.calls.same) == (None, ("ok", "ok"), 1)

    on(target, work)
