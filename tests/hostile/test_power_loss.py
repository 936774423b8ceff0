"""Power loss (test 8): whatever a disk holds then, all that was acknowledged is there, and what facts name is whole."""

from __future__ import annotations

import asyncio
import os
import pickle
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from random import Random  # noqa: TID251  # dice with a seed: the same images each time
from tempfile import TemporaryDirectory

import pytest

from noetl.adapters.files.results import FileResults
from noetl.adapters.sqlite.database import open_sqlite
from noetl.adapters.sqlite.store import SqliteStore
from noetl.clock import SystemClock
from noetl.engine.facts import Requested
from noetl.errors import NoetlError
from tests.hostile import recorded
from tests.hostile.images import Disk
from tests.hostile.recorded import Entry

IMAGES = 1_000 if os.environ.get("NOETL_TEST_SIZE") == "night" else 100
ROOT = Path(__file__).parents[2]


@cache
def journal() -> tuple[str, tuple[Entry, ...]]:
    """What a process did to its disk, and where."""
    with TemporaryDirectory(prefix="noetl-") as folder:
        root, answer = Path(folder, "disk"), Path(folder, "journal")
        root.mkdir()
        subprocess.run(
            [sys.executable, recorded.__file__, str(root), str(answer)],
            check=True,
            timeout=60,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        return str(root), tuple(pickle.loads(answer.read_bytes()))


def photographs(
    entries: Iterable[Entry], folder: Path, count: int, seed: int
) -> Iterator[tuple[Path, Counter[str]]]:
    """Disks after a power loss at so many moments; and how many facts of each execution were kept by then."""
    root, dice = journal()[0], Random(seed)
    entries = list(entries)
    moments = Counter(dice.randrange(len(entries) + 1) for _ in range(count))
    disk, kept = Disk(root), Counter[str]()
    for moment in range(len(entries) + 1):
        for _ in range(moments[moment]):
            image = folder / "image"
            image.mkdir()
            disk.photograph(image, dice)
            yield image, kept
            shutil.rmtree(image)
        if moment < len(entries):
            disk.follow(entries[moment])
            if entries[moment][0] == "kept":
                kept[entries[moment][1]] = entries[moment][2]


async def faults(image: Path, kept: Counter[str]) -> list[str]:
    """What is wrong with a disk, once our own store has opened it."""
    database = open_sqlite(image / "noetl.db", SystemClock())
    store, results, found = SqliteStore(database), FileResults(image / "results"), list[str]()
    try:
        found += [f"integrity: {row}" for row in database.fetch("PRAGMA integrity_check") if row != ("ok",)]
        for execution_id in (f"e{number}" for number in range(recorded.EXECUTIONS)):
            rows = await store.read(execution_id)
            seqs = [row.first_seq for row in rows]
            if seqs != list(range(1, len(seqs) + 1)) or len(seqs) < kept[execution_id]:
                found.append(f"{execution_id}: {len(seqs)} facts, {kept[execution_id]} were acknowledged")
            for fact in (fact for row in rows for fact in row.facts if isinstance(fact, Requested)):
                try:
                    body = await results.get(fact.workload["ref"])
                except NoetlError as error:
                    found.append(f"{execution_id}: {error}")
                else:
                    if body.decode() != fact.workload["filler"]:
                        found.append(f"{execution_id}: another body")
    finally:
        database.close()
    return found


def test_what_was_recorded_holds_all_that_a_disk_is_asked_for() -> None:
    _, entries = journal()
    done = Counter((entry[0], Path(str(entry[1])).name) for entry in entries)
    assert sum(1 for entry in entries if entry[0] == "kept") == recorded.EXECUTIONS * recorded.APPENDS
    assert done["sync", "noetl.db-wal"] >= recorded.APPENDS  # one for each group of appends, at the least
    assert done["sync", "noetl.db"] >= 3  # made, a checkpoint on the way, closed
    assert done["sync folder", "results"] >= 1
    renamed = [entry for entry in entries if entry[0] == "renamed"]
    assert len(renamed) == recorded.EXECUTIONS * recorded.APPENDS / 4


def test_after_a_power_loss_everything_acknowledged_is_there_and_whole(tmp_path: Path) -> None:
    _, entries = journal()
    acknowledged = 0
    for number, (image, kept) in enumerate(photographs(entries, tmp_path, IMAGES, seed=8)):
        assert asyncio.run(faults(image, kept)) == [], f"image {number} of seed 8"
        acknowledged += sum(kept.values())
    assert acknowledged > IMAGES * 10, "there was something to lose"


LIES: dict[str, Callable[[Entry], bool]] = {
    "the write-ahead log is never synced": lambda entry: entry[0] == "sync" and entry[1].endswith("-wal"),
    "a result is never synced": lambda entry: entry[0] == "sync" and "/results/" in entry[1],
    "no folder of results is synced": lambda entry: entry[0] == "sync folder" and "/results/" in entry[1],
    "the folder of the results is not synced": lambda entry: (
        entry[0] == "sync folder" and entry[1].endswith("/results")
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_disk_on_which_a_sync_is_missing_is_found_out(lie: str, tmp_path: Path) -> None:
    _, entries = journal()
    honest = [entry for entry in entries if not LIES[lie](entry)]
    assert len(honest) < len(entries)
    for image, kept in photographs(honest, tmp_path, 100, seed=9):
        if asyncio.run(faults(image, kept)):
            return
    pytest.fail("nothing was lost in 100 images: these tests would find nothing")
