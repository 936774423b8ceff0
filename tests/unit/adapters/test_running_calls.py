"""The calls of a process survive its death in a file, until they are in the log."""

from __future__ import annotations

import resource
import signal
from pathlib import Path

from noetl.adapters.running_calls import GROWTH_SLOTS, SLOT_BYTES
from noetl.adapters.sqlite.database import Database, running_calls_of
from noetl.engine.commands import Lose
from tests.unit.adapters.sqlite_files import begun, on_file


def files(folder: Path) -> list[Path]:
    return sorted((folder / "noetl.db-locks").glob("*.calls"))


def test_the_calls_of_a_dead_process_are_found_once_and_ended_ones_are_not(tmp_path: Path) -> None:
    path = tmp_path / "noetl.db"

    async def die(database: Database) -> None:
        await begun(database, "e")
        await begun(database, "other")
        calls = running_calls_of(database)
        calls.end(calls.begin("e", "done#1", (1, 1)))
        for frame in ("a#1", "b#1[3]"):
            assert calls.begin("e", frame, (1, 2)) >= 0
        assert calls.begin("other", "c#1", (1, 3)) >= 0
        assert calls.begin("e", "x" * SLOT_BYTES, (1, 4)) == -1
        assert running_calls_of(database).lost("e") == [], "its process lives"

    async def read(database: Database) -> None:
        await begun(database, "mine")
        calls = running_calls_of(database)
        found = calls.lost("e")
        assert [(each.frame, each.epoch, each.held) for each in found] == [("a#1", (1, 2), 3), ("b#1[3]", (1, 2), 3)]
        calls.forget("e")
        assert calls.lost("e") == []
        assert [(each.frame, each.held) for each in calls.lost("other")] == [("c#1", 3)], "they ran at the same time"
        calls.forget("other")
        assert files(tmp_path) == []

    on_file(path, die)
    assert len(files(tmp_path)) == 1
    on_file(path, read)


def test_the_file_is_removed_with_its_process_and_damage_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "noetl.db"

    async def work(database: Database) -> None:
        await begun(database, "e")
        calls = running_calls_of(database)
        slot = calls.begin("e", "a#1", (1, 1))
        assert len(files(tmp_path)) == 1
        calls.end(slot)
        assert calls.begin("e", "b#1", (1, 2)) == slot
        calls.close()
        assert files(tmp_path) == []
        damaged = tmp_path / "noetl.db-locks" / "dead.calls"
        damaged.write_bytes(b'["e","a#1"\xff\n'.ljust(SLOT_BYTES, b"\0") + b'["e","b#1",[1,2],7]\n')
        assert calls.lost("e") == [Lose(frame="b#1", worker="process 7", epoch=(1, 2), held=2)]

    on_file(path, work)


def test_more_calls_than_slots_are_all_found(tmp_path: Path) -> None:
    path, frames = tmp_path / "noetl.db", [f"a#1[{index}]" for index in range(2 * GROWTH_SLOTS + 1)]

    async def die(database: Database) -> None:
        await begun(database, "e")
        calls = running_calls_of(database)
        for frame in frames:
            assert calls.begin("e", frame, (1, 1)) >= 0

    async def read(database: Database) -> None:
        assert [each.frame for each in running_calls_of(database).lost("e")] == frames

    on_file(path, die)
    on_file(path, read)


def test_without_space_for_the_file_a_call_runs_without_an_entry(tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        calls = running_calls_of(database)
        slots = [calls.begin("e", "a#1", (1, 1)) for _ in range(GROWTH_SLOTS)]
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (GROWTH_SLOTS * SLOT_BYTES + 1, limits[1]))
        try:
            assert calls.begin("e", "b#1", (1, 1)) == -1
            calls.end(-1)
            calls.end(slots[3])
            assert calls.begin("e", "c#1", (1, 1)) == slots[3]
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            signal.signal(signal.SIGXFSZ, ignored)

    on_file(tmp_path / "noetl.db", work)
