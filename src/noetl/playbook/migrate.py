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
from noetl.playbook.dialects.layout.reader import read
from noetl.playbook.dialects.layout.tree import Layout, Map, same_content
from noetl.playbook.dialects.layout.writer import write
from noetl.playbook.dialects.notes import Findings, Note
from noetl.playbook.dialects.notes import annotate as write_annotations
from noetl.playbook.dialects.root_keys import declare_credentials, write_version
from noetl.playbook.dialects.templates import rewrite_templates
from noetl.playbook.dialects.v10 import refuse_mixed, refuse_reserved, refuse_root_vars
from noetl.playbook.problems import problem

__all__ = ["Dialect", "Migration", "Note", "migrate"]


class Migration(NamedTuple):
    """The result of a migration. `dialect` is the dialect of the original text."""

    text: str
    dialect: Dialect
    notes: tuple[Note, ...]
    changed: bool


def migrate(text: str, file: str = "<playbook>", *, exact: bool = False, annotate: bool = False) -> Migration:
    """Rewrite a document. Raises PlaybookError with all problems that prevent the migration."""
    layout, newline = _laid_out(text, file)
    findings = Findings(layout)
    root = layout.root
    assert isinstance(root, Map)
    detected = detect(layout)
    refuse_reserved(root, findings)
    refuse_root_vars(root, findings)
    refuse_mixed(detected, findings)
    _raise(findings)
    if detected.dialect == "canonical" and not detected.has("repair"):
        return Migration(text, "canonical", (), False)
    if write(layout) != layout.text:
        raise _strange(file)
    _upgrade(layout, root, detected, findings, exact=exact)
    _raise(findings)
    notes = sorted(findings.notes, key=lambda note: (note.at.line, note.at.column))
    if annotate:
        write_annotations(layout, notes)
    made = write(layout)
    made = ("\ufeff" if text.startswith("\ufeff") else "") + made.replace("\n", newline)
    if made != text:
        _verify(made, layout)
    return Migration(made, detected.dialect, tuple(notes), made != text)


def _laid_out(text: str, file: str) -> tuple[Layout, str]:
    """The text as a Layout, and its line break. The limits are checked first."""
    document, problems = source.parse(text, file)
    if any(each.severity == "error" for each in problems):
        raise PlaybookError(problems)
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


def _upgrade(layout: Layout, root: Map, detected: DetectedDialect, findings: Findings, *, exact: bool) -> None:
    if detected.dialect == "canonical":
        for step in parts.steps(root):
            v10.repair(step, findings)
        return
    known = inboxes(root, merges=detected.dialect == "v10")
    rewrite_templates(root, known, findings)
    if detected.dialect == "v2":
        for step in parts.steps(root):
            v2.upgrade(step, findings)
    v10.upgrade(layout, known, findings, exact=exact)
    declare_credentials(root, findings)
    write_version(root, findings)


def _raise(findings: Findings) -> None:
    if findings.problems:
        raise PlaybookError(sorted(findings.problems, key=lambda each: (each.at.line, each.at.column)))


def _verify(made: str, layout: Layout) -> None:
    """Check that the result is YAML, has the intended content and is canonical; otherwise raise."""
    document, problems = source.parse(made, layout.file)
    again = None if problems else read(document.text.replace("\r\n", "\n"), layout.file)
    if problems:
        why = f"{problems[0].code}: {problems[0].message}"
    elif again is None or not same_content(layout.root, again.root):
        why = "its layout changed"
    else:
        marker = next((marker for marker in detect(again).markers if marker.age in ("v2", "old", "repair")), None)
        if marker is None:
            return
        why = f'"{marker.what}"'
    message = f"this document cannot be migrated automatically ({why})"
    raise PlaybookError([problem("old-dialect", Mark(layout.file, 1, 1), message, fix="rewrite it by hand")])
