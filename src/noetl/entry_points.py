"""The entry points of installed distributions, found without `importlib.metadata`, which takes long to import."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from functools import reduce
from importlib import import_module
from importlib.machinery import PathFinder
from typing import Any

from msgspec import Struct

_INFO = re.compile(r"(?i)([^-]*)(?:-.*)?\.(?:dist|egg)-info")


class InstalledPoint(Struct, frozen=True):
    """One entry point of an installed distribution."""

    name: str
    value: str  # module:attribute
    distribution: str  # its normalized name: noetl_snowflake

    def load(self) -> Any:
        """Import the object."""
        if re.fullmatch(r"[\w.]+(:[\w.]+)?", self.value) is None:  # with extras, or malformed
            from importlib.metadata import EntryPoint

            return EntryPoint(self.name, self.value, "").load()
        module, _, attributes = self.value.partition(":")
        return reduce(getattr, filter(None, attributes.split(".")), import_module(module))


def entry_points(group: str) -> list[InstalledPoint]:
    """The same entry points as `importlib.metadata.entry_points` finds, in the same order."""
    if _all_in_folders():
        return [point for name, folder in _distributions() for point in _declared(name, folder, group)]
    from importlib import metadata

    return [
        InstalledPoint(point.name, point.value, _normalized(point.dist.name) if point.dist is not None else "")
        for point in metadata.entry_points(group=group)
    ]


def _all_in_folders() -> bool:
    """Are all distributions in plain folders: not in an archive or an egg, nor known to an import hook only?"""
    hooks = (finder for finder in sys.meta_path if finder is not PathFinder)
    return not any(hasattr(finder, "find_distributions") for finder in hooks) and not any(
        place.lower().endswith(".egg") or os.path.isfile(place) for place in sys.path
    )


def _distributions() -> Iterator[tuple[str, str]]:
    """The name of each distribution, and the folder with its metadata. The first one with a name counts."""
    seen: set[str] = set()
    for place in sys.path:
        try:
            children = os.listdir(place or ".")
        except OSError:
            continue
        for child in children:
            if (match := _INFO.fullmatch(child)) and (name := _normalized(match[1])) not in seen:
                seen.add(name)
                yield name, os.path.join(place, child)


def _declared(distribution: str, folder: str, group: str) -> Iterator[InstalledPoint]:
    try:
        with open(os.path.join(folder, "entry_points.txt"), encoding="utf-8") as file:
            text = file.read()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError):
        return
    section = None
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            section = line.strip("[]")
        elif section == group and line and not line.startswith("#"):
            name, _, value = line.partition("=")
            yield InstalledPoint(name.strip(), value.strip(), distribution)


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()
