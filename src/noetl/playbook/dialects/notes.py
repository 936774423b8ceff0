"""Notes of a migration as comments in the text, each on the line above what it is about.

What a migration has to say: notes on what is not exactly the same, problems where it refuses.

Both carry the place in the text that the author wrote, never in the text that comes out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from noetl.errors import Mark, Problem, Related
from noetl.playbook.dialects.layout.tree import Layout, LayoutEntry, Leaf, List, Map
from noetl.playbook.dialects.layout.writer import is_block
from noetl.playbook.problems import problem

PREFIX = "# migrate: "


def annotate(layout: Layout, notes: list[Note]) -> None:
    """Put each note above the entry that stood nearest before it, unless it is there already."""
    root = layout.root
    if not isinstance(root, Map) or not is_block(root):
        return
    first: dict[int, LayoutEntry] = {}
    for entry in _entries(root):
        if entry.start >= 0:
            first.setdefault(layout.mark(entry.start).line, entry)
    lines = sorted(first)
    existing: dict[int, set[str]] = {}  # by the offset of the entry
    for note in notes:
        position = bisect_right(lines, note.at.line)
        entry = first[lines[position - 1]] if position else root.entries[0]
        comment = PREFIX + note.message
        if entry.start not in existing:
            existing[entry.start] = {above.strip() for above in entry.lead}
        if comment not in existing[entry.start]:
            existing[entry.start].add(comment)
            entry.lead.append(" " * (entry.base or 0) + comment)


def _entries(group: Map | List) -> Iterator[LayoutEntry]:
    """Entries that stand in lines, outermost first."""
    for entry in group.entries:
        yield entry
        if not isinstance(entry.value, Leaf) and is_block(entry.value):
            yield from _entries(entry.value)


NOTES: dict[str, str] = {
    "api-version": "`apiVersion` or `kind` was missing or old and has been written.",
    "arc-on-failure": "In v2 and v10 an arc that does not ask how the step ended carried failures too (D80).",
    "constant-rule": "A rule without a condition got `when: true`.",
    "dropped": "Something without effect has been left out.",
    "else-repaired": "An `else` without `then`, or with `then` beside it, has been put right (D11, D89).",
    "http-body": "`output.data` of an http task is the body of the response (D82).",
    "keychain-stored": "A credential that nothing declared has been declared with kind `stored` (D81).",
    "old-ref": "A reference of the old shape `{store, key, checksum, size}` (D53).",
    "payload-missing": "Not every token brings this key of `args`; without it an older value may be seen.",
    "payload-unread": "`args` of an arc whose target is not in the playbook: nothing reads it.",
    "payload-whole": "`args` of an arc is one value, so its keys are not known.",
    "reference-name": "A reference is written to a name that does not end in `_ref` (D54).",
    "result-name": "A payload read as `result` is read as `data`.",
    "set-prev": "`_prev` can not be written; the value is in `step.prev` (D72).",
    "set-shared": "`set_shared` writes to `ctx`, with a reducer if it named one (D72).",
    "template-in-code": "Code of a python task is never rendered; values come by `input` (D83).",
    "success-left": "A string 'success' in a template with a status, left as it is (D21).",
    "task-names": "Nameless tasks got the names that the dialect gave them (D73).",
    "unknown-outcome": "A part of `outcome` that the old dialects do not have.",
    "unread-template": "A template that can not be read stays as it is.",
    "whole-args": "All of `args` is read at once.",
    "whole-outcome": "All of `outcome` is read at once.",
}


class Note(NamedTuple):
    """Something that is not exactly equivalent, or that was decided; `at` is in the original text."""

    at: Mark
    message: str
    code: str

    def __str__(self) -> str:
        return f"{self.at}: {self.code}: {self.message}"


class Findings:
    """Collects what one migration has to say."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.notes: dict[Note, None] = {}  # in order, each once
        self.problems: dict[Problem, None] = {}

    def note(self, offset: int, code: str, message: str) -> None:
        assert code in NOTES, code
        # One line, whatever the author's words in it are: it may become a comment.
        made = Note(self.layout.mark(offset), " ".join(message.split()), code)
        self.notes.setdefault(made)

    def refuse(
        self,
        offset: int,
        message: str,
        *,
        code: str = "old-dialect",
        fix: str | None = None,
        related: tuple[Related, ...] = (),
    ) -> None:
        self.problems.setdefault(problem(code, self.layout.mark(offset), message, fix=fix, related=related))
