"""Every exception that may cross a package border, and the Problem that tells an author what to mend.

NoetlError
├── PlaybookError   the author's text is wrong      CLI 2
├── Rejected        not legal now                   CLI 1
├── NotFound        nothing has that name           CLI 1
├── Conflict        another writer was first        internal: reload
├── Fenced          no longer ours                  internal: stop
├── Unavailable     no answer, outcome unknown      CLI 3
└── Damaged         stored, and spoilt              CLI 3

A bug is an AssertionError: loud.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeAlias

Severity: TypeAlias = Literal["error", "warning", "info"]


class Mark(NamedTuple):
    """Where in the author's text; line and column count from 1, as editors do."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Related(NamedTuple):
    """Another place that has to do with a problem."""

    at: Mark
    note: str


class Problem(NamedTuple):
    """One thing that is wrong, or doubtful, with a playbook."""

    code: str  # kebab-case, stable, documented: "unknown-step"
    severity: Severity
    message: str
    at: Mark
    fix: str | None = None  # what to write instead, in words or YAML
    related: tuple[Related, ...] = ()

    @property
    def file(self) -> str:
        return self.at.file

    @property
    def line(self) -> int:
        return self.at.line

    @property
    def column(self) -> int:
        return self.at.column

    def __str__(self) -> str:
        return f"{self.at}: {self.code}: {self.message}"


class NoetlError(Exception):
    """Base of all errors that NoETL raises on purpose."""


class PlaybookError(NoetlError):
    """The playbook can not run; `problems` says everything that is wrong with it."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class Rejected(NoetlError):
    """The command is well-formed but not legal in the present state."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code


class NotFound(NoetlError):
    """Nothing is stored under that name."""


class Conflict(NoetlError):
    """Another writer appended to this execution first."""


class Fenced(NoetlError):
    """Someone else owns this now; whatever we still try is refused."""


class Unavailable(NoetlError):
    """Something outside did not answer. What was asked for may have happened or not."""


class Damaged(NoetlError):
    """What was stored can not be read again as it was. Trying again does not help."""
