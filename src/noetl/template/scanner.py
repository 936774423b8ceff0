"""A quick scanner for common templates: one line, and `{{ }}` with names, numbers, plain strings and operators.

It gives the same tokens and trees as Jinja2, which reads everything else. Scanning takes most of the time of a check.
"""

from __future__ import annotations

import re
from typing import Final

from jinja2 import nodes
from jinja2.lexer import Token, operators

from noetl.template.limits import NESTING_MAX, TOKENS_MAX

_LONGEST: Final = min(400, TOKENS_MAX)  # characters: each token has at least one
_PATHS: Final = re.compile(r"\{\{ ?([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*) ?\}\}")
_LITERALS: Final = frozenset({"true", "false", "none", "True", "False", "None", "not"})
_OTHER: Final = re.compile(r"[\r\n\x1c-\x1f\x85\u2028\u2029]|\{[%#]|\{\{[-+]|[-+]\}\}|\\")
_TOKEN: Final = re.compile(
    r"[ \t]*(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?!\w)"
    r"|(?P<integer>0|[1-9][0-9]*)(?![\w.])"
    r"|(?P<string>'[ -&(-~]*'|\"[ !#-~]*\")"
    r"|(?P<end>\}\})"
    r"|(?P<operator>//|\*\*|==|!=|>=|<=|[-+/*%~\[\](){}><=.:|,]))"
)
_OPENING: Final = {"(": ")", "[": "]", "{": "}"}
_NESTING: Final = re.compile(r"[(\[{+-]|not|else")


def scan(source: str) -> list[Token] | None:
    """The tokens; None: Jinja2's lexer has to read it."""
    if len(source) > _LONGEST or _OTHER.search(source) or len(_NESTING.findall(source)) > NESTING_MAX:
        return None
    tokens: list[Token] = []
    at = 0
    while (begin := source.find("{{", at)) >= 0:
        if begin > at:
            tokens.append(Token(1, "data", source[at:begin]))
        tokens.append(Token(1, "variable_begin", "{{"))
        end = _expression(source, begin + 2, tokens)
        if end is None:
            return None
        tokens.append(Token(1, "variable_end", "}}"))
        at = end
    if at < len(source):
        tokens.append(Token(1, "data", source[at:]))
    return tokens


def _expression(source: str, at: int, tokens: list[Token]) -> int | None:
    """Append the tokens up to `}}`; the offset behind it."""
    open_brackets: list[str] = []
    match = _TOKEN.match
    while (found := match(source, at)) is not None:
        kind, at = found.lastgroup, found.end()
        text = found[kind]  # type: ignore[index]  # one of the groups has matched
        if kind == "end":
            if not open_brackets:
                return at
            at -= 1
            kind, text = "operator", "}"
        if kind == "operator":
            if text in _OPENING:
                open_brackets.append(_OPENING[text])
            elif text in ")]}" and (not open_brackets or open_brackets.pop() != text):
                return None
            tokens.append(Token(1, operators[text], text))
        elif kind == "name":
            tokens.append(Token(1, "name", text))
        elif kind == "integer":
            tokens.append(Token(1, "integer", int(text)))  # type: ignore[arg-type]  # as Jinja2's lexer does
        else:
            tokens.append(Token(1, "string", text[1:-1]))
    return None


def paths_only(source: str) -> list[nodes.Node] | None:
    """The tree of a template whose every `{{ }}` is a path; None: it has to be parsed."""
    if len(source) > _LONGEST or _OTHER.search(source):
        return None
    pieces = _PATHS.split(source)
    if len(pieces) == 1:
        return None
    parts: list[nodes.Expr] = []
    for number, piece in enumerate(pieces):
        if number % 2 == 0:
            if "{{" in piece or piece.endswith("{"):  # `{{{ a }}}` begins a mapping
                return None
            if piece:
                parts.append(nodes.TemplateData(piece, lineno=1))
            continue
        first, *names = piece.split(".")
        if first in _LITERALS:
            return None
        made: nodes.Expr = nodes.Name(first, "load", lineno=1)
        for name in names:
            made = nodes.Getattr(made, name, "load", lineno=1)
        parts.append(made)
    return [nodes.Output(parts, lineno=1)]
