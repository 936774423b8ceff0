"""The calls of a process survive its death in a file, until they are in the log."""

from __future__ import annotations

from pathlib import Path

from noetl.adapters.sqlite.database import Database
from noetl.adapters.sqlite.running_calls import SLOT_BYTES, RunningCalls
from noetl.engine.commands import Lose
from tests.unit.adapters.sqlite_files import begun, on_file


def files(folder: Path) -> list[Path]:
    return sorted((folder / "noetl.db-locks").glob("*.calls"))


def test_the_calls_of_a_dead_process_are_found_once_and_ended_ones_are_not(tmp_path: Path) -> None:
    path = tmp_path / "noetl.db"

    async def die(database: Database) -> None:
        await begun(database, "e")
        await begun(database, "other")
        calls = RunningCalls(database)
        calls.end(calls.begin("e", "done#1", (1, 1)))
        for frame in ("a#1", "b#1[3]"):
            assert calls.begin("e", frame, (1, 2)) >= 0
        assert calls.begin("other", "c#1", (1, 3)) >= 0
        assert calls.begin("e", "x" * SLOT_BYTES, (1, 4)) == -1
        assert RunningCalls(database).lost("e") == [], "its process lives"

    async def read(database: Database) -> None:
        await begun(database, "mine")
        calls = RunningCalls(database)
        found = calls.lost("e")
        assert [(each.frame, each.epoch, each.held) for each in found] == [("a#1", (1, 2), 3), ("b#1[3]", (1, 2), 3)]
        calls.forget("e")
        assert calls.lost("e") == []
        assert [each.frame for each in calls.lost("other")] == ["c#1"]
        calls.forget("other")
        assert files(tmp_path) == []

    on_file(path, die)
    assert len(files(tmp_path)) == 1
    on_file(path, read)


def test_the_file_is_removed_with_its_process_and_damage_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "noetl.db"

    async def work(database: Database) -> None:
        await begun(database, "e")
        calls = RunningCalls(database)
        slot = calls.begin("e", "a#1", (1, 1))
        assert len(files(tmp_path)) == 1
        calls.end(slot)
        assert calls.begin("e", "b#1", (1, 2)) == slot
        calls.close()
        assert files(tmp_path) == []
        damaged = tmp_path / "noetl.db-locks" / "dead.calls"
        damaged.write_bytes(b'["e","a#1"\xff\n'.ljust(SLOT_BYTES, b"\0") + b'["e","b#1",[1,2],7]\n')
        assert calls.lost("e") == [Lose(frame="b#1", worker="process 7", epoch=(1, 2), held=1)]

    on_file(path, work)
