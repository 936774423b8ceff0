"""A process that is killed before or after any disk operation loses no confirmed data (P1)."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from noetl.adapters.files import FileResults
from noetl.adapters.sqlite.database import Database
from noetl.adapters.sqlite.ownership import SqliteOwnership
from noetl.adapters.sqlite.store import SqliteStore
from noetl.failpoints import FAILPOINTS
from tests.unit.adapters.sqlite_files import append, begun, child, on_file, opened

OURS = [name for name in FAILPOINTS if name.startswith(("sqlite.", "files."))]
LATER = [
    "sqlite.before-commit:5",
    "sqlite.after-commit:5",
    "sqlite.append.torn:3",
    "files.put.after-rename:2",
]


def crash(path: Path, failpoint: str | None) -> tuple[int, list[list[str]]]:
    """How the process ended, and what it had said before."""
    with child("crasher.py", str(path), failpoint=failpoint) as process:
        said, complaints = process.communicate(timeout=60)
    assert complaints == ""
    return process.returncode, [line.split() for line in said.splitlines()]


async def audit(database: Database, said: list[list[str]]) -> None:
    """Everything that was acknowledged is there, at most one append more, and the file is sound."""
    assert database.fetch("PRAGMA integrity_check") == [("ok",)]
    store = SqliteStore(database)
    for execution_id in ("old", "new"):
        seqs = [row.first_seq for row in await store.read(execution_id)]
        assert seqs == list(range(1, len(seqs) + 1))
        acknowledged = max(
            (int(seq) for word, *rest in said if word == "append" for who, seq in [rest] if who == execution_id),
            default=0,
        )
        assert acknowledged <= len(seqs) <= max(acknowledged, execution_id == "old") + 1
    kept = [int(rest[1]) for word, *rest in said if word == "keep"]
    snapshot = await store.snapshot("new")
    assert (snapshot.seq if snapshot else 0) in {max(kept, default=0), max(kept, default=0) + 2}
    results = FileResults(database.path.parent / "results")
    for word, *rest in said:
        if word == "put":
            ref = {
                "type": "blob",
                "locator": {"key": rest[0]},
                "meta": {"bytes": int(rest[1]), "sha256": rest[0][-64:]},
            }
            assert len(await results.get(ref)) == int(rest[1])


@pytest.mark.parametrize("failpoint", OURS + LATER)
def test_nothing_acknowledged_is_lost_and_the_next_process_goes_on(failpoint: str, tmp_path: Path) -> None:
    path = tmp_path / "noetl.db"

    async def before(database: Database) -> None:
        await begun(database, "old")

    async def after(database: Database) -> None:
        await audit(database, said)
        number = await SqliteOwnership(database).hold("old")
        assert number > max((int(rest[1]) for word, *rest in said if word == "hold"), default=1)
        seq = len(await SqliteStore(database).read("old")) + 1
        assert await SqliteStore(database).append([append("old", seq, number)]) == [None]

    on_file(path, before)
    code, said = crash(path, failpoint)
    assert code == -signal.SIGKILL, "the failpoint was not passed"
    assert ["end"] not in said
    on_file(path, after)


def test_without_a_failpoint_the_same_process_comes_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "noetl.db"

    async def before(database: Database) -> None:
        await begun(database, "old")

    on_file(path, before)
    code, said = crash(path, None)
    assert (code, said[-1]) == (0, ["end"])
    with opened(path) as database:
        asyncio.run(audit(database, said))
