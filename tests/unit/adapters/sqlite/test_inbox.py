"""Commands from elsewhere reach the process that has the execution, and wait for the next one when it dies."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import pytest

from noetl.adapters.sqlite.database import Database
from noetl.adapters.sqlite.ownership import COMMAND_BYTES_MAX, SqliteInbox, SqliteOwnership
from noetl.engine import commands, facts
from noetl.engine.commands import Cancel, Command, Pause, Signal
from noetl.engine.facts import ForTime, FrameParked, TaskDone
from noetl.errors import NotFound, Rejected
from noetl.output import Failure, Output
from tests.unit.adapters.sqlite_files import begun, on_file, opened

AT = datetime(2026, 1, 1, tzinfo=UTC)
TASK = TaskDone(frame="a#1", call=1, task="t", directive="continue", next=-1, output=Output(data={"n": 1}))
EVERY: list[Command] = [
    commands.Start(workload={"a": [1, None]}, error=Failure(kind="x", message="ü")),
    commands.Report(
        frame="a#1",
        position=0,
        facts=(TASK,),
        parked=FrameParked(frame="a#1", call=2, until=ForTime(at=AT)),
        epoch=(3, 4),
        started_at=AT,
    ),
    commands.StartLoop(run="a#1", ref={"type": "blob"}),
    commands.EndLoop(run="a#1", picked={"k": {"is": 1}}),
    commands.Lose(frame="a#1", worker="w", epoch=(1, 2)),
    commands.Decide(decision="a#1!route", digest="d", fact=facts.NextEvaluated(run="a#1", set={"ctx.a": 1})),
    commands.Wake(frame="a#1", output=Output(data="x"), call=2),
    Signal(name="go", data={"deep": [{"er": 1.5}]}, by="me"),
    commands.Expire(run="a#1"),
    commands.Permitted(permit="fetch#1[3]@5.0"),
    commands.Fork(facts=(facts.Paused(by="me"), facts.Resumed())),
    Pause(by="me"),
    commands.Resume(),
    Cancel(reason="enough"),
    commands.Close(),
    commands.Exceed(error=Failure(kind="limit", message="too large")),
    commands.Retry(step="a", from_start=True),
    commands.SetBreakpoint(place="a.b", when="{{ iter.index == 1 }}", once=True, by="me"),
    commands.ClearBreakpoint(place="a.b"),
    commands.Release(at="a#1", step=True),
    commands.Change(at="a#1", set={"ctx.a": 1}),
]


def test_every_kind_of_command_arrives_as_it_was_sent_and_in_order(tmp_path: Path) -> None:
    assert {type(each) for each in EVERY} == set(get_args(Command))

    async def work(database: Database) -> None:
        await begun(database, "e")
        with opened(database.path) as other:
            for command in EVERY:
                await SqliteInbox(other).post("e", command)
        collected = await SqliteInbox(database).collect()
        assert [each.command for each in collected] == EVERY
        assert {each.execution_id for each in collected} == {"e"}

    on_file(tmp_path / "noetl.db", work)


def test_only_the_owner_collects_and_each_command_once(tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        inbox = SqliteInbox(database)
        assert await inbox.collect() == []
        await begun(database, "mine")
        with opened(database.path) as other:
            await begun(other, "theirs")
            await SqliteInbox(other).post("mine", Cancel())
            await SqliteInbox(other).post("theirs", Pause())
            (first,) = await inbox.collect()
            assert (first.execution_id, first.command) == ("mine", Cancel())
            assert await inbox.collect() == []
            await SqliteInbox(other).post("mine", Pause())
            (second,) = await inbox.collect()
            await inbox.done([first.id, second.id])
            assert await inbox.collect() == []
            assert database.fetch("SELECT execution_id FROM inbox") == [("theirs",)]

    on_file(tmp_path / "noetl.db", work)


def test_what_its_owner_did_not_finish_is_the_next_owners(tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        await SqliteOwnership(database).hold("another")
        inbox = SqliteInbox(database)
        with opened(database.path) as first:
            await begun(first, "e")
            await inbox.post("e", Cancel())
            assert len(await SqliteInbox(first).collect()) == 1
            assert await inbox.collect() == []
        await SqliteOwnership(database).hold("e")
        assert [each.command for each in await inbox.collect()] == [Cancel()]

    on_file(tmp_path / "noetl.db", work)


def test_a_command_for_nobody_or_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        await begun(database, "e")
        inbox = SqliteInbox(database)
        with pytest.raises(NotFound, match="no execution missing"):
            await inbox.post("missing", Cancel())
        with pytest.raises(Rejected, match="too-large"):
            await inbox.post("e", Signal(name="go", data="x" * COMMAND_BYTES_MAX))
        assert await inbox.collect() == []

    on_file(tmp_path / "noetl.db", work)


@pytest.mark.parametrize("body", ['{"name": "Levitate", "body": {}}', '{"name": "Signal", "body": {}}', "no json"])
def test_a_command_that_we_can_not_read_stays_and_holds_up_no_other(body: str, tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        await begun(database, "e")
        insert = "INSERT INTO inbox (execution_id, command, at) VALUES ('e', ?, 0)"
        await database.writer.write(lambda cursor: cursor.execute(insert, (body.encode(),)))
        inbox = SqliteInbox(database)
        await inbox.post("e", Cancel())
        assert [each.command for each in await inbox.collect()] == [Cancel()]
        assert database.fetch("SELECT count(*) FROM inbox") == [(2,)]

    on_file(tmp_path / "noetl.db", work)
