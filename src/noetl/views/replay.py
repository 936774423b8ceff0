"""Verify that a state equals the fold of its log: compare two states, or encode a state for a hash."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TypeAlias

import msgspec
from msgspec import UNSET, Struct

from noetl.engine import Event
from noetl.engine.state import State
from noetl.escape import shorten
from noetl.output import JSON
from noetl.views.log import folded, instant
from noetl.views.stored_runs import RunFields

DIFFERENCES_MAX = 100  # enough for a person
VALUE_CHARS_MAX = 200
_NOTHING = object()  # represents a key that only one of the two has
_Part: TypeAlias = tuple[str, object]  # the path to a value, and the value


class ReplayDifference(Struct, frozen=True, kw_only=True):
    """A difference between two states."""

    path: str  # 'runs["fetch#2"].loop.succeeded'
    folded: str  # the value according to the log, as short JSON; "": there is none
    other: str


def replayed(execution_id: str, events: Iterable[Event], other: State) -> list[ReplayDifference]:
    """Fold the log up to the seq of the other state, and compare."""
    return differences(folded(execution_id, events, up_to=other.seq), other)


def differences(one: State | RunFields, other: State | RunFields) -> list[ReplayDifference]:
    """Differences of two states or records, including the order of entries. An empty list: they are equal."""
    comparing = _Comparing()
    comparing.compare(one, other)
    return comparing.found


def canonical(state: State) -> bytes:
    """Bytes that are equal for equal states, independent of the order of insertion in mappings."""
    return msgspec.json.encode(_plain(state), order="sorted")


def _plain(value: object) -> JSON:
    match value:
        case Struct():
            return {name: _plain(each) for name, each in _fields(value) if each is not UNSET}
        case dict():
            return {_key(key): _plain(each) for key, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
    return value


def _key(key: object) -> str:
    return "" if key is None else str(key)  # The frame of a run without a loop has no index.


def _fields(value: Struct) -> list[tuple[str, object]]:
    return [(name, getattr(value, name)) for name in value.__struct_fields__]


class _Comparing:
    """Parts of a state share large values such as ctx: each pair of values is compared once."""

    def __init__(self) -> None:
        self.found: list[ReplayDifference] = []
        self._path: list[_Part] = []
        self._known: set[tuple[int, int]] = set()

    def compare(self, one: object, other: object) -> None:
        if one is other or len(self.found) >= DIFFERENCES_MAX:
            return
        if isinstance(one, Struct | dict | list | tuple):
            if (id(one), id(other)) in self._known:
                return
            self._known.add((id(one), id(other)))
        match one, other:
            case Struct(), Struct() if type(one) is type(other):
                for (name, mine), (_, theirs) in zip(_fields(one), _fields(other), strict=True):
                    self._below((".", name), mine, theirs)
            case dict(), dict():
                self._compare_maps(one, other)
            case ((list() | tuple()), (list() | tuple())):
                for place in range(max(len(one), len(other))):
                    mine = one[place] if place < len(one) else _NOTHING
                    theirs = other[place] if place < len(other) else _NOTHING
                    self._below(("[", place), mine, theirs)
            case _ if type(one) is not type(other) or one != other:
                self._differ(_told(one), _told(other))

    def _compare_maps(self, one: dict[object, object], other: dict[object, object]) -> None:
        for key in dict.fromkeys((*one, *other)):
            self._below(("[", key), one.get(key, _NOTHING), other.get(key, _NOTHING))
        if one.keys() == other.keys() and list(one) != list(other):
            self._below(("", " (order)"), list(map(_key, one)), list(map(_key, other)), whole=True)

    def _below(self, part: _Part, one: object, other: object, *, whole: bool = False) -> None:
        self._path.append(part)
        if whole:
            self._differ(_told(one), _told(other))
        else:
            self.compare(one, other)
        self._path.pop()

    def _differ(self, one: str, other: str) -> None:
        self.found.append(ReplayDifference(path=_path_text(self._path), folded=one, other=other))


def _path_text(path: list[_Part]) -> str:
    text = ""
    for how, name in path:
        if how == "[":
            text += f"[{msgspec.json.encode(name).decode()}]"
        else:
            text += f"{how}{name}"
    return text.removeprefix(".")


def _told(value: object) -> str:
    if value is _NOTHING:
        return ""
    if isinstance(value, datetime):
        return f'"{instant(value)}"'
    return shorten(msgspec.json.encode(_plain(value)).decode(), VALUE_CHARS_MAX)
