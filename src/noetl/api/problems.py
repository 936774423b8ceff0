"""Errors of the API: application/problem+json (RFC 9457)."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from noetl.errors import Mark, Problem, Related
from noetl.views.documents import ProblemDocument


class FieldError(Struct, frozen=True, kw_only=True):
    """A part of a request that is invalid."""

    name: str
    message: str
    where: str  # body, query, path, header


class ProblemDetails(Struct, frozen=True, kw_only=True):
    """Why a request failed, for programs (`code`) and for people (`detail`)."""

    type: str
    title: str
    status: int
    detail: str
    code: str  # stable
    problems: tuple[ProblemDocument, ...] | UnsetType = UNSET  # of a playbook
    execution_id: str | UnsetType = UNSET  # the execution that records a start request that cannot run
    fields: tuple[FieldError, ...] | UnsetType = UNSET  # of the request


def to_problem(problem: ProblemDocument, file: str) -> Problem:
    """The problem with its positions in `file`: the server does not know how the author names the text."""
    related = tuple(
        Related(Mark(file, each.line, each.column), each.note) for each in (problem.related or ())
    )
    at = Mark(file, problem.line, problem.column)
    return Problem(problem.code, problem.severity, problem.message, at, problem.fix or None, related)
