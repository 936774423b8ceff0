"""What a disk may hold after the power went: what was synced, and any part of what was not.

A write may be torn between sectors; a new name, a rename or a removal may be missing until its folder is synced.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random  # noqa: TID251  # dice with a seed: the same images each time
from typing import NamedTuple

from tests.hostile.recorded import Entry

SECTOR = 512
SHARES = (0.0, 0.02, 0.5, 0.5, 0.98, 1.0)  # of what was not synced: from nothing of it to all


class _File:
    """`waiting`: writes (where, what) and cuts (to which size, None) that no sync has made sure."""

    def __init__(self) -> None:
        self.sure = bytearray()
        self.waiting: list[tuple[int, bytes | None]] = []

    def sync(self) -> None:
        for place, data in self.waiting:
            _put(self.sure, place, data)
        self.waiting.clear()

    def torn(self, chance: Callable[[], bool]) -> bytes:
        body = bytearray(self.sure)
        for place, data in self.waiting:
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
    """Of the names in a folder, all of it or nothing: what goes, and what comes instead."""

    gone: str | None
    name: str | None
    what: _File | None  # None: a folder


class Disk:
    """Follows a journal, and can be photographed at any moment."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._seen: dict[str, _File | None] = {}  # names as the process sees them
        self._sure: dict[str, _File | None] = {}
        self._waiting: dict[str, list[_Change]] = {}  # by folder

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
                self._file(path).waiting.append((place, data))
            case ("cut", path, size):
                self._file(path).waiting.append((size, None))
            case ("sync", path):
                self._file(path).sync()
            case ("sync folder", path):
                for change in self._waiting.pop(path, ()):
                    _rename(self._sure, change)

    def _file(self, path: str) -> _File:
        file = self._seen[path]
        assert file is not None, f"{path} is a folder"
        return file

    def _change(self, path: str, change: _Change) -> None:
        _rename(self._seen, change)
        self._waiting.setdefault(os.path.dirname(path), []).append(change)

    def photograph(self, folder: Path, dice: Random) -> None:
        """Write what may be left into a folder."""
        share = dice.choice(SHARES)

        def chance() -> bool:
            return dice.random() < share

        names = dict(self._sure)
        for changes in self._waiting.values():
            for change in changes:
                if chance():
                    _rename(names, change)
        for name in sorted(names):
            if any(above not in names for above in self._above(name)):
                continue  # its folder is not there
            target, what = folder / os.path.relpath(name, self._root), names[name]
            if what is None:
                target.mkdir()
            else:
                target.write_bytes(what.torn(chance))

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
    if change.gone is not None:
        names.pop(change.gone, None)
    if change.name is not None:
        names[change.name] = change.what
