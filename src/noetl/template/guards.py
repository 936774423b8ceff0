"""A guard that is text around templates, and the single expression that its author probably means (D118)."""

from __future__ import annotations

import re

from noetl.template.compile import BadTemplate, Template, compile_template

_PIECE = re.compile(r"\{\{-?(?P<inside>.*?)-?\}\}|\{#.*?#\}", re.DOTALL)
_TOKEN = re.compile(r"""==|!=|<=|>=|<|>|[()\[\],]|'[^']*'|"[^"]*"|[^\s()\[\],=!<>'"]+""")
_LOOSE = re.compile(r"\b(?:and|or|not|if|in|is)\b|[<>=]")
_OPERATORS = frozenset({"==", "!=", "<=", ">=", "<", ">", "and", "or", "not", "in", "is"})
_WORDS = {"true": "true", "false": "false", "null": "none", "none": "none"}
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?\Z")


def is_text_around(template: Template) -> bool:
    """Does the guard give text that is never empty, so that it is always true? A comment gives no text."""
    source = _PIECE.sub(lambda found: "{{}}" if found["inside"] is not None else "", template.source).strip()
    return not template.typed and source != "{{}}"


def as_one_expression(source: str) -> str | None:
    """`{{ a }} == b` → `{{ a == 'b' }}`; None: the text has no operator, or the result is not an expression."""
    words: list[str] = []
    end = 0
    for found in _PIECE.finditer(source):
        words += _quoted(source[end : found.start()])
        inside = (found["inside"] or "").strip()
        words += [f"({inside})" if _LOOSE.search(inside) else inside] if inside else []
        end = found.end()
    words += _quoted(source[end:])
    made = "{{ " + " ".join(words) + " }}"
    try:
        compile_template(made)
    except BadTemplate:
        return None
    return made if _OPERATORS & set(words) else None


def _quoted(text: str) -> list[str]:
    """The tokens of text between templates; a word becomes a string."""
    made = []
    for token in _TOKEN.findall(text):
        if token in _OPERATORS or token[0] in "()[],'\"" or _NUMBER.match(token):
            made.append(token)
        else:
            made.append(_WORDS.get(token.lower(), f"'{token}'"))
    return made
