"""What lies in the folder of results, and how it goes: whatever is not ours there is left alone."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from stat import S_ISREG
from typing import Final

from noetl.adapters.files.durable import FOLDER
from noetl.ports import StoredResult

_EXECUTION: Final = re.compile(r"[0-9a-zA-Z-]{1,64}")
_FILE: Final = re.compile(r"[0-9a-f]{64}|\.(?:[0-9a-f]{64}|stream)\.\d{1,20}\.\d{1,20}")


def listed(root: Path) -> list[str]:
    """The executions that have a folder, sorted; raises nothing: without a root there are none."""
    try:
        with os.scandir(root) as found:
            return sorted(
                each.name
                for each in found
                if _EXECUTION.fullmatch(each.name) and each.is_dir(follow_symlinks=False)
            )
    except OSError:
        return []


def kept_in(root: Path, execution_id: str) -> list[StoredResult]:
    try:
        return list(_kept(root / execution_id, execution_id))
    except OSError:
        return []  # someone else has just cleared it


def _kept(folder: Path, execution_id: str) -> Iterator[StoredResult]:
    with os.scandir(folder) as found:
        for each in found:
            known = each.stat(follow_symlinks=False)
            if _FILE.fullmatch(each.name) and S_ISREG(known.st_mode):
                at = datetime.fromtimestamp(known.st_mtime, UTC)
                yield StoredResult(
                    f"{execution_id}/{each.name}", known.st_size, at, each.name.startswith(".")
                )


def drop_file(root: Path, key: str) -> None:
    """Also the folder, when it was the last one in it. Raises OSError."""
    execution_id, _, name = key.partition("/")
    if not _EXECUTION.fullmatch(execution_id) or not _FILE.fullmatch(name):
        return
    with suppress(FileNotFoundError, NotADirectoryError):  # a link is not followed, nor taken away
        top = os.open(root, FOLDER)
        try:
            folder = os.open(execution_id, FOLDER | os.O_NOFOLLOW, dir_fd=top)
            try:
                os.unlink(name, dir_fd=folder)
            finally:
                os.close(folder)
            with suppress(OSError):  # there is more in it
                os.rmdir(execution_id, dir_fd=top)
        finally:
            os.close(top)
