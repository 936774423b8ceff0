"""The language by topics, for programs that ask about one thing at a time.

Topics are the sections of the language card, each record of the language table, and each problem code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from noetl.playbook.kinds import Kinds
from noetl.playbook.language import language
from noetl.playbook.problems import CODES, ProblemCode
from noetl.playbook.shapes import KeyShape, RecordShape
from noetl.views.language_card import DECISIONS, key_line, language_card, walk_records

OVERVIEW: Final = "overview"
PROBLEMS: Final = "problems"
_SECTIONS: Final = {  # heading of the card → topic
    "Rules": OVERVIEW,
    "Example": "example",
    "Keys": "keys",
    "Scopes in templates": "scopes",
    "Filters, tests, functions": "filters",
    "Tools": "tools",
}


def language_topics(kinds: Kinds, more: Mapping[str, RecordShape] | None = None) -> dict[str, str]:
    """Topic → its text, as Markdown. `more`: further documents with a table, such as test files."""
    found = dict(_sections(kinds))
    found[PROBLEMS] = "\n".join(f"- `{code}` ({each.severity}): {each.meaning}" for code, each in CODES.items())
    for root in (language(kinds), *(more or {}).values()):
        for title, shape, keys in walk_records(root, kinds):
            found.setdefault(title, _record(title, shape, keys))
    for title, root in (more or {}).items():
        found[title] = "\n\n".join(_record(*each) for each in walk_records(root, kinds))
    for code, each in CODES.items():
        found.setdefault(code, _problem(code, each))
    return {topic: DECISIONS.sub("", text) for topic, text in found.items()}


def _sections(kinds: Kinds) -> Iterator[tuple[str, str]]:
    """The overview comes first, with the example."""
    for part in language_card(kinds).split("\n## ")[1:]:
        heading, _, text = part.partition("\n")
        if heading in _SECTIONS:
            yield _SECTIONS[heading], text.strip()


def _record(title: str, shape: RecordShape | None, keys: Mapping[str, KeyShape]) -> str:
    doc = f"{shape.doc}\n\n" if shape is not None and shape.doc else ""
    examples = {name: f" Example: `{key.example}`" if key.example else "" for name, key in keys.items()}
    lines = "\n".join(f"- {key_line(name, key)}.{examples[name]}" for name, key in keys.items())
    return f"**{title}**. {doc}Keys (`*` required, `=` default, `T` may be a template):\n\n{lines}"


def _problem(code: str, each: ProblemCode) -> str:
    return f"`{code}` ({each.severity}): {each.meaning} Fix: {each.fix}"
