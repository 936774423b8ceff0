"""A request that can not run is on record all the same (D65): who asked for what, and why it never began."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from noetl.control.deps import OwnershipRegistry
from noetl.engine.facts import Evaluated, Processed, Requested
from noetl.errors import NotFound, PlaybookError, Problem, Unavailable
from noetl.escape import one_line, shorten
from noetl.net.describe import count
from noetl.output import JSON, Failure
from noetl.playbook.source import Document, Scalar
from noetl.ports import Append, EventStore

PATH_CHARS_MAX: Final = 1_000
PROBLEM_CHARS_MAX: Final = 400  # of the problem that stands on record


class Refusal(NamedTuple):
    """What was asked for, and why it can not be."""

    path: str
    workload: dict[str, JSON]
    error: Failure
    digest: str = ""  # of the text; there may be none
    by: str | None = None


def reason_of(error: NotFound | PlaybookError) -> Failure:
    """Why, as it stands in the log."""
    if isinstance(error, PlaybookError):
        return Failure(kind="problems", message=first_in_words(error.problems))
    return Failure(kind="playbook", message=str(error))


def problems_in_words(found: Sequence[Problem]) -> str:
    errors = sum(problem.severity == "error" for problem in found)
    return f"the playbook has {count(errors, 'problem')}"


def first_in_words(found: Sequence[Problem]) -> str:
    """The same, and which one stands first."""
    words = problems_in_words(found)
    errors = [problem for problem in found if problem.severity == "error"]
    if not errors:
        return words
    code, at = errors[0].code, errors[0].at
    told = shorten(one_line(f"{code}: {errors[0].message}"), PROBLEM_CHARS_MAX)
    return f"{words}, {'the first ' if len(errors) > 1 else ''}at {at.line}:{at.column}: {told}"


def path_in(document: Document) -> str | None:
    """Under which path a text asks to be known, also one with problems; None: nobody can say (D78)."""
    path = document.find(("metadata", "path"))
    if isinstance(path, Scalar) and isinstance(path.value, str) and is_path(path.value):
        return path.value
    return None


def is_path(text: str) -> bool:
    """Whether it can stand on record: every store and every list must be able to take it."""
    return 0 < len(text) <= PATH_CHARS_MAX and text.isprintable()


async def record(
    store: EventStore, owners: OwnershipRegistry, execution_id: str, at: datetime, refusal: Refusal
) -> None:
    """Under a new id, of which we must be the owner. The text is not kept: the catalog holds what can run.

    Raises Unavailable.
    """
    facts = (
        Requested(path=refusal.path, digest=refusal.digest, workload=refusal.workload, by=refusal.by),
        Evaluated(error=refusal.error),
        Processed(status="error"),
    )
    number = await owners.number(execution_id)
    (refused,) = await store.append([Append(execution_id, 1, at, facts, number, "error")])
    owners.ended(execution_id)
    if refused is not None:
        raise Unavailable(f"the request could not be put on record: {refused}") from refused
