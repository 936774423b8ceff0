"""A lock file says whether its process lives, to any number of those who ask."""

from __future__ import annotations

import os
from fcntl import LOCK_NB, LOCK_SH, flock
from pathlib import Path
from threading import Event, Thread

import pytest

from noetl.adapters.process_locks import LockFile, is_alive, lock_files
from noetl.errors import Unavailable


def test_a_lock_file_lives_until_it_is_closed_and_leaves_nothing_behind(tmp_path: Path) -> None:
    lock = LockFile(tmp_path / "locks", "a.lock")
    assert is_alive(tmp_path / "locks", "a.lock")
    lock.close()
    assert not is_alive(tmp_path / "locks", "a.lock")
    assert list((tmp_path / "locks").iterdir()) == []


def test_two_who_ask_at_once_do_not_take_each_other_for_the_owner(tmp_path: Path) -> None:
    (tmp_path / "dead.lock").touch()
    asking = os.open(tmp_path / "dead.lock", os.O_RDWR)
    flock(asking, LOCK_SH | LOCK_NB)
    assert not is_alive(tmp_path, "dead.lock")
    os.close(asking)


def test_a_name_that_was_used_is_not_taken_again(tmp_path: Path) -> None:
    (tmp_path / "a.lock").touch()
    with pytest.raises(Unavailable, match="cannot be created"):
        LockFile(tmp_path, "a.lock")


def test_what_can_not_be_looked_at_is_not_taken_for_dead(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").touch()
    (tmp_path / "a.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Unavailable, match="cannot be read"):
        is_alive(tmp_path, "a.lock")


def test_no_process_sees_a_lock_file_before_it_is_locked(tmp_path: Path) -> None:
    created, dead = Event(), set[str]()

    def look() -> None:
        while not created.is_set():
            dead.update(name for name in lock_files(tmp_path)[-1:] if not is_alive(tmp_path, name))

    looking = Thread(target=look)
    looking.start()
    try:
        locks = [LockFile(tmp_path, f"{number:03}.lock") for number in range(300)]
    finally:
        created.set()
        looking.join()
    assert dead == set()
    for lock in locks:
        lock.close()
    assert list(tmp_path.iterdir()) == []
