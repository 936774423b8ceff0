"""Problems of a playbook as programs read them: what `noetl check --format json` and the API say alike."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from noetl.errors import Problem, Severity


class PlaceShown(Struct, frozen=True, kw_only=True):
    """Another place that has to do with a problem."""

    file: str
    line: int
    column: int
    note: str


class ProblemShown(Struct, frozen=True, kw_only=True):
    """One thing that is wrong, or doubtful; line and column count from 1."""

    code: str
    severity: Severity
    message: str
    file: str
    line: int
    column: int
    fix: str | UnsetType = UNSET  # what to write instead
    related: tuple[PlaceShown, ...] | UnsetType = UNSET


def problem_shown(problem: Problem) -> ProblemShown:
    related = tuple(
        PlaceShown(file=each.at.file, line=each.at.line, column=each.at.column, note=each.note)
        for each in problem.related
    )
    return ProblemShown(
        code=problem.code,
        severity=problem.severity,
        message=problem.message,
        file=problem.at.file,
        line=problem.at.line,
        column=problem.at.column,
        fix=UNSET if problem.fix is None else problem.fix,
        related=related or UNSET,
    )
