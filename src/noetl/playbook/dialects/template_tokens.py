"""Splits template text into tokens with positions, and finds the paths that it reads (`outcome.http.status`).

It uses Jinja2's lexer, so that text, strings and comments are never mistaken for expressions. It does not
depend on the dialects.
"""

from __future__ import annotations

from typing import NamedTuple

from jinja2 import Environment, TemplateError

TEMPLATE_CHARS_MAX = 64 * 1024  # longer text is not parsed
BRACKET_TOKENS_MAX = 1_000  # tokens that are searched for a closing bracket

_LEXER = Environment(keep_trailing_newline=True)  # only the lexer is used
_KEYWORDS = frozenset(
    {
        "and", "or", "not", "in", "is", "if", "else", "elif", "endif", "for", "endfor", "recursive", "set",
        "endset", "block", "endblock", "filter", "endfilter", "with", "endwith", "macro", "endmacro", "call",
        "endcall", "raw", "endraw", "include", "import", "from", "as",
        "true", "false", "none", "True", "False", "None",
    }
)  # fmt: skip
_OPENING = {"(": ")", "[": "]", "{": "}"}


class TemplateToken(NamedTuple):
    type: str  # Jinja's: name, operator, string, integer, …
    text: str
    start: int
    end: int


class PathPart(NamedTuple):
    """One part of a path: `.name` or `['name']`, including the dot or the brackets."""

    name: str
    start: int
    end: int
    bracketed: bool


class PathRead(NamedTuple):
    """A path that a template reads."""

    root: str
    parts: tuple[PathPart, ...]
    start: int
    end: int  # end of the last part
    first: int  # index of its first token
    after: int  # index of the token after it

    @property
    def path(self) -> tuple[str, ...]:
        return (self.root, *(part.name for part in self.parts))


class ParsedTemplate(NamedTuple):
    tokens: list[TemplateToken]  # of expressions and statements, without white space
    readings: list[PathRead]
    bound: frozenset[str]  # names that the template itself defines: for, set, macro
    typed: bool  # exactly one {{ expression }}


def is_template(text: str) -> bool:
    return "{{" in text or "{%" in text


def parse(source: str) -> ParsedTemplate | None:
    """None if Jinja2 cannot tokenize it."""
    if len(source) > TEMPLATE_CHARS_MAX:
        return None
    try:
        lexed = [(type, text) for _, type, text in _LEXER.lex(source)]
    except (TemplateError, RecursionError):
        return None
    tokens: list[TemplateToken] = []
    outside: list[str] = []
    pos = 0
    for type, text in lexed:
        # `{{-` drops the white space before it, so each token is searched from the end of the previous one.
        start = source.find(text, pos)
        if start < 0 or source[pos:start].strip():
            return None
        pos = start + len(text)
        if type == "data":
            outside.append(text)
        elif type != "whitespace" and not type.startswith(("comment", "raw")):
            tokens.append(TemplateToken(type, text, start, pos))
    begins = [token.type for token in tokens if token.type.endswith("_begin")]
    bound = _bound(tokens)
    typed = begins == ["variable_begin"] and not "".join(outside).strip()
    return ParsedTemplate(tokens, _readings(tokens), bound, typed)


def free_reads(text: str) -> list[PathRead]:
    """The paths that a template reads from its scope; an empty list if the text is not a template."""
    parsed = parse(text) if is_template(text) else None
    return [reading for reading in parsed.readings if reading.root not in parsed.bound] if parsed else []


def attribute(name: str) -> str:
    """`.name`, or `['na me']` if the name is not an identifier."""
    if name.isidentifier() and name.isascii():
        return f".{name}"
    escaped = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"['{escaped}']"


def string_value(token: TemplateToken) -> str:
    """The value of a string token without escapes."""
    return token.text[1:-1]


def closing_bracket(tokens: list[TemplateToken], position: int) -> int:
    """The index of the bracket that closes the one at `position`; the last index searched if none does."""
    depth = 0
    limit = min(len(tokens), position + BRACKET_TOKENS_MAX)
    for index in range(position, limit):
        text = tokens[index].text if tokens[index].type == "operator" else ""
        depth += (text in _OPENING) - (text in _OPENING.values())
        if depth == 0:
            return index
    return limit - 1


