"""Small disks that a test fills and frees, and folders without write permission."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

BLOCK = 65_536


class SmallDisk:
    """A file system of a few megabytes in memory, mounted for one test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def free_bytes(self) -> int:
        found = os.statvfs(self.folder)
        return found.f_bavail * found.f_frsize

    def fill(self, leave: int = 0) -> None:
        """Use all free space except `leave` bytes."""
        with self._ballast.open("wb", buffering=0) as file:
            while (much := self.free_bytes() - leave) > 0:
                file.write(bytes(min(much, BLOCK)))

    def make_space(self) -> None:
        self._ballast.unlink()

    def grow(self, megabytes: int) -> None:
        subprocess.run(["mount", "-o", f"remount,size={megabytes}m", str(self.folder)], check=True)

    def forbid_writing(self) -> None:
        subprocess.run(["mount", "-o", "remount,ro", str(self.folder)], check=True)


@contextmanager
def small_disk(folder: Path, megabytes: int = 8) -> Iterator[SmallDisk]:
    """Skip the test without the permission to mount: a full disk cannot be simulated otherwise."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)],
        capture_output=True, check=False,
    )  # fmt: skip
    if mounted.returncode != 0:
        pytest.skip("a test with a full disk must mount a file system: run the tests as root")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
