"""Which results a log speaks of: whatever looks like a name counts, so that none is lost that is meant."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from noetl.output import JSON
from noetl.ports import LogRow
from noetl.views.outputs import refs_in
from noetl.worker.result_policy import seconds_of

_NAME: Final = re.compile(rb"[0-9a-zA-Z-]{1,64}/[0-9a-f]{64}")
NAME_CHARS_MAX: Final = 129
_encode = msgspec.json.Encoder().encode


class Mentioned:
    """The names in one log, and how long what they name is to live."""

    def __init__(self, rows: Iterable[LogRow]) -> None:
        self.refs: dict[str, dict[str, JSON]] = {}  # to what is packed: a bare name is not enough to read it
        self._lives: dict[str, float | None] = {}  # seconds; None: as long as the execution is on record
        for row in rows:
            self._read(_encode(row.facts))

    def __contains__(self, key: str) -> bool:
        return key in self._lives

    def life_s(self, key: str) -> float | None:
        """The longest that is said anywhere; None: for ever."""
        return self._lives[key]

    def _read(self, body: bytes) -> None:
        found = names_in(body)
        marked: dict[str, float | None] = {}
        if b'"ttl":' in body or b'"encoding":' in body:
            for ref in refs_in(msgspec.json.decode(body)):
                key, meta = ref["locator"]["key"], ref["meta"]
                if "encoding" in meta:
                    self.refs[key] = ref
                marked[key] = _longer(marked, key, seconds_of(meta.get("ttl")))
        for key in found:
            self._lives[key] = _longer(self._lives, key, marked.get(key))


def _longer(lives: dict[str, float | None], key: str, length: float | None) -> float | None:
    if key not in lives:
        return length
    before = lives[key]
    return None if before is None or length is None else max(before, length)


def names_in(body: bytes) -> set[str]:
    return {name.decode() for name in _NAME.findall(body)}
