"""The parts of templates by their meaning, for colours in an editor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

from noetl.editor.analysis import Analysis, finder_of
from noetl.playbook.dialects.template_tokens import TemplateToken, parse
from noetl.playbook.language import SCOPES
from noetl.playbook.source import Scalar

TokenKind: TypeAlias = Literal[
    "namespace", "variable", "property", "function", "string", "number", "keyword", "operator"
]

TOKEN_KINDS: Final[tuple[TokenKind, ...]] = (
    "namespace", "variable", "property", "function", "string", "number", "keyword", "operator",
)  # fmt: skip
_KEYWORDS: Final = frozenset(
    {
        "and", "or", "not", "in", "is", "if", "else", "elif", "endif", "for", "endfor", "set", "true", "false", "none",
    }
)  # fmt: skip
_TYPES: Final[dict[str, TokenKind]] = {"string": "string", "integer": "number", "float": "number"}


class Highlight(NamedTuple):
    kind: TokenKind
    start: int  # offsets in the text; on one line
    end: int


def highlights(known: Analysis) -> list[Highlight]:
    """The parts of all templates, in the order of the text."""
    found: set[Highlight] = set()
    for use in known.checked.program.templates if known.checked.program is not None else ():
        tree = known.document.find(use.path)
        if isinstance(tree, Scalar) and isinstance(tree.value, str):
            finder = finder_of(known.document, tree, tree.value)
            for kind, token in _kinds(tree.value):
                start, end = finder.offset(token.start), finder.offset(token.end - 1) + 1
                if "\n" not in known.text[start:end]:
                    found.add(Highlight(kind, start, end))
    return sorted(found, key=lambda each: each.start)


def _kinds(template: str) -> Iterator[tuple[TokenKind, TemplateToken]]:
    parsed = parse(template)
    tokens = parsed.tokens if parsed is not None else []
    for position, token in enumerate(tokens):
        before = tokens[position - 1].text if position else ""
        behind = tokens[position + 1].text if position + 1 < len(tokens) else ""
        if token.type == "name":
            if token.text in _KEYWORDS:
                yield "keyword", token
            elif before == ".":
                yield "property", token
            elif before in ("|", "is") or behind == "(":
                yield "function", token
            else:
                yield "namespace" if token.text in SCOPES else "variable", token
        elif token.type in _TYPES:
            yield _TYPES[token.type], token
