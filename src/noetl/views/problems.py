"""Problems as data for programs: what `noetl check --format json` prints, and the fixes as edits of the text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from noetl.editor.fixes import Edit, fix_edit
from noetl.errors import Problem
from noetl.output import JSON
from noetl.playbook.source import Document


class ProblemFix(NamedTuple):
    """A fix that says exactly what to write."""

    problem: int  # its place among the problems
    edit: Edit


def problem_document(problem: Problem) -> dict[str, JSON]:
    document: dict[str, JSON] = {
        "code": problem.code,
        "severity": problem.severity,
        "message": problem.message,
        **problem.at._asdict(),
    }
    if problem.fix is not None:
        document["fix"] = problem.fix
    if problem.related:
        document["related"] = [{**each.at._asdict(), "note": each.note} for each in problem.related]
    return document


def fixes_of(document: Document, problems: Sequence[Problem]) -> list[ProblemFix]:
    """In the order of the problems. Problems whose fix is advice have none."""
    found: list[ProblemFix] = []
    for place, problem in enumerate(problems):
        edit = fix_edit(document.text, problem, document.lines.offset(problem.line, problem.column))
        if edit is not None:
            found.append(ProblemFix(place, edit))
    return found


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """The text with all edits, from its end to its start. Of two that overlap, the later one in the text counts."""
    begin = len(text) + 1
    for edit in sorted(dict.fromkeys(edits), reverse=True):
        if edit.end <= begin:
            text, begin = text[: edit.start] + edit.insert + text[edit.end :], edit.start
    return text
