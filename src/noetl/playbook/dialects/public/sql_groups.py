"""`GROUP BY` and `ORDER BY` over an expression with a template (§8).

The public engine pasted the same text twice. Here each `{{ }}` is a value of its own, so the database cannot see that
the expressions are equal; the position in the list of SELECT says it.
"""

from __future__ import annotations

import re

from noetl.playbook.dialects.public.sql_bodies import TEMPLATE

_CLAUSE = re.compile(
    r"(?is)(\b(?:GROUP|ORDER)\s+BY\s+)(.*?)(?=\b(?:HAVING|ORDER\s+BY|LIMIT|OFFSET|WINDOW|FETCH|ON\s+CONFLICT)\b|;|\Z)"
)
_SELECT = re.compile(r"(?is)\bSELECT\s+(?:DISTINCT\s+)?(.*?)\bFROM\b")
_NESTED = re.compile(r"(?i)\((?=\s*SELECT\b)")
_ALIAS = re.compile(r"(?is)\s+AS\s+\"?\w+\"?\s*\Z")
_ORDER = re.compile(r"(?is)(\s+(?:ASC|DESC))?(\s+NULLS\s+(?:FIRST|LAST))?\s*\Z")


def by_position(text: str) -> str:
    """Expressions with templates in `GROUP BY` and `ORDER BY` that repeat a column of SELECT become its number."""
    return ";".join(_statement(each) for each in split(text, ";"))


def _statement(text: str) -> str:
    text = _inside_brackets(text)
    bare = TEMPLATE.sub(lambda found: " " * len(found.group()), text)
    if len(re.findall(r"(?i)\bSELECT\b", bare)) != 1 or re.search(r"(?i)\bUNION\b", bare):
        return text
    chosen = _SELECT.search(text)
    if chosen is None or not re.search(r"(?i)\bGROUP\s+BY\b", bare):
        return text
    columns = [_normal(_ALIAS.sub("", each)) for each in split(chosen[1], ",")]
    return text[: chosen.end()] + _CLAUSE.sub(lambda found: _clause(found, columns), text[chosen.end() :])


def _inside_brackets(text: str) -> str:
    """Each `(SELECT …)`, such as the body of a WITH, is a statement of its own."""
    made, position = "", 0
    for found in _NESTED.finditer(text):
        inner = split(text[found.end() :], ")")[0]
        if found.start() >= position and found.end() + len(inner) < len(text):
            made += text[position : found.end()] + _statement(inner)
            position = found.end() + len(inner)
    return made + text[position:]


def _clause(found: re.Match[str], columns: list[str]) -> str:
    made = []
    for each in split(found[2], ","):
        order = _ORDER.search(each)
        tail = each[order.start() :] if order is not None else ""
        body = each[: len(each) - len(tail)]
        known = "{{" in body and _normal(body) in columns
        lead = body[: len(body) - len(body.lstrip())]
        made.append(f"{lead}{columns.index(_normal(body)) + 1}{tail}" if known else each)
    return found[1] + ",".join(made)


def _normal(text: str) -> str:
    return re.sub(r"\s+", "", text)


def split(text: str, sign: str) -> list[str]:
    """The parts between signs that are outside of templates, quotes and brackets."""
    made, start, depth = [], 0, 0
    for found in re.finditer(
        TEMPLATE.pattern + r"|'(?:[^']|'')*'|--[^\n]*|\$(\w*)\$.*?\$\1\$|[()" + sign + "]", text, re.DOTALL
    ):
        word = found.group()
        if word == sign and depth == 0:
            made.append(text[start : found.start()])
            start = found.end()
        else:
            depth += (word == "(") - (word == ")")
    return [*made, text[start:]]
