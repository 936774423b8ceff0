"""Rewrites a document of an older dialect in the canonical form (D2).

Comments, order and unchanged lines are preserved, and notes describe every difference in meaning.
`noetl migrate` writes the result and `--dialect auto` reads it, so both use the same playbook.
"""

from __future__ import annotations

from typing import NamedTuple

from noetl.errors import Mark, PlaybookError
from noetl.playbook import source
from noetl.playbook.dialects import parts, v2, v10
from noetl.playbook.dialects.arc_args import inboxes
from noetl.playbook.dialects.detect import DetectedDialect, Dialect, detect
from noetl.playbook.dialects.layout.origins import Origin, author_mark, origins
from noetl.playbook.dialects.layout.reader import read
from noetl.playbook.dialects.layout.tree import Layout, Map, same_content
from noetl.playbook.dialects.layout.writer import write
from noetl.playbook.dialects.notes import Findings, Note
from noetl.playbook.dialects.notes import annotate as write_annotations
from noetl.playbook.dialects.public.comments import placed, restore
from noetl.playbook.dialects.public.rules import normalise
from noetl.playbook.dialects.root_keys import declare_credentials, write_version
from noetl.playbook.dialects.templates import rewrite_templates
from noetl.playbook.dialects.v10 import note_mixed, refuse_reserved
from noetl.playbook.problems import problem, with_advice

__all__ = ["Dialect", "Migration", "Note", "migrate"]


class Migration(NamedTuple):
    """The result of a migration. `dialect` is the dialect of the original text."""

    text: str
    dialect: Dialect
    notes: tuple[Note, ...]
    changed: bool
    places: tuple[Origin, ...] = ()  # where the parts of the text were in the original; empty: it is unchanged

    def author_mark(self, at: Mark) -> Mark:
        """The position in the author's text of a position in the result."""
        return author_mark(self.places, at) if self.places else at


def migrate(text: str, file: str = "<playbook>", *, exact: bool = False, annotate: bool = False) -> Migration:
    """Rewrite a document. Raises PlaybookError with all problems that prevent the migration."""
    layout, newline = _laid_out(text, file)
    findings = Findings(layout)
    root = layout.root
    assert isinstance(root, Map)
    before = detect(layout)
    if write(layout) != layout.text:
        if before.dialect == "canonical" and not before.has("repair"):
            return Migration(text, "canonical", (), False)
        raise _strange(file)
    comments = placed(root)
    public = normalise(layout, findings, exact=exact)
    detected = before if before.dialect != "canonical" else detect(layout)
    refuse_reserved(root, findings)
    note_mixed(detected, findings)
    _raise(findings)
    if detected.dialect == "canonical" and not detected.has("repair") and not public:
        return Migration(text, "canonical", (), False)
    _upgrade(layout, root, detected, findings, exact=exact, public=public)
    _raise(findings)
    restore(root, comments)
    notes = _once(sorted(findings.notes, key=lambda note: (note.at.line, note.at.column)))
    if annotate:
        write_annotations(layout, notes)
    made = write(layout)
    made = ("\ufeff" if text.startswith("\ufeff") else "") + made.replace("\n", newline)
    places = _verify(made, layout) if made != text else ()
    return Migration(made, detected.dialect, tuple(notes), made != text, places)


def _laid_out(text: str, file: str) -> tuple[Layout, str]:
    """The text as a Layout, and its line break. The limits are checked first."""
    document, problems = source.parse(text, file)
    if any(each.severity == "error" for each in problems):
        raise PlaybookError([with_advice(each) for each in problems])
    if not isinstance(document.root, source.Mapping):
        message = "a playbook is a mapping with apiVersion, kind, metadata and workflow"
        raise PlaybookError([problem("not-a-playbook", document.at(()), message)])
    bare = document.text
    newline = "\r\n" if "\r\n" in bare and bare.count("\r\n") == bare.count("\n") else "\n"
    plain = bare.replace("\r\n", "\n") if newline == "\r\n" else bare
    layout = read(plain, file)
    if layout is None or not isinstance(layout.root, Map):
        raise _strange(file)
    return layout, newline


def _strange(file: str) -> PlaybookError:
    message = "the layout of the text does not allow a line-by-line migration"
    return PlaybookError([problem("old-dialect", Mark(file, 1, 1), message, fix="avoid `? key` and mixed line breaks")])


def _upgrade(
    layout: Layout, root: Map, detected: DetectedDialect, findings: Findings, *, exact: bool, public: bool
) -> None:
    if detected.dialect == "canonical":
        for step in parts.steps(root):
            v10.repair(step, findings)
        if public:
            declare_credentials(root, findings)
            write_version(root, findings)
        return
    known = inboxes(root, merges=detected.dialect == "v10")
    rewrite_templates(root, known, findings)
    if detected.dialect == "v2":
        for step in parts.steps(root):
            v2.upgrade(step, findings)
    v10.upgrade(layout, known, findings, exact=exact)
    declare_credentials(root, findings)
    write_version(root, findings)


def _once(notes: list[Note]) -> list[Note]:
    """One note `arc-on-failure` for the whole document; it names the number of further arcs."""
    arcs = [note for note in notes if note.code == "arc-on-failure"]
    if len(arcs) < 2:
        return notes
    first = arcs[0]._replace(message=f"{arcs[0].message}; the same holds for {len(arcs) - 1} more")
    return [first if note is arcs[0] else note for note in notes if note is arcs[0] or note.code != "arc-on-failure"]


def _raise(findings: Findings) -> None:
    if findings.problems:
        raise PlaybookError(sorted(findings.problems, key=lambda each: (each.at.line, each.at.column)))


def _verify(made: str, layout: Layout) -> tuple[Origin, ...]:
    """Check that the result is YAML, has the intended content and is canonical; otherwise raise."""
    document, problems = source.parse(made, layout.file)
    again = None if problems else read(document.text.replace("\r\n", "\n"), layout.file)
    at, fix = Mark(layout.file, 1, 1), "rewrite it by hand"
    if problems:
        why = f"{problems[0].code}: {problems[0].message}"
    elif again is None or not same_content(layout.root, again.root):
        why = "its layout changed"
    else:
        places = origins(layout, again)
        marker = next((marker for marker in detect(again).markers if marker.age in ("v2", "old", "repair")), None)
        if marker is None:
            return places
        why, at = f'"{marker.what}"', author_mark(places, again.mark(marker.at))
        fix = f'"{marker.what}" belongs to an older dialect; write this part in the canonical form, or remove it'
    message = f"this document cannot be migrated automatically ({why})"
    raise PlaybookError([problem("old-dialect", at, message, fix=fix)])
