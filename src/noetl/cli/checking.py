"""`noetl check`: every problem of every file, a verdict in words, and the exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from noetl.cli import problems
from noetl.cli.choices import DialectChoice, FormatChoice
from noetl.cli.exits import OK, WRONG, Usage
from noetl.cli.folders import files_in, is_playbook
from noetl.cli.loading import Loaded, Refused, Said, installed, load
from noetl.cli.screen import Screen, is_terminal
from noetl.errors import Problem
from noetl.playbook.kinds import Kinds
from noetl.views.styled_text import Styled

VERDICTS = {
    "sound": Styled("sound: with guards free, every token has a way to its end", "good"),
    "unsound": Styled("not sound: a token can be caught in a circle", "error"),
    "not-provable": Styled("soundness not provable: the target of an arc is a template", "warning"),
    None: Styled("soundness not checked, because of the errors", "faint"),
}


class Finding(NamedTuple):
    """What came of one file."""

    file: str
    text: str
    problems: tuple[Problem, ...]
    verdict: Styled


def run_check(files: Sequence[str], form: FormatChoice, dialect: DialectChoice, *, strict: bool) -> int:
    kinds = installed()
    errors = Screen(sys.stderr)
    findings: list[Finding] = []
    unreadable = False
    reporter = _Reporter(form)
    for loaded in _loaded(files, dialect, kinds, errors):
        if loaded is None:
            unreadable = True
            continue
        if isinstance(loaded, Loaded):
            show_notes(loaded.notes, errors)
        findings.append(_found(loaded))
        reporter.show(findings[-1])
    reporter.finish(findings)
    counted = {"error", "warning"} if strict else {"error"}
    wrong = any(problem.severity in counted for finding in findings for problem in finding.problems)
    return WRONG if wrong or unreadable else OK


def _loaded(
    files: Sequence[str], dialect: DialectChoice, kinds: Kinds, errors: Screen
) -> Iterator[Loaded | Refused | None]:
    """Files as they were named, and of folders all that are playbooks. None: why there is none was said."""
    for given in files:
        is_folder = os.path.isdir(given)
        found = 0
        for file in files_in(given) if is_folder else [given]:
            try:
                loaded = load(file, dialect, kinds)
            except Usage as error:
                errors.line(f"noetl: {error}")
                yield None
                continue
            if is_folder and not is_playbook(loaded):
                errors.line(f"noetl: {file}: skipped: it is no playbook")
                continue
            found += 1
            yield loaded
        if is_folder and not found:
            errors.line(f"noetl: {given}: there is no playbook in this folder")
            yield None


def _found(loaded: Loaded | Refused) -> Finding:
    if isinstance(loaded, Refused):
        return Finding(*loaded, Styled("can not be upgraded", "faint"))
    checked = loaded.checked
    return Finding(checked.document.file, checked.document.text, checked.problems, VERDICTS[checked.verdict])


def show_notes(notes: Sequence[Said], screen: Screen) -> None:
    for note in notes:
        screen.line(f"{note.at}: ", Styled("note", "info"), f": {note.code}: {note.message}")


class _Reporter:
    """Shows findings as they come; JSON is one array, so it waits for all of them."""

    def __init__(self, form: FormatChoice) -> None:
        if form == "auto":
            form = "rich" if is_terminal(sys.stdout) else "plain"
        self.form = form
        self.screen = Screen(sys.stdout, colour=form == "rich")

    def show(self, finding: Finding) -> None:
        if self.form == "json":
            return
        show_problems(finding.problems, finding.text, self.screen, rich=self.form == "rich")
        self.screen.line(
            Styled(finding.file, "strong"),
            ": ",
            *problems.tally(finding.problems),
            "; ",
            finding.verdict,
        )

    def finish(self, findings: Sequence[Finding]) -> None:
        if self.form == "json":
            told = (problem for finding in findings for problem in finding.problems)
            self.screen.stream.write(problems.as_json(told) + "\n")


def show_problems(found: Sequence[Problem], text: str, screen: Screen, *, rich: bool) -> None:
    excerpts = problems.Excerpts(text, screen.columns if rich else problems.SOURCE_COLUMNS_MAX)
    form = problems.for_people if rich else problems.plain
    for problem in found:
        screen.lines(form(problem, excerpts))
