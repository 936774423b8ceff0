"""The documentation of what is under the pointer, as Markdown."""

from __future__ import annotations

import re
from typing import Final

from noetl.editor.analysis import Analysis
from noetl.editor.completion import builtin_text
from noetl.editor.cursor import Cursor, cursor_at
from noetl.editor.lookup import Lookup, key_text
from noetl.playbook.language import SCOPES
from noetl.template.compile import FILTERS, FUNCTIONS, TESTS

_FILTER: Final = re.compile(r"\|\s*\Z")
_TEST: Final = re.compile(r"\bis\s+(?:not\s+)?\Z")


def hover(text: str, offset: int, known: Analysis | None, lookup: Lookup) -> str | None:
    """None if there is nothing to say."""
    cursor = cursor_at(text, offset)
    word = text[cursor.start : cursor.end]
    if cursor.place == "template":
        return _in_template(cursor, word, known)
    if cursor.place == "key":
        key = lookup.keys(cursor.path, cursor).get(word)
        return key_text(word, key) if key is not None else None
    if cursor.path and cursor.path[-1] == "kind":
        kinds = lookup.kind_shape(cursor.path[:-1], cursor)
        if kinds is not None and word in kinds.kinds:
            return f"**{word}**: {' '.join(kinds.kinds[word].doc.split())}"
    if known is not None and word in known.steps and (step := known.owner(word)) is not None and step.desc:
        return f"**{word}**: {step.desc}"
    key = lookup.key(cursor.path, cursor)
    return key_text(str(cursor.path[-1]), key) if key is not None and cursor.place == "value" else None


def _in_template(cursor: Cursor, word: str, known: Analysis | None) -> str | None:
    before = cursor.expression[: len(cursor.expression) - len(cursor.word)]
    table = FILTERS if _FILTER.search(before) else TESTS if _TEST.search(before) else FUNCTIONS
    if word in table:
        return builtin_text(table[word])
    scope, _, path = word.partition(".")
    if scope not in SCOPES:
        return None
    text = f"**{scope}**: {SCOPES[scope]}"
    name = path.partition(".")[0]
    if scope == "ctx" and known is not None and name:
        lines = [
            str(known.document.mark(each.start).line)
            for each in known.occurrences
            if each.defines and each.name.kind == "ctx" and each.name.text == name
        ]
        text += f"\n\n`ctx.{name}` is written on line {', '.join(lines)}" if lines else ""
    return text
