"""The calls of a server that runs tasks: the next server of the machine records those that a dead one was running."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from io import StringIO
from itertools import count
from pathlib import Path

import pytest

from noetl.engine.commands import Command, Lose
from noetl.errors import Conflict, Damaged, Fenced, NotFound, PlaybookError, Unavailable
from noetl.runtime.fake_clock import FakeClock
from noetl.runtime.written_calls import ServerCalls
from noetl.telemetry.logs import get_logger, start_logging

DATABASE = "postgresql://noetl@db/noetl"
_seeds = count(1)  # of clocks: their ids differ
DIE = f"""
import os, sys
from noetl.clock import SystemClock
from noetl.runtime.written_calls import ServerCalls
from noetl.telemetry.logs import get_logger
calls = ServerCalls({DATABASE!r}, SystemClock(), get_logger("test"), {{"XDG_DATA_HOME": sys.argv[1]}}).running
calls.end(calls.begin("a", "done#1", (3, 1)))
calls.begin("a", "start#1", (3, 2))
calls.begin("gone", "start#1", (3, 3))
os._exit(9)
"""


class Owners:
    """A link. `errors`: the first answers for the execution "a"."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.lost: list[tuple[str, str, tuple[int, int], int]] = []

    async def command(self, execution_id: str, command: Command) -> None:
        if execution_id == "gone":
            raise NotFound("no such execution")
        if self._errors:
            raise self._errors.pop(0)
        assert isinstance(command, Lose)
        self.lost.append((execution_id, command.frame, command.epoch, command.held))


class SlowOwner(Owners):
    """The owner of "a" answers after all other executions."""

    def __init__(self) -> None:
        super().__init__()
        self._others = asyncio.Event()

    async def command(self, execution_id: str, command: Command) -> None:
        if execution_id == "a":
            await self._others.wait()
        else:
            self._others.set()
        await super().command(execution_id, command)


CALL = ("a", "start#1", (3, 2), 2)


def die(folder: Path) -> None:
    assert subprocess.run([sys.executable, "-c", DIE, str(folder)], check=False).returncode == 9


def opened(folder: Path, database: str = DATABASE) -> ServerCalls:
    clock = FakeClock(auto_advance=True, seed=next(_seeds))
    return ServerCalls(database, clock, get_logger("test"), {"XDG_DATA_HOME": str(folder)})


def report(calls: ServerCalls, owners: Owners) -> None:
    async def limited() -> None:
        async with asyncio.timeout(20):
            await calls.report(owners)  # type: ignore[arg-type]  # it sends no other request

    asyncio.run(limited())


def files(folder: Path) -> list[Path]:
    return [path for path in (folder / "noetl").rglob("*") if path.is_file()]


@pytest.mark.parametrize("error", [Unavailable("no owner"), Conflict("another writer"), Fenced("another owner")])
def test_the_next_server_records_the_calls_of_a_dead_one_once(error: Exception, tmp_path: Path) -> None:
    die(tmp_path)
    owners = Owners(error)
    other = opened(tmp_path, f"{DATABASE}2")
    report(other, owners)
    assert owners.lost == [], "it belongs to another deployment"
    mine = opened(tmp_path)
    report(mine, owners)
    report(mine, owners)
    assert owners.lost == [CALL]
    other.close()
    mine.close()
    assert files(tmp_path) == []


def test_a_call_is_kept_until_it_is_recorded(tmp_path: Path) -> None:
    die(tmp_path)
    first = opened(tmp_path)
    first.running.forget("gone")
    first.close()
    owners, second = Owners(), opened(tmp_path)
    report(second, owners)
    assert owners.lost == [CALL]
    second.close()
    assert files(tmp_path) == []


def test_an_execution_whose_owner_does_not_answer_does_not_delay_the_others(tmp_path: Path) -> None:
    die(tmp_path)
    owners, calls = SlowOwner(), opened(tmp_path)
    report(calls, owners)
    assert owners.lost == [CALL]
    calls.close()


@pytest.mark.parametrize("error", [PlaybookError([]), Damaged("a row cannot be read")])
def test_a_call_whose_execution_cannot_be_loaded_is_logged_and_kept_for_the_next_server(
    error: Exception, tmp_path: Path
) -> None:
    die(tmp_path)
    owners, first, lines = Owners(error), opened(tmp_path), StringIO()
    stop = start_logging(lines, "warning", pretty=False)
    try:
        report(first, owners)
    finally:
        stop()
    assert [json.loads(line)["event"] for line in lines.getvalue().splitlines()] == ["calls.not-recorded"]
    first.close()
    second = opened(tmp_path)
    report(second, owners)
    assert owners.lost == [CALL]
    second.close()
    assert files(tmp_path) == []


def test_calls_of_a_live_server_are_not_recorded(tmp_path: Path) -> None:
    owners, running, another = Owners(), opened(tmp_path), opened(tmp_path)
    assert running.running.begin("a", "start#1", (3, 2)) >= 0
    report(another, owners)
    assert owners.lost == []
    running.close()
    another.close()
