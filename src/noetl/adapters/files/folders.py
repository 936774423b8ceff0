"""Folders that are still there after a power loss: each new name is synced in the folder above it."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def make_folder(path: Path, mode: int = 0o777) -> None:
    """The folder, and those above it that are missing; `mode` is for the last one. Raises OSError."""
    missing = []
    for each in (path, *path.parents):
        if each.is_dir():
            break
        missing.append(each)
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
    except FileExistsError as error:  # and it is no folder: that is what people should read
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from error
    for each in reversed(missing):
        sync_folder(each.parent)


def sync_folder(path: Path) -> None:
    descriptor = os.open(path, FOLDER)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
