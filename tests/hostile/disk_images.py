"""The possible states of a disk after a power loss: all synced data, and any part of the other data.

A write may be torn between sectors; a new name, a rename or a removal may be missing until its folder is synced.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random  # noqa: TID251  # a seed gives the same images each time
from typing import NamedTuple

from tests.hostile.disk_recorder import Entry

SECTOR = 512
SHARES = (0.0, 0.02, 0.5, 0.5, 0.98, 1.0)  # fractions of the unsynced data that survive


class _File:
    """`unsynced`: writes (offset, data) and truncations (size, None) since the last sync."""

    def __init__(self) -> None:
        self.synced = bytearray()
        self.unsynced: list[tuple[int, bytes | None]] = []

    def sync(self) -> None:
        for place, data in self.unsynced:
            _put(self.synced, place, data)
        self.unsynced.clear()

    def torn(self, chance: Callable[[], bool]) -> bytes:
        body = bytearray(self.synced)
        for place, data in self.unsynced:
            if data is None:
                if chance():
                    _put(body, place, None)
                continue
            start = 0
            while start < len(data):
                end = min(len(data), start + SECTOR - (place + start) % SECTOR)
                if chance():
                    _put(body, place + start, data[start:end])
                start = end
        return bytes(body)


class _Change(NamedTuple):
    """An atomic change of the names in a folder: the removed name and the new one."""

    removed: str | None
    name: str | None
    file: _File | None  # None: a folder


class Disk:
    """Applies the entries of a journal, and writes an image of the disk at any moment."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._seen: dict[str, _File | None] = {}  # names as the process sees them
        self._synced: dict[str, _File | None] = {}
        self._unsynced: dict[str, list[_Change]] = {}  # by folder

    def follow(self, entry: Entry) -> None:
        match entry:
            case ("made", path):
                if path not in self._seen:
                    self._change(path, _Change(None, path, _File()))
            case ("folder", path):
                self._change(path, _Change(None, path, None))
            case ("renamed", old, new):
                self._change(new, _Change(old, new, self._file(old)))
            case ("gone", path):
                self._change(path, _Change(path, None, None))
            case ("write", path, place, data):
                self._file(path).unsynced.append((place, data))
            case ("cut", path, size):
                self._file(path).unsynced.append((size, None))
            case ("sync", path):
                self._file(path).sync()
            case ("sync folder", path):
                for change in self._unsynced.pop(path, ()):
                    _rename(self._synced, change)

    def _file(self, path: str) -> _File:
        file = self._seen[path]
        assert file is not None, f"{path} is a folder"
        return file

    def _change(self, path: str, change: _Change) -> None:
        _rename(self._seen, change)
        self._unsynced.setdefault(os.path.dirname(path), []).append(change)

    def write_image(self, folder: Path, random: Random) -> None:
        """Write a possible state of the disk into a folder."""
        share = random.choice(SHARES)

        def chance() -> bool:
            return random.random() < share

        names = dict(self._synced)
        for changes in self._unsynced.values():
            for change in changes:
                if chance():
                    _rename(names, change)
        for name in sorted(names):
            if any(above not in names for above in self._above(name)):
                continue  # its folder does not exist
            target, file = folder / os.path.relpath(name, self._root), names[name]
            if file is None:
                target.mkdir()
            else:
                target.write_bytes(file.torn(chance))

    def _above(self, name: str) -> Iterator[str]:
        while (name := os.path.dirname(name)) != self._root:
            yield name


def _put(body: bytearray, place: int, data: bytes | None) -> None:
    if len(body) < place:
        body.extend(bytes(place - len(body)))
    if data is None:
        del body[place:]
    else:
        body[place : place + len(data)] = data


def _rename(names: dict[str, _File | None], change: _Change) -> None:
    if change.removed is not None:
        names.pop(change.removed, None)
    if change.name is not None:
        names[change.name] = change.file
