"""A small, strict part of JSONPath: `$.a.b[0]['k'][*].x`. No filters, no functions, no search."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, TypeAlias

from noetl.output import JSON

PATH_CHARS_MAX = 4_096
Step: TypeAlias = str | int | None  # a key, a place, or None for every item
EVERY: Final = None

_STEP = re.compile(
    r"""
      \.(?P<name>[^\W\d][\w-]*)           # .name
    | \.\*                                # .*
    | \[\s*(?P<place>-?\d{1,18})\s*\]     # [0], [-1]
    | \[\s*\*\s*\]                        # [*]
    | \[\s*'(?P<single>(?:[^'\\]|\\.)*)'\s*\]
    | \[\s*"(?P<double>(?:[^"\\]|\\.)*)"\s*\]
    """,
    re.VERBOSE,
)


class PathError(Exception):
    """The path is wrong, or leads nowhere; the message is for the author."""


@lru_cache(maxsize=256)
def parse(path: str) -> tuple[Step, ...]:
    """Raises PathError."""
    if len(path) > PATH_CHARS_MAX:
        raise PathError(f"the path has {len(path):,} characters (limit PATH_CHARS_MAX: {PATH_CHARS_MAX:,})")
    if not path.startswith("$"):
        raise PathError(f'path "{path}" must begin with "$", as in "$.rows[0].id"')
    steps: list[Step] = []
    position = 1
    while position < len(path):
        found = _STEP.match(path, position)
        if found is None:
            raise PathError(_misread(path, position))
        steps.append(_step(found))
        position = found.end()
    return tuple(steps)


def _step(found: re.Match[str]) -> Step:
    match found.lastgroup:
        case "name":
            return found["name"]
        case "place":
            return int(found["place"])
        case "single" | "double":
            return re.sub(r"\\(.)", r"\1", found[found.lastgroup])
        case _:
            return EVERY


def _misread(path: str, position: int) -> str:
    rest = path[position:]
    where = f'path "{path}", character {position + 1}'
    if rest.startswith(".."):
        return f"{where}: '..' is not supported; name every part on the way"
    if rest.startswith("[?"):
        return f"{where}: filters are not supported; resolve the rows and filter them in a template"
    if rest.startswith("[") and ":" in rest.partition("]")[0]:
        return f"{where}: a slice stands in the field `slice`"
    return f"{where}: expected .name, ['name'], [0] or [*], not \"{rest[:20]}\""


def find(path: str, value: JSON) -> JSON:
    """What the path leads to; with a `*` in it the list of all that it leads to. Raises PathError."""
    steps = parse(path)
    if EVERY not in steps:
        for place, step in enumerate(steps):
            if not _has(value, step):
                raise PathError(_missing(path, steps[:place], step, value))
            value = value[step]
        return value
    found = [value]
    for step in steps:
        if step is EVERY:
            found = [inner for each in found for inner in _items(each)]
        else:
            found = [each[step] for each in found if _has(each, step)]
    return found


def _has(value: JSON, step: Step) -> bool:
    if isinstance(step, str):
        return isinstance(value, dict) and step in value
    return isinstance(value, list) and step is not None and -len(value) <= step < len(value)


def _items(value: JSON) -> list[JSON]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _missing(path: str, before: tuple[Step, ...], step: Step, value: JSON) -> str:
    where = "$" + "".join(f"[{each!r}]" for each in before)
    if isinstance(value, dict):
        known = ", ".join(list(value)[:8]) or "nothing"
        return f'path "{path}": {where} has no {step!r}; it has {known}'
    if isinstance(value, list):
        return f'path "{path}": {where} is a list of {len(value):,}, without {step!r}'
    return f'path "{path}": {where} is neither a list nor a mapping, and has no {step!r}'
