"""Problems for an editor: the range to underline, and the fix as an edit, where the fix says exactly what to write."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from noetl.errors import Problem

_TOKEN: Final = re.compile(r""""(?:[^"\\\n]|\\.)*"|'(?:[^'\n]|'')*'|[\w.-]+|\S""")
_ONE_VALUE: Final = re.compile(r'[\w.-]+|"\{\{.*\}\}"')
_INSERTED_KEYS: Final = frozenset({"retry-without-attempts", "retry-without-delay", "missing-do", "missing-key"})
_REPLACED_SCALARS: Final = frozenset({"ref-expected", "yaml-key"})


class Edit(NamedTuple):
    """Replaces a part of the text."""

    start: int
    end: int
    insert: str


def span_of(text: str, start: int) -> tuple[int, int]:
    """The word or the quoted text at an offset."""
    found = _TOKEN.match(text, start)
    if found is not None:
        return start, found.end()
    return max(text.rfind("\n", 0, start) + 1, start - 1), start


def fix_edit(text: str, problem: Problem, start: int) -> Edit | None:
    """None when the fix is advice that a person has to follow. `start`: the offset of the problem."""
    fix = problem.fix
    if fix is None or "…" in fix:
        return None
    if problem.code in _INSERTED_KEYS:
        return _inserted_key(text, start, fix)
    if problem.code == "undeclared-join":
        return _inserted_line(text, start, fix, above=False)
    if problem.code == "no-start" and ":" in fix:
        return _inserted_line(text, start, fix, above=True)
    if problem.code == "never-equal":
        return _compared_value(text, start, problem.message, fix)
    if problem.code in _REPLACED_SCALARS:
        begin, end = span_of(text, start)
        return Edit(begin, end + (problem.code == "yaml-key" and text[end : end + 1] == ":"), fix)
    return _replaced_name(text, start, problem.message, fix)


def _replaced_name(text: str, start: int, message: str, fix: str) -> Edit | None:
    """Replaces the name in the message by the suggested one."""
    if not _ONE_VALUE.fullmatch(fix):
        return None
    quoted = [
        each for each in re.findall(r'"([^"]+)"', message) if text.startswith((each, f'"{each}', f"'{each}"), start)
    ]
    if not quoted:
        return None
    word = max(quoted, key=len)
    start += not text.startswith(word, start)
    return Edit(start, start + len(word), fix)


def _compared_value(text: str, start: int, message: str, fix: str) -> Edit | None:
    """Replaces the quoted value of a comparison, on the line of the problem and after its position."""
    wrong = re.search(r'is never "([^"]+)"', message)
    end = text.find("\n", start)
    found = wrong and re.compile(f"(['\"]){re.escape(wrong[1])}\\1").search(text, start, len(text) if end < 0 else end)
    return Edit(found.start(), found.end(), fix) if found else None


def _inserted_key(text: str, start: int, fix: str) -> Edit:
    """Adds a key to the mapping at this position, or below the key at this position."""
    brace = re.compile(r"(?:[\w.-]+:\s*)?\{ ?").match(text, start)
    if brace is not None:
        at = brace.end()
        return Edit(at, at, f"{fix} " if text[at : at + 1] == "}" else f"{fix}, ")
    indent = " " * (start - text.rfind("\n", 0, start) - 1)
    if re.compile(r"[\w.-]+:[ \t]*\n").match(text, start):
        below = text.find("\n", start) + 1
        deeper = re.compile(" *").match(text, below)
        inner = deeper[0] if deeper is not None and len(deeper[0]) > len(indent) else f"{indent}  "
        return Edit(below, below, f"{inner}{fix}\n")
    return Edit(start, start, f"{fix}\n{indent}")


def _inserted_line(text: str, start: int, fix: str, *, above: bool) -> Edit:
    """Adds a line above or below that of the problem, with the indentation of its first key."""
    line = text.rfind("\n", 0, start) + 1
    if above:
        return Edit(line, line, f"{fix}\n")
    depth = re.compile(r"(?: |- )*").match(text, line)
    end = text.find("\n", start)
    at = len(text) if end < 0 else end
    return Edit(at, at, f"\n{' ' * len(depth[0] if depth else '')}{fix}")
