"""Text → playbook, program and the problems of all six levels. Commands and server share this check."""

from __future__ import annotations

from typing import NamedTuple

from noetl.checks.advice import check_advice
from noetl.checks.exposed import check_exposed
from noetl.checks.forms import check_forms
from noetl.checks.ineffective import check_effects
from noetl.checks.mcp_arguments import check_mcp_arguments
from noetl.checks.names import CheckedNames, check_names
from noetl.checks.notifications import check_notifications
from noetl.checks.python_code import check_scripts
from noetl.checks.retries import check_retries
from noetl.checks.secret_inputs import check_secret_inputs
from noetl.checks.soundness import Verdict, check_soundness
from noetl.errors import Problem
from noetl.net.compile import compile_playbook
from noetl.net.program import Program
from noetl.playbook.kinds import Kinds
from noetl.playbook.model import Playbook
from noetl.playbook.problems import LATER_ERRORS
from noetl.playbook.reader import ReadResult, read
from noetl.playbook.source import Document
from noetl.playbook.validation import ProblemReport


class Checked(NamedTuple):
    """The result of a check. `program` is None when the text is not a mapping."""

    document: Document
    playbook: Playbook | None
    program: Program | None
    problems: tuple[Problem, ...]  # in the order of the text
    verdict: Verdict | None  # None: unknown, because there are errors before level L5
    names: CheckedNames | None = None  # for the check of a later version

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity == "error")

    @property
    def blocking(self) -> tuple[Problem, ...]:
        """The errors with which not even a playbook can run that an earlier release has accepted."""
        return tuple(problem for problem in self.errors if problem.code not in LATER_ERRORS)


def check(text: str | bytes, kinds: Kinds, file: str = "<playbook>") -> Checked:
    """Read and check one playbook in canonical form. Reports all problems at once."""
    return check_read(read(text, kinds, file), kinds)


def check_read(result: ReadResult, kinds: Kinds, before: Checked | None = None) -> Checked:
    """The rest of the check, of a playbook that was read.

    `before`: the check of an earlier version with the same kinds, of which the unchanged steps are kept.
    """
    document, playbook, problems = result
    if playbook is None:
        return Checked(document, None, None, tuple(problems), None)
    report = ProblemReport(document)
    report.problems = list(problems)
    program = compile_playbook(playbook, kinds, report, before.program if before is not None else None)
    names = check_names(program, kinds, report, before.names if before is not None else None)
    check_scripts(program, report)
    check_mcp_arguments(program, report)
    broken = any(problem.severity == "error" for problem in report.problems)
    verdict = check_soundness(program, report)
    check_effects(program, kinds, report)
    check_notifications(playbook, report)
    check_exposed(playbook, report)
    check_forms(playbook, report)
    check_secret_inputs(program, report)
    check_retries(program, kinds, report)
    check_advice(program, kinds, report)
    ordered = sorted(dict.fromkeys(report.problems), key=lambda each: (each.at.line, each.at.column, each.code))
    return Checked(document, playbook, program, tuple(ordered), None if broken else verdict, names)
