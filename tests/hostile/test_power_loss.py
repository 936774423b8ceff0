"""Power loss (test 8): in any remaining state of the disk, all acknowledged facts exist, and their results are complete."""

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
from random import Random  # noqa: TID251  # a seed gives the same images each time
from tempfile import TemporaryDirectory

import pytest

from noetl.adapters.files import FileResults
from noetl.adapters.sqlite.database import open_sqlite
from noetl.adapters.sqlite.store import SqliteStore
from noetl.clock import SystemClock
from noetl.engine.facts import Requested
from noetl.errors import NoetlError
from tests.hostile import disk_recorder
from tests.hostile.disk_images import Disk
from tests.hostile.disk_recorder import Entry

IMAGES = 1_000 if os.environ.get("NOETL_TEST_SIZE") == "night" else 100
ROOT = Path(__file__).parents[2]


@cache
def journal() -> tuple[str, tuple[Entry, ...]]:
    """The folder and the disk operations of a process."""
    with TemporaryDirectory(prefix="noetl-") as folder:
        root, answer = Path(folder, "disk"), Path(folder, "journal")
        root.mkdir()
        subprocess.run(
            [sys.executable, disk_recorder.__file__, str(root), str(answer)],
            check=True,
            timeout=180,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        return str(root), tuple(pickle.loads(answer.read_bytes()))


def disk_images(entries: Iterable[Entry], folder: Path, count: int, seed: int) -> Iterator[tuple[Path, Counter[str]]]:
    """Disk images after power losses at random moments, with the acknowledged facts of each execution."""
    root, random = journal()[0], Random(seed)
    entries = list(entries)
    moments = Counter(random.randrange(len(entries) + 1) for _ in range(count))
    disk, kept = Disk(root), Counter[str]()
    for moment in range(len(entries) + 1):
        for _ in range(moments[moment]):
            image = folder / "image"
            image.mkdir()
            disk.write_image(image, random)
            yield image, kept
            shutil.rmtree(image)
        if moment < len(entries):
            disk.follow(entries[moment])
            if entries[moment][0] == "kept":
                kept[entries[moment][1]] = entries[moment][2]


async def faults(image: Path, kept: Counter[str]) -> list[str]:
    """The faults of a disk image that our store has opened."""
    database = open_sqlite(image / "noetl.db", SystemClock())
    store, results, found = SqliteStore(database), FileResults(image / "results"), list[str]()
    try:
        found += [f"integrity: {row}" for row in database.fetch("PRAGMA integrity_check") if row != ("ok",)]
        for execution_id in (f"e{number}" for number in range(disk_recorder.EXECUTIONS)):
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


def test_the_record_has_all_kinds_of_disk_operations() -> None:
    _, entries = journal()
    done = Counter((entry[0], Path(str(entry[1])).name) for entry in entries)
    assert sum(1 for entry in entries if entry[0] == "kept") == disk_recorder.EXECUTIONS * disk_recorder.APPENDS
    assert done["sync", "noetl.db-wal"] >= disk_recorder.APPENDS  # at least one for each group of appends
    assert done["sync", "noetl.db"] >= 3  # at creation, at a checkpoint, and when it is closed
    assert done["sync folder", "results"] >= 1
    stored = [entry for entry in entries if entry[0] == "renamed" and "/results/" in entry[2]]
    assert len(stored) == disk_recorder.EXECUTIONS * disk_recorder.APPENDS / 4


def test_all_acknowledged_data_is_complete_after_a_power_loss(tmp_path: Path) -> None:
    _, entries = journal()
    acknowledged = 0
    for number, (image, kept) in enumerate(disk_images(entries, tmp_path, IMAGES, seed=8)):
        assert asyncio.run(faults(image, kept)) == [], f"image {number} of seed 8"
        acknowledged += sum(kept.values())
    assert acknowledged > IMAGES * 10, "the images have too few acknowledged facts"


LIES: dict[str, Callable[[Entry], bool]] = {
    "the write-ahead log is never synced": lambda entry: entry[0] == "sync" and entry[1].endswith("-wal"),
    "a result is never synced": lambda entry: entry[0] == "sync" and "/results/" in entry[1],
    "no folder of results is synced": lambda entry: entry[0] == "sync folder" and "/results/" in entry[1],
    "the folder of the results is not synced": lambda entry: (
        entry[0] == "sync folder" and entry[1].endswith("/results")
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_missing_sync_is_detected(lie: str, tmp_path: Path) -> None:
    _, entries = journal()
    honest = [entry for entry in entries if not LIES[lie](entry)]
    assert len(honest) < len(entries)
    for image, kept in disk_images(honest, tmp_path, 100, seed=9):
        if asyncio.run(faults(image, kept)):
            return
    pytest.fail("no loss in 100 images: the test would not detect a missing sync")
