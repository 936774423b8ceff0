"""Refused requests: a request that cannot run is recorded as a failed execution, with the reason (D65)."""

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
from noetl.playbook.source import Document, Scalar, plain
from noetl.ports import Append, EventStore

PATH_CHARS_MAX: Final = 1_000
PROBLEM_CHARS_MAX: Final = 400  # of the recorded problem


class Refusal(NamedTuple):
    """A request, and why it cannot run."""

    path: str
    workload: dict[str, JSON]
    error: Failure
    digest: str = ""  # of the text, if there is one
    by: str | None = None
    ctx: dict[str, JSON] = {}
    labels: dict[str, str] = {}


def reason_of(error: NotFound | PlaybookError) -> Failure:
    """The reason, as the log records it."""
    if isinstance(error, PlaybookError):
        return Failure(kind="problems", message=describe_first_problem(error.problems))
    return Failure(kind="playbook", message=str(error))


def describe_problems(found: Sequence[Problem], what: str = "the playbook") -> str:
    errors = sum(problem.severity == "error" for problem in found)
    return f"{what} has {count(errors, 'problem')}"


def describe_first_problem(found: Sequence[Problem], what: str = "the playbook") -> str:
    """The number of problems, and the first one."""
    text = describe_problems(found, what)
    errors = [problem for problem in found if problem.severity == "error"]
    if not errors:
        return text
    code, at = errors[0].code, errors[0].at
    first = shorten(one_line(f"{code}: {errors[0].message}"), PROBLEM_CHARS_MAX)
    return f"{text}, {'the first ' if len(errors) > 1 else ''}at {at.line}:{at.column}: {first}"


def path_in(document: Document) -> str | None:
    """The `metadata.path` of a document, even one with problems; None: it has no valid path (D78)."""
    path = document.find(("metadata", "path"))
    if isinstance(path, Scalar) and isinstance(path.value, str) and is_path(path.value):
        return path.value
    return None


def without_secrets(workload: dict[str, JSON], document: Document) -> dict[str, JSON]:
    """The workload without values that belong to inputs which the document, even one with problems, calls secret."""
    declared = plain(document.find(("input",)))
    fields = declared if isinstance(declared, dict) else {}
    secret = {name for name, field in fields.items() if isinstance(field, dict) and field.get("secret") is True}
    return {name: value for name, value in workload.items() if name not in secret}


def is_path(text: str) -> bool:
    """Whether the log can record it: every store and every list must accept it."""
    return 0 < len(text) <= PATH_CHARS_MAX and text.isprintable()


async def record_refusal(
    store: EventStore, owners: OwnershipRegistry, execution_id: str, at: datetime, refusal: Refusal
) -> None:
    """Record it under a new id that we own. The text is not kept: the catalog holds only valid playbooks.

    Raises Unavailable.
    """
    facts = (
        Requested(
            path=refusal.path,
            digest=refusal.digest,
            workload=refusal.workload,
            by=refusal.by,
            ctx=refusal.ctx,
            labels=refusal.labels,
        ),
        Evaluated(error=refusal.error),
        Processed(status="error"),
    )
    number = await owners.number(execution_id)
    (refused,) = await store.append([Append(execution_id, 1, at, facts, number, "error")])
    owners.on_ended(execution_id)
    if refused is not None:
        raise Unavailable(f"the refused request could not be recorded: {refused}") from refused
