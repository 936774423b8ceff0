"""Errors that belong to requests of a person or a program, beside those of noetl.errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from noetl.errors import NoetlError, PlaybookError, Problem

if TYPE_CHECKING:
    from noetl.session.execution import Result


class UsageError(NoetlError):
    """The request itself is wrong: a missing file, an ambiguous id, options that exclude each other."""


class Unsupported(UsageError):
    """This session cannot do that; the message names the alternative."""


class StartRefused(PlaybookError):
    """A playbook that cannot run was asked to start."""

    def __init__(
        self, problems: Iterable[Problem], text: str, execution_id: str | None = None, not_recorded: str | None = None
    ) -> None:
        super().__init__(problems)
        self.text = text  # that the problems are about
        self.execution_id = execution_id  # under which the request is logged; None: it is not
        self.not_recorded = not_recorded  # why it could not be logged


class ExecutionFailed(NoetlError):
    """An execution did not end with `ok`; `result` has all of it."""

    def __init__(self, result: Result) -> None:
        error = result.error
        reason = f": {error.kind}: {error.message}" if error is not None else ""
        super().__init__(f"execution {result.id} ended with status {result.status}{reason}")
        self.result = result


_INSTEAD = {
    "detach": "--detach needs a server (--server URL): an execution in this process ends with the process",
    "fire": "only a server fires triggers: name it with --server URL, or start the playbook with `noetl run PATH`",
    "gc": "garbage collection works on the database file, not through a server: name the file with --db PATH",
    "workers": "a database file has no workers: each process runs its own executions; --server URL names a server",
    "rotate": "the encryption key is rotated on the database file, not through a server: name the file with --db PATH",
}


def unsupported(verb: str) -> Unsupported:
    """The one place that says what a session cannot do, and what to do instead."""
    return Unsupported(_INSTEAD[verb])
