"""The types of values in SQL (§8): a pasted literal has a type where a bound value needs a cast.

The casts are exact: each is the type that PostgreSQL gives to the literal.
"""

from __future__ import annotations

import re

from noetl.playbook.dialects.public.sql_bodies import CASTS, TEMPLATE

_LITERAL = re.compile(
    r"(?i)(?<![\w.\"])(interval|date|timestamptz|(?:timestamp|time)(?:\s+with(?:out)?\s+time\s+zone)?)\s*\Z"
)
_UNIT = re.compile(r"(?i)\s+(year|month|day|hour|minute|second)\b")
_ANY_TYPE = re.compile(r"(?i)(?<![\w.\"])(?:(jsonb?_build_(?:object|array))|concat|concat_ws|format)\s*\(")
_NUMBER = re.compile(r"\{\{(?:(?!\}\}).)*\|\s*(?P<type>int|float)\s*(?:\([^()]*\)\s*)?\}\}", re.DOTALL)
_UNTYPED = re.compile(r"(?i)\s+AS\s|\s*[-+*/%]\s*\{\{")


def with_types(text: str, *, postgres: bool) -> str:
    """SQL in which values have a type wherever only a literal has one."""
    text = _typed_literals(text)
    return _numbers(_arguments(text)) if postgres else text


def strings(text: str) -> list[tuple[int, int]]:
    """The string literals of SQL that contain a template. Templates are skipped as a whole."""
    found: list[tuple[int, int]] = []
    position, begin = 0, -1
    while position < len(text):
        template = TEMPLATE.match(text, position)
        if template is not None:
            position = template.end()
            continue
        if begin < 0 and text.startswith("--", position):
            line = text.find("\n", position)
            position = len(text) if line < 0 else line
            continue
        if begin < 0 and text.startswith("$$", position):
            close = text.find("$$", position + 2)
            position = len(text) if close < 0 else close + 2
            continue
        if text[position] == "'":
            if begin < 0:
                begin = position
            elif text.startswith("''", position):
                position += 1
            else:
                if "{{" in text[begin:position]:
                    found.append((begin, position + 1))
                begin = -1
        position += 1
    return found


def _typed_literals(text: str) -> str:
    """`INTERVAL '{{ n }} hours'` takes a literal and no value; `CAST('{{ n }} hours' AS INTERVAL)` takes both."""
    made, position = "", 0
    for start, end in strings(text):
        word = _LITERAL.search(text, position, start)
        if word is None:
            continue
        unit = _UNIT.match(text, end) if word[1].lower() == "interval" else None
        literal = text[start : end - 1] + (f" {unit[1]}'" if unit is not None else "'")
        made += text[position : word.start(1)] + f"CAST({literal} AS {word[1]})"
        position = unit.end() if unit is not None else end
    return made + text[position:]


def _arguments(text: str) -> str:
    """Functions that take values of any type: text in quotes is text, other values are JSON or text."""
    literals = dict(strings(text))
    casts: dict[int, str] = {}
    for call in _ANY_TYPE.finditer(text):
        if any(start < call.start() < end for start, end in literals.items()):
            continue
        for start, end in _top_level(text, call.end()):
            if literals.get(start) == end:
                casts[end] = "::text"
            elif TEMPLATE.fullmatch(text, start, end) is not None:
                casts[end] = "::jsonb" if call[1] else "::text"
    return _inserted(text, casts)


def _top_level(text: str, begin: int) -> list[tuple[int, int]]:
    """The arguments of a call whose parenthesis ends at `begin`, without the spaces around them."""
    found: list[tuple[int, int]] = []
    start, position, depth, quoted = begin, begin, 0, False
    while position < len(text):
        template = TEMPLATE.match(text, position)
        if template is not None:
            position = template.end()
            continue
        character = text[position]
        if character == "'":
            quoted = not quoted
        elif not quoted and depth == 0 and character in ",)":
            argument = text[start:position]
            left = len(argument) - len(argument.lstrip())
            found.append((start + left, start + len(argument.rstrip())))
            start = position + 1
            if character == ")":
                return found
        elif not quoted:
            depth += (character in "([") - (character in ")]")
        position += 1
    return []


def _numbers(text: str) -> str:
    """`{{ n | int }} AS total` and `{{ a | int }} * {{ b | int }}` are numbers."""
    spans = strings(text)
    casts = {
        found.end(): CASTS[found["type"]]
        for found in _NUMBER.finditer(text)
        if _UNTYPED.match(text, found.end()) and not any(start < found.start() < end for start, end in spans)
    }
    return _inserted(text, casts)


def _inserted(text: str, casts: dict[int, str]) -> str:
    made, position = "", 0
    for end, cast in sorted(casts.items()):
        made += text[position:end] + cast
        position = end
    return made + text[position:]
