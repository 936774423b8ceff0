"""The calls of a server that runs tasks: the next server of the machine records those that a dead one was running."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from noetl.clock import SystemClock
from noetl.engine.commands import Command, Lose
from noetl.errors import NotFound, Unavailable
from noetl.runtime.written_calls import ServerCalls

DATABASE = "postgresql://noetl@db/noetl"
DIE = f"""
import os, sys
from noetl.clock import SystemClock
from noetl.runtime.written_calls import ServerCalls
calls = ServerCalls({DATABASE!r}, SystemClock(), {{"XDG_DATA_HOME": sys.argv[1]}}).running
calls.end(calls.begin("a", "done#1", (3, 1)))
calls.begin("a", "start#1", (3, 2))
calls.begin("gone", "start#1", (3, 3))
os._exit(9)
"""


class Owners:
    """A link that first has no owner for the executions."""

    def __init__(self, away: int) -> None:
        self._away = away
        self.lost: list[tuple[str, str, tuple[int, int], int]] = []

    async def command(self, execution_id: str, command: Command) -> None:
        self._away -= 1
        if self._away >= 0:
            raise Unavailable("no server owns it")
        if execution_id == "gone":
            raise NotFound("no such execution")
        assert isinstance(command, Lose)
        self.lost.append((execution_id, command.frame, command.epoch, command.held))


def opened(folder: Path, database: str = DATABASE) -> ServerCalls:
    return ServerCalls(database, SystemClock(), {"XDG_DATA_HOME": str(folder)})


def test_the_next_server_records_the_calls_of_a_dead_one_once(tmp_path: Path) -> None:
    assert subprocess.run([sys.executable, "-c", DIE, str(tmp_path)], check=False).returncode == 9
    owners = Owners(away=1)

    async def report(calls: ServerCalls) -> None:
        async with asyncio.timeout(20):
            await calls.report(owners)  # type: ignore[arg-type]  # it sends no other request

    other = opened(tmp_path, f"{DATABASE}2")
    asyncio.run(report(other))
    assert owners.lost == [], "it belongs to another deployment"
    mine = opened(tmp_path)
    asyncio.run(report(mine))
    asyncio.run(report(mine))
    assert owners.lost == [("a", "start#1", (3, 2), 2)]
    other.close()
    mine.close()
    assert [path for path in (tmp_path / "noetl").rglob("*") if path.is_file()] == []


def test_calls_of_a_live_server_are_not_recorded(tmp_path: Path) -> None:
    owners, running, another = Owners(away=0), opened(tmp_path), opened(tmp_path)
    assert running.running.begin("a", "start#1", (3, 2)) >= 0
    asyncio.run(another.report(owners))  # type: ignore[arg-type]  # it sends no other request
    assert owners.lost == []
    running.close()
    another.close()
