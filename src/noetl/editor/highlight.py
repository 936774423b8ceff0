"""The parts of templates, Python code and SQL by their meaning, for colours in an editor."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

from noetl.editor.analysis import Analysis, finder_of
from noetl.editor.embedded import CodePart, TokenKind, python_parts, sql_parts
from noetl.playbook.dialects.template_tokens import TemplateToken, parse
from noetl.playbook.language import SCOPES
from noetl.playbook.shapes import sql_paths
from noetl.playbook.source import Scalar

TOKEN_KINDS: Final[tuple[TokenKind, ...]] = (
    "namespace", "variable", "property", "function", "string", "number", "keyword", "operator", "comment",
)  # fmt: skip
CODE_CHARS_MAX: Final = 32 * 1024  # of all code of one text
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
    """The parts of all templates and of embedded code, in the order of the text; they do not overlap."""
    found: set[Highlight] = set()
    for use in known.checked.program.templates if known.checked.program is not None else ():
        tree = known.document.find(use.path)
        if isinstance(tree, Scalar) and isinstance(tree.value, str):
            finder = finder_of(known.document, tree, tree.value)
            for kind, token in _kinds(tree.value):
                start, end = finder.offset(token.start), finder.offset(token.end - 1) + 1
                if "\n" not in known.text[start:end]:
                    found.add(Highlight(kind, start, end))
    ordered = sorted(found, key=lambda each: each.start)
    return sorted([*ordered, *_outside(_embedded(known), ordered)], key=lambda each: each.start)


def _outside(found: Iterator[Highlight], templates: list[Highlight]) -> Iterator[Highlight]:
    """Those that do not overlap with a part of a template."""
    starts = [each.start for each in templates]
    for each in found:
        before = bisect_right(starts, each.start) - 1
        behind = starts[before + 1] if before + 1 < len(starts) else each.end
        if (before < 0 or templates[before].end <= each.start) and behind >= each.end:
            yield each


def _embedded(known: Analysis) -> Iterator[Highlight]:
    playbook = known.checked.playbook
    left = CODE_CHARS_MAX
    for owner in playbook.pipelines if playbook is not None else ():
        for task in owner.tasks:
            kind = known.kinds.get(task.kind)
            sql = [path for name in sql_paths(kind.fields.keys) for path in (name, ("input", *name))] if kind else []
            code: list[tuple[str, ...]] = [("code",), ("input", "code")] if task.kind == "python" else []
            for path, scan in (*((each, python_parts) for each in code), *((each, sql_parts) for each in sql)):
                tree = known.document.find((*task.at, *path))
                if isinstance(tree, Scalar) and isinstance(tree.value, str) and len(tree.value) <= left:
                    left -= len(tree.value)
                    yield from _placed(known, tree, tree.value, scan(tree.value))


def _placed(known: Analysis, tree: Scalar, value: str, parts: Iterator[CodePart]) -> Iterator[Highlight]:
    finder = finder_of(known.document, tree, value)
    for part in parts:
        start, end = finder.offset(part.start), finder.offset(part.end - 1) + 1
        if "\n" not in known.text[start:end]:
            yield Highlight(part.kind, start, end)


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
