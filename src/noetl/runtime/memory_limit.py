"""The memory that this process may use: the limit of its control group, or else the memory of the machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from noetl.defaults import STATE_BYTES, STATE_MEMORY_SHARE

ROOT: Final = Path("/")
CGROUP: Final = "sys/fs/cgroup"
LIMIT_V1: Final = "memory.limit_in_bytes"
LIMIT_V2: Final = "memory.max"


def default_state_bytes(root: Path = ROOT) -> int:
    """The default of NOETL_STATE_BYTES. `root`: the folder that contains `proc` and `sys`."""
    memory = available_memory(root)
    return STATE_BYTES if memory is None else min(STATE_BYTES, memory // STATE_MEMORY_SHARE)


def available_memory(root: Path = ROOT) -> int | None:
    """In bytes; None: the system does not say it in files, as Linux does."""
    return min((*_cgroup_limits(root), *_physical(root)), default=None)


def _cgroup_limits(root: Path) -> Iterator[int]:
    """The limits of the group of this process and of all groups that contain it; version 1 and 2 may be mixed."""
    for line in _lines(root / "proc/self/cgroup"):
        number, controllers, group = line.split(":", 2)
        if number == "0":
            yield from _limits_of(root / CGROUP, group, LIMIT_V2)
            yield from _limits_of(root / CGROUP / "unified", group, LIMIT_V2)
        elif "memory" in controllers.split(","):
            yield from _limits_of(root / CGROUP / "memory", group, LIMIT_V1)


def _limits_of(mount: Path, group: str, name: str) -> Iterator[int]:
    """A container may see its own group as the root, under a path that it does not have: the root always counts."""
    parts = [part for part in group.split("/") if part and part != ".."]
    for length in range(len(parts) + 1):
        with suppress(OSError, ValueError):  # no such group here, or "max": no limit
            yield int((mount.joinpath(*parts[:length]) / name).read_text())


def _physical(root: Path) -> Iterator[int]:
    for line in _lines(root / "proc/meminfo"):
        if line.startswith("MemTotal:"):
            yield int(line.split()[1]) * 1024


def _lines(path: Path) -> list[str]:
    with suppress(OSError):
        return path.read_text().splitlines()
    return []
