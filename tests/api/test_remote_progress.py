"""Live progress of an execution on a server: details that are not in the log are requested."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from noetl.cli.output.progress import Progress, drawn
from noetl.cli.output.screen import Screen
from noetl.clock import SystemClock
from noetl.session.remote import RemoteSession
from tests.api.servers import ApiServer, serve
from tests.playbooks import HEAD

BLOCKING = HEAD + (
    "workload: {flag: no}\nworkflow:\n- step: start\n"
    "  loop: {in: '{{ range(8) }}', iterator: n, spec: {mode: parallel, max_in_flight: 8}}\n"
    '  tool: {kind: shell, argv: [sh, -c, "until test -e $0; do sleep 0.05; done", "{{ workload.flag }}"]}\n'
)
WAITING = HEAD + "workflow:\n- step: start\n  tool: {kind: shell, argv: ['true']}\n"


class Hurried(SystemClock):
    """A clock whose sleeps are a hundred times shorter."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / 100)


def test_the_screen_reports_a_step_without_workers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The worker registry of this server is empty, and its eight slots are taken."""
    flag = tmp_path / "flag"

    async def work(server: ApiServer) -> None:
        blocking = {"text": BLOCKING, "workload": {"flag": str(flag)}}
        await server.api.post("/executions", blocking, status=201)
        body = {"text": WAITING}
        id = (await server.api.post("/executions", body, status=201))["execution_id"]
        session = RemoteSession(server.server.url, clock=Hurried())
        progress = Progress(id, session.clock)
        session.observe(progress)

        async def follow() -> None:
            async with session, drawn(progress, Screen(sys.stdout), session.clock):
                await session.rest(id)

        said = ""
        following = asyncio.ensure_future(follow())
        while "waits for a worker" not in said and not following.done():
            said += capsys.readouterr().out
            await session.clock.sleep(1)
        flag.touch()
        await following
        said += capsys.readouterr().out
        waits = '… start  waits for a worker: the pool "default" has none'
        # A slow start of the step is reported once more: the registry is still empty.
        assert {line for line in said.splitlines() if line.startswith("… ")} == {waits}
        assert said.splitlines()[-1].startswith("✓ start")

    serve(tmp_path, work)
