"""The live screen of an execution that a server runs: what stands in no log is asked for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from noetl.cli.answering import Voice
from noetl.cli.contexts import Server
from noetl.cli.remote import ServerDisk
from noetl.cli.remote_following import follow
from noetl.client import Client
from noetl.clock import SystemClock
from noetl.views.runs import Runs
from tests.api.houses import World, serve
from tests.playbooks import HEAD

SLOW = HEAD + (
    "workload: {flag: no}\nworkflow:\n- step: start\n"
    '  tool: {kind: shell, argv: [sh, -c, "until test -e $0; do sleep 0.05; done", "{{ workload.flag }}"]}\n'
)


class Hurried(SystemClock):
    """For whom a second is a hundredth of one."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / 100)


def test_a_step_that_no_worker_takes_says_so_on_the_screen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody has said in the roster of this house that there is a worker."""
    flag = tmp_path / "flag"

    async def work(world: World) -> None:
        body = {"text": SLOW, "workload": {"flag": str(flag)}}
        id = (await world.api.post("/executions", body, status=201))["execution_id"]
        client = Client(world.serving.url, clock=Hurried())
        disk = ServerDisk.of(Server(world.serving.url, None))._replace(client=client)
        said = ""
        following = asyncio.ensure_future(follow(Voice("plain"), disk, Runs(id)))
        while "waits for a worker" not in said and not following.done():
            said += capsys.readouterr().out
            await client.clock.sleep(1)
        flag.touch()
        await following
        said += capsys.readouterr().out
        waits = '… start  waits for a worker: the pool "default" has none'
        assert [line for line in said.splitlines() if line.startswith("… ")] == [waits]
        assert said.splitlines()[-1].startswith("✓ start")

    serve(tmp_path, work)
