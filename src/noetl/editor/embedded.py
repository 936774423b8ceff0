"""The parts of Python code and SQL inside a playbook, for colours in an editor."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

TokenKind: TypeAlias = Literal[
    "namespace", "variable", "property", "function", "string", "number", "keyword", "operator", "comment"
]


class CodePart(NamedTuple):
    kind: TokenKind
    start: int  # offsets in the code; on one line
    end: int


_PYTHON: Final = re.compile(
    r"""(?P<comment>\#[^\n]*)|(?P<string>[rbfuRBFU]{0,2}(?:\"\"\".*?\"\"\"|\'\'\'.*?\'\'\'|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))
    |(?P<number>\b\d[\d_.]*(?:[eE][+-]?\d+)?)|(?P<word>[^\W\d]\w*)""",
    re.VERBOSE | re.DOTALL,
)
_SQL: Final = re.compile(
    r"""(?P<comment>--[^\n]*|/\*.*?\*/)|(?P<string>'(?:[^']|\'\')*'|"(?:[^"]|"")*")
    |(?P<number>\b\d[\d.]*)|(?P<word>[^\W\d]\w*)""",
    re.VERBOSE | re.DOTALL,
)
_SQL_WORDS: Final = (
    "add all alter and any as asc begin between by case cast check column commit conflict constraint copy create"
    " cross current_date current_timestamp database default delete desc distinct do drop else end except excluded"
    " exists false fetch filter first following foreign from full group having if ilike in index inner insert"
    " intersect interval into is join key last lateral left like limit materialized merge natural not nothing null"
    " nulls offset on or order outer over partition preceding primary range recursive references replace returning"
    " right rollback row rows select set some table temporary then to true truncate unbounded union unique update"
    " using values view when where window with within"
)
_SQL_KEYWORDS: Final = frozenset(_SQL_WORDS.split())
_SOFT: Final = frozenset({"match", "case", "type", "_"})


def python_parts(code: str) -> Iterator[CodePart]:
    """Keywords, strings, numbers, comments, and names that are defined or called."""
    before = ""
    for found in _PYTHON.finditer(code):
        if found["word"] is None:
            yield from _parts(found)
        elif keyword.iskeyword(found[0]) and found[0] not in _SOFT:
            yield CodePart("keyword", *found.span())
        elif before in ("def", "class") or code.startswith("(", found.end()):
            yield CodePart("function", *found.span())
        before = found[0]


def sql_parts(code: str) -> Iterator[CodePart]:
    """Keywords, strings, numbers, comments, and functions."""
    for found in _SQL.finditer(code):
        if found["word"] is None:
            yield from _parts(found)
        elif found[0].lower() in _SQL_KEYWORDS:
            yield CodePart("keyword", *found.span())
        elif code.startswith("(", found.end()):
            yield CodePart("function", *found.span())


def _parts(found: re.Match[str]) -> Iterator[CodePart]:
    """One part for each line."""
    kind: TokenKind = "comment" if found["comment"] else "string" if found["string"] else "number"
    at = found.start()
    for line in found[0].split("\n"):
        stripped = line.lstrip()
        if stripped:
            yield CodePart(kind, at + len(line) - len(stripped), at + len(line))
        at += len(line) + 1
