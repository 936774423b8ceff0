"""Answers of a bounded size: what is cut is named, with the way to get the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from noetl.output import JSON

ANSWER_CHARS_MAX: Final = 40_000  # of the JSON of an answer, about 10,000 tokens
CUTS_SHOWN_MAX: Final = 20
DEPTH_MAX: Final = 64
# Characters of a text and items of a list, until the answer fits.
_SIZES: Final = ((4_000, 100), (1_000, 40), (300, 15), (100, 5), (60, 2), (40, 1), (20, 0))


class CutPart(NamedTuple):
    """A part of an answer that is not complete."""

    pointer: str  # where it is, as a JSON pointer
    shown: int  # characters of a text, items of a list, keys of a mapping
    total: int


def bounded(answer: Mapping[str, JSON], rest: str) -> dict[str, JSON]:
    """The answer; or one that is cut, with `cut: {parts, rest}`. `rest`: how to get what is missing."""
    whole = dict(answer)
    if _size(whole) <= ANSWER_CHARS_MAX:
        return whole
    for text, items in _SIZES:
        cuts: list[CutPart] = []
        shown = _cut(whole, "", text, items, cuts)
        parts = [each._asdict() for each in cuts[:CUTS_SHOWN_MAX]]
        shown["cut"] = {"parts": parts, "more_parts": max(0, len(cuts) - CUTS_SHOWN_MAX), "rest": rest}
        if _size(shown) <= ANSWER_CHARS_MAX:
            break
    return dict(shown)


def _size(value: JSON) -> int:
    return len(msgspec.json.encode(value))


def _cut(value: JSON, pointer: str, text: int, items: int, cuts: list[CutPart]) -> JSON:
    match value:
        case str() if len(value) > text:
            cuts.append(CutPart(pointer, text, len(value)))
            return f"{value[:text]}…"
        case list():
            if len(value) > items:
                cuts.append(CutPart(pointer, items, len(value)))
            return [_cut(each, f"{pointer}/{place}", text, items, cuts) for place, each in enumerate(value[:items])]
        case dict():
            # The keys of an answer itself are few, and all of them are needed.
            keys = list(value) if not pointer else list(value)[: max(items, 2)]
            if len(keys) < len(value):
                cuts.append(CutPart(pointer, len(keys), len(value)))
            return {key: _cut(value[key], f"{pointer}/{_escaped(key)}", text, items, cuts) for key in keys}
    return value


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def at_pointer(value: JSON, pointer: str) -> JSON:
    """The part of a value that a JSON pointer names. Raises LookupError."""
    if pointer in ("", "/"):
        return value
    for part in pointer.removeprefix("/").split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        match value:
            case dict() if name in value:
                value = value[name]
            case list() if name.isdecimal() and int(name) < len(value):
                value = value[int(name)]
            case _:
                raise LookupError(name)
    return value


def page(value: JSON, offset: int, limit: int) -> tuple[JSON, int | None]:
    """A part of a text, of a list or of the keys of a mapping; and its whole size. None: it has no parts."""
    match value:
        case str() | list():
            return value[offset : offset + limit], len(value)
        case dict():
            return dict(list(value.items())[offset : offset + limit]), len(value)
    return value, None
