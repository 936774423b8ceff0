"""Connections: what opening a file must not do, and instants as the tables hold them."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from noetl.adapters.sqlite.connection import instant, micros
from noetl.adapters.sqlite.database import Database
from tests.unit.adapters.sqlite_files import begun, on_file, opened

# Where SQLite's readers lock a file: 510 bytes after its pending and its reserved byte. Exit 0: they do.
LOCKED = """
import fcntl, sys
try:
    fcntl.lockf(open(sys.argv[1], "rb+"), fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000000 + 2)
except BlockingIOError:
    sys.exit(0)
sys.exit(1)
"""


def test_opening_a_file_a_second_time_keeps_the_locks_of_the_first(tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        await begun(database, "e")
        with opened(database.path):
            pass
        # Another process must see that the file is in use, or it may take the write-ahead log away.
        asked = subprocess.run([sys.executable, "-c", LOCKED, database.name], timeout=60)
        assert asked.returncode == 0

    on_file(tmp_path / "noetl.db", work)


@pytest.mark.parametrize(
    "at",
    [
        datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(2026, 1, 2, 3, 4, 5, 1, tzinfo=timezone(timedelta(hours=5, minutes=30))),
    ],
)
def test_an_instant_comes_back_as_it_was_and_in_utc(at: datetime) -> None:
    assert instant(micros(at)) == at
    assert instant(micros(at)).utcoffset() == timedelta(0)