def _readings(tokens: list[TemplateToken]) -> list[PathRead]:
    reads: list[PathRead] = []
    for position, token in enumerate(tokens):
        if token.type == "name" and token.text not in _KEYWORDS and not _is_something_else(tokens, position):
            parts, after = _parts(tokens, position + 1)
            end = parts[-1].end if parts else token.end
            reads.append(PathRead(token.text, tuple(parts), token.start, end, position, after))
    return reads


def _is_something_else(tokens: list[TemplateToken], position: int) -> bool:
    """Is it a filter, a test, an attribute, a function, the name of an argument, or a statement keyword?"""
    before = tokens[position - 1] if position else None
    behind = tokens[position + 1] if position + 1 < len(tokens) else None
    if before is not None:
        if before.type == "block_begin" or (before.type == "operator" and before.text in (".", "|")):
            return True
        if before.type == "name" and before.text == "is":
            return True
        if before.text == "not" and position > 1 and tokens[position - 2].text == "is":
            return True
    return behind is not None and behind.type == "operator" and behind.text in ("(", "=")


def _parts(tokens: list[TemplateToken], position: int) -> tuple[list[PathPart], int]:
    parts: list[PathPart] = []
    while position + 1 < len(tokens) and tokens[position].type == "operator":
        sign, inner = tokens[position], tokens[position + 1]
        if sign.text == "." and inner.type in ("name", "integer"):
            parts.append(PathPart(inner.text, sign.start, inner.end, False))
            position += 2
        elif sign.text == "[" and inner.type in ("string", "integer") and position + 2 < len(tokens):
            if tokens[position + 2].text != "]":
                break
            name = string_value(inner) if inner.type == "string" else inner.text
            parts.append(PathPart(name, sign.start, tokens[position + 2].end, True))
            position += 3
        else:
            break
    return parts, position


def _bound(tokens: list[TemplateToken]) -> frozenset[str]:
    names: set[str] = set()
    for position, token in enumerate(tokens[:-1]):
        if token.type != "block_begin":
            continue
        word = tokens[position + 1].text
        stop = {"for": "in", "set": "=", "macro": ")", "with": ""}.get(word)
        if stop is None:
            continue
        for each in tokens[position + 2 :]:
            if each.text == stop or each.type == "block_end":
                break
            if each.type == "name":
                names.add(each.text)
        if word == "for":
            names.add("loop")
    return frozenset(names)


_LIST_FILTERS = frozenset({"length", "count", "first", "last", "map", "selectattr", "rejectattr", "list", "sum"})


def is_list(template: ParsedTemplate, reading: PathRead) -> bool:
    """Does a filter follow that only makes sense for a list?"""
    behind = [token.text for token in template.tokens[reading.after : reading.after + 2]]
    return behind[:1] == ["|"] and behind[1:] != [] and behind[1] in _LIST_FILTERS


def is_number(template: ParsedTemplate, reading: PathRead) -> bool:
    """Is the value compared with a number, or looked up in a list of numbers?"""
    behind = template.tokens[reading.after : reading.after + 4]
    words = [token.text for token in behind]
    if words[:1] == ["not"]:
        behind, words = behind[1:], words[1:]
    operand = 2 if words[:2] in (["in", "["], ["in", "("]) else 1
    compared = words[:1] and words[0] in ("==", "!=", "<", ">", "<=", ">=", "in")
    return bool(compared) and len(behind) > operand and behind[operand].type == "integer"


def has_default(template: ParsedTemplate, reading: PathRead) -> bool:
    """Does the filter `default` follow?"""
    behind = [token.text for token in template.tokens[reading.after : reading.after + 2]]
    return behind in (["|", "default"], ["|", "d"])


def optional_names(template: ParsedTemplate) -> set[str]:
    """The names that have a default in a template, or that it asks for with `is defined`."""
    made = set()
    for reading in template.readings:
        behind = [token.text for token in template.tokens[reading.after : reading.after + 3]]
        asks = behind[:1] == ["is"] and {"defined", "undefined"} & set(behind[1:])
        if not reading.parts and (asks or has_default(template, reading)):
            made.add(reading.root)
    return made
