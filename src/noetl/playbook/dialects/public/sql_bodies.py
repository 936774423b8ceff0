"""Templates where SQL takes no parameters: the body of `DO $$ … $$`, and comments (§8)."""

from __future__ import annotations

import re

# A template as a whole: with strings, and with mappings of two levels inside.
TEMPLATE = re.compile(
    r"""\{\{(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\{(?:[^{}]|\{[^{}]*\})*\}|[^{}'"])*\}\}|\{\{.*?\}\}""", re.DOTALL
)
_BODY = re.compile(r"(?is)\bDO\s+(?:LANGUAGE\s+\w+\s+)?\$(\w*)\$(.*?)\$\1\$")
CASTS = {"int": "::bigint", "float": "::float8", "string": ""}
_FILTER = re.compile(r"\|\s*(int|float|string)\s*\Z")


def without_comments(text: str) -> str:
    """Templates in SQL comments lose their braces: they have no effect there."""
    made, position, quoted = [], 0, False
    for found in re.finditer(r"\{\{.*?\}\}|'|--[^\n]*|/\*.*?\*/", text, re.DOTALL):
        word = found.group()
        if word == "'":
            quoted = not quoted
        elif not quoted and word.startswith(("--", "/*")) and "{{" in word:
            made += [text[position : found.start()], re.sub(r"\{\{-?\s*(.*?)\s*-?\}\}", r"\1", word)]
            position = found.end()
    return "".join([*made, text[position:]])


def body_values(text: str) -> str:
    """A value in the body of `DO` is a setting of the transaction, which a statement before it sets."""
    names: dict[str, str] = {}
    made = _BODY.sub(lambda found: _body(found.group(), names), text)
    # The condition sets the value and never holds, so that the statement has no rows.
    before = [
        f"SELECT 1 WHERE set_config('{name}', {{{{ ({of}) | string }}}}, true) IS NULL;\n" for of, name in names.items()
    ]
    return "".join(before) + made


def _body(text: str, names: dict[str, str]) -> str:
    spans: list[tuple[int, int, str]] = []
    for found in TEMPLATE.finditer(text):
        inner = found.group()[2:-2].strip()
        begin, end = found.span()
        quoted = text[begin - 1 : begin] == "'" and text[end : end + 1] == "'"
        typed = _FILTER.search(inner)
        if not quoted and typed is None:
            return text  # its type is unknown: the check reports it
        inner = inner[: typed.start()].strip() if typed is not None else inner
        name = names.setdefault(inner, f"noetl.value_{len(names) + 1}")
        cast = "" if quoted or typed is None else CASTS[typed[1]]
        spans.append((begin - quoted, end + quoted, f"current_setting('{name}'){cast}"))
    for begin, end, value in reversed(spans):
        text = text[:begin] + value + text[end:]
    return text
