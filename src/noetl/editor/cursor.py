"""Where the cursor is: the path of keys around it, from the indentation of the lines.

While someone types, the text is rarely valid YAML, and parsing a large text takes longer than a keystroke. So only
the lines of the current step, or of the current section, are read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from noetl.playbook.source import Path

PlaceOfCursor: TypeAlias = Literal["key", "value", "template", "text"]

_SECTION: Final = re.compile(r"^[^\s#\-%][^\n]*", re.MULTILINE)
_FIRST_ITEM: Final = re.compile(r"^( *)- ", re.MULTILINE)
_PREFIX: Final = re.compile(r"( *)((?:- +)*)(-?$)?")
_KEY: Final = re.compile(r"""("[^"\n]*"|'[^'\n]*'|[^\s#:{}\[\],&*!|>'"%@`-][^\n:#]*?)\s*:(?=\s|$)""")
_WORD: Final = re.compile(r"[\w.-]*\Z")
_WORD_AFTER: Final = re.compile(r"[\w.-]*")
_TEMPLATE_CHARS_MAX: Final = 4_000


class Cursor(NamedTuple):
    """A position in a text."""

    place: PlaceOfCursor
    path: Path  # of the mapping around a key; of the value otherwise. The index of an item is always 0
    word: str  # the word at the cursor, up to the cursor
    start: int  # offset of the word
    end: int  # offset of its end, after the cursor
    levels: tuple[Mapping[str, str], ...]  # of each mapping around the cursor, from the root: its keys with their texts
    depths: tuple[int, ...]  # the length of the path of each of these mappings
    expression: str = ""  # in a template: the text from the braces to the cursor

    def keys_at(self, depth: int) -> Mapping[str, str]:
        """The keys of the mapping that the first `depth` parts of the path lead to."""
        return self.levels[self.depths.index(depth)] if depth in self.depths else {}


class _Token(NamedTuple):
    column: int
    key: str | None  # None: the dash of an item
    end: int = 0  # of the key, with its colon


def cursor_at(text: str, offset: int) -> Cursor:
    """The path and the word at an offset."""
    lines, row = _section(text, offset)
    line_start = text.rfind("\n", 0, offset) + 1
    before, line = text[line_start:offset], lines[row]
    found = _WORD.search(before)
    word = found[0] if found else ""
    behind = _WORD_AFTER.match(text, offset)
    span = (word, offset - len(word), behind.end() if behind else offset)
    tokens = _tokens(line)
    key = next((token for token in tokens if token.key is not None), None)
    column = key.column if key is not None else _column(before)
    around = _around(lines, row, column)
    place: PlaceOfCursor
    if key is not None and len(before) >= key.end:
        place, around = _in_value((*around.path, key.key or ""), around, _in_braces(before[key.end :]))
    elif key is None and (inside := _in_braces(before[column:])) is not None:  # an item of a list: `- {step: …`
        outer = _Around(around.path, around.levels[:-1], around.depths[:-1])
        place, around = _in_value(around.path, outer, inside)
    else:
        place = "text" if _is_block_text(lines, row, column) or "#" in before else "key"
    expression = _expression(text, offset)
    return Cursor("template" if expression is not None else place, around.path, *span, *around[1:], expression or "")


def _section(text: str, offset: int) -> tuple[list[str], int]:
    """The lines to read, and the index of the current one: the section of the root, of a list only the current item."""
    begin, end = 0, len(text)
    for found in _SECTION.finditer(text):
        if found.start() > offset:
            end = found.start()
            break
        begin = found.start()
    head_end = text.find("\n", begin, end)
    first = _FIRST_ITEM.search(text, head_end + 1, end) if 0 <= head_end < offset else None
    if first is None or first.start() > offset:
        return text[begin:end].split("\n"), text.count("\n", begin, offset)
    sign = f"\n{first[1]}-"
    item = text.rfind(sign, head_end, offset + len(sign) - 1) + 1 or first.start()
    after = text.find(sign, offset, end)
    lines = [text[begin:head_end], *text[item : end if after < 0 else after].split("\n")]
    return lines, 1 + text.count("\n", item, offset)


class _Around(NamedTuple):
    """The path of a mapping, and the keys of all mappings around it: the fields of a cursor."""

    path: Path
    levels: tuple[Mapping[str, str], ...]
    depths: tuple[int, ...]


class _Braces(NamedTuple):
    """The position inside `{…}` and `[…]` on one line."""

    path: Path
    is_key: bool
    taken: Mapping[str, str]  # the keys before the cursor in the innermost braces


def _in_braces(text: str) -> _Braces | None:
    """None if no brace is open at the end of the text."""
    stack: list[tuple[str, str, dict[str, str]]] = []  # the brace, the current key, the keys with their texts
    position, word = 0, ""
    while position < len(text):
        char = text[position]
        if char in "\"'":
            close = text.find(char, position + 1)
            if close < 0:
                break
            word, position = text[position + 1 : close], close + 1
            continue
        if char in "{[":
            stack.append((char, "", {}))
            word = ""
        elif char in "}]" and stack:
            stack.pop()
            word = ""
        elif char == ":" and stack and stack[-1][0] == "{":
            brace, _, keys = stack[-1]
            keys[word.strip()] = ""
            stack[-1], word = (brace, word.strip(), keys), ""
        elif char == "," and stack:
            brace, key, keys = stack[-1]
            if key:
                keys[key] = word.strip()
            stack[-1], word = (brace, "", keys), ""
        else:
            word += char
        position += 1
    if not stack:
        return None
    path: list[str | int] = []
    for brace, key, _ in stack[:-1]:
        path.append(0 if brace == "[" else key)
    brace, key, keys = stack[-1]
    if brace == "[":
        return _Braces((*path, 0), False, {})
    return _Braces((*path, key) if key else tuple(path), not key, keys)


def _in_value(path: Path, around: _Around, inside: _Braces | None) -> tuple[PlaceOfCursor, _Around]:
    """What is written at the cursor, and the mappings around it, for a cursor behind a key."""
    if inside is None:
        return "value", around._replace(path=path)
    path = (*path, *inside.path)
    depth = len(path) if inside.is_key else len(path) - 1
    around = _Around(path, (*around.levels, inside.taken), (*around.depths, depth))
    return "key" if inside.is_key else "value", around


def _expression(text: str, offset: int) -> str | None:
    """The text from the open braces of a template to the offset; None outside of a template."""
    since = max(0, offset - _TEMPLATE_CHARS_MAX)
    begin = max(text.rfind("{{", since, offset), text.rfind("{%", since, offset))
    if begin < 0:
        return None
    inside = text[begin + 2 : offset]
    return None if "}}" in inside or "%}" in inside else inside.lstrip("-")


def _tokens(line: str) -> list[_Token]:
    """The dashes and the key at the beginning of a line."""
    prefix = _PREFIX.match(line)
    assert prefix is not None
    found = [_Token(prefix.start(2) + index, None) for index, char in enumerate(prefix[2]) if char == "-"]
    if prefix[3]:
        found.append(_Token(prefix.start(3), None))
    key = _KEY.match(line, prefix.end(2))
    if key is not None:
        found.append(_Token(key.start(), key[1].strip("\"'"), key.end()))
    return found


def _column(before: str) -> int:
    """The column at which a key on this line begins."""
    prefix = _PREFIX.match(before)
    assert prefix is not None
    return prefix.end(2)


def _around(lines: list[str], row: int, column: int) -> _Around:
    """The path of the mapping whose keys are at a column, and the keys of all mappings around it."""
    path: list[str | int] = []
    maps = [(row, column, 0)]
    limit, dash = column, -1
    for index in range(row, -1, -1):
        for token in reversed(_tokens(lines[index])):
            if index == row and token.column >= column:
                continue
            if token.key is None:
                if token.column < limit and token.column != dash:
                    path.append(0)
                    limit, dash = token.column + 1, token.column
            elif token.column < limit and (dash < 0 or token.column <= dash):
                path.append(token.key)
                limit, dash = token.column, -1
                maps.append((index, token.column, len(path)))
        if limit == 0 and dash < 0:
            break
    levels = tuple(_siblings(lines, at, of) for at, of, _ in reversed(maps))
    return _Around(tuple(reversed(path)), levels, tuple(len(path) - inner for _, _, inner in reversed(maps)))


def _siblings(lines: list[str], row: int, column: int) -> dict[str, str]:
    """The keys of the mapping at a column, with the texts behind them."""
    found: dict[str, str] = {}
    for step, begin in ((-1, row), (1, row + 1)):
        index = begin
        while 0 <= index < len(lines):
            line = lines[index]
            tokens = _tokens(line)
            if line.strip() and not line.lstrip().startswith("#"):
                first = len(line) - len(line.lstrip(" "))
                key = tokens[-1] if tokens and tokens[-1].key is not None else None
                if step > 0 and first < column:
                    break
                if key is not None and key.key is not None and key.column == column:
                    found[key.key] = line[key.end :].split(" #")[0].strip().strip("\"'")
                if first < column:
                    break
            index += step
    return found


def _is_block_text(lines: list[str], row: int, column: int) -> bool:
    """Whether the line is inside of a block text (`|` or `>`)."""
    for index in range(row - 1, -1, -1):
        tokens = _tokens(lines[index])
        if tokens and tokens[-1].key is not None and tokens[-1].column < column:
            rest = lines[index][tokens[-1].end :].strip()
            return rest.startswith(("|", ">"))
        if lines[index].strip() and len(lines[index]) - len(lines[index].lstrip(" ")) < column:
            column = len(lines[index]) - len(lines[index].lstrip(" "))
    return False
