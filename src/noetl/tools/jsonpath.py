"""A small, strict subset of JSONPath: `$.a.b[0]['k'][*].x`. It has no filters, functions or search."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, TypeAlias

from noetl.output import JSON
from noetl.tools.errors import InvalidInput

PATH_CHARS_MAX = 4_096
PathStep: TypeAlias = str | int | None  # a key, an index, or None for all items
ALL_ITEMS: Final = None

_STEP = re.compile(
    r"""
      \.(?P<name>[^\W\d][\w-]*)           # .name
    | \.\*                                # .*
    | \[\s*(?P<index>-?\d{1,18})\s*\]     # [0], [-1]
    | \[\s*\*\s*\]                        # [*]
    | \[\s*'(?P<single>(?:[^'\\]|\\.)*)'\s*\]
    | \[\s*"(?P<double>(?:[^"\\]|\\.)*)"\s*\]
    """,
    re.VERBOSE,
)


@lru_cache(maxsize=256)
def parse(path: str) -> tuple[PathStep, ...]:
    """Raises InvalidInput."""
    if len(path) > PATH_CHARS_MAX:
        raise InvalidInput(f"path has {len(path):,} characters (limit PATH_CHARS_MAX: {PATH_CHARS_MAX:,})")
    if not path.startswith("$"):
        raise InvalidInput(f'path "{path}" must begin with "$", as in "$.rows[0].id"')
    steps: list[PathStep] = []
    position = 1
    while position < len(path):
        token = _STEP.match(path, position)
        if token is None:
            raise InvalidInput(_syntax_error(path, position))
        steps.append(_step(token))
        position = token.end()
    return tuple(steps)


def _step(token: re.Match[str]) -> PathStep:
    match token.lastgroup:
        case "name":
            return token["name"]
        case "index":
            return int(token["index"])
        case "single" | "double":
            return re.sub(r"\\(.)", r"\1", token[token.lastgroup])
        case _:
            return ALL_ITEMS


def _syntax_error(path: str, position: int) -> str:
    rest = path[position:]
    where = f'path "{path}", character {position + 1}'
    if rest.startswith(".."):
        return f"{where}: '..' is not supported; write every key of the path"
    if rest.startswith("[?"):
        return f"{where}: filters are not supported; resolve the rows and filter them in a template"
    if rest.startswith("[") and ":" in rest.partition("]")[0]:
        return f"{where}: slices are not supported here; use the field `slice`"
    return f"{where}: expected .name, ['name'], [0] or [*], found \"{rest[:20]}\""


def find(path: str, value: JSON) -> JSON:
    """The value at the path; if the path contains `*`, the list of all matches. Raises InvalidInput."""
    steps = parse(path)
    if ALL_ITEMS not in steps:
        for index, step in enumerate(steps):
            if not _has(value, step):
                raise InvalidInput(_missing(path, steps[:index], step, value))
            value = value[step]
        return value
    matches = [value]
    for step in steps:
        if step is ALL_ITEMS:
            matches = [inner for each in matches for inner in _items(each)]
        else:
            matches = [each[step] for each in matches if _has(each, step)]
    return matches


def _has(value: JSON, step: PathStep) -> bool:
    if isinstance(step, str):
        return isinstance(value, dict) and step in value
    return isinstance(value, list) and step is not None and -len(value) <= step < len(value)


def _items(value: JSON) -> list[JSON]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _missing(path: str, before: tuple[PathStep, ...], step: PathStep, value: JSON) -> str:
    where = "$" + "".join(f"[{each!r}]" for each in before)
    if isinstance(value, dict):
        known = ", ".join(list(value)[:8]) or "none"
        return f'path "{path}": {where} has no key {step!r}; its keys are: {known}'
    if isinstance(value, list):
        return f'path "{path}": {where} is a list of {len(value):,} items and has no {step!r}'
    return f'path "{path}": {where} is neither a list nor a mapping and has no {step!r}'
