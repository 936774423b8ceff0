"""All exceptions that may cross a package boundary, and Problem: an error in a playbook.

NoetlError
├── PlaybookError   the playbook is invalid         CLI 2
├── Rejected        not permitted now               CLI 1, InputError 2
├── NotFound        no such object                  CLI 1
├── Conflict        another writer was first        internal: reload
├── Fenced          another owner has taken over    internal: stop
├── Unavailable     no answer, result unknown       CLI 3
└── Damaged         stored data is corrupt          CLI 3

A bug is an AssertionError.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeAlias

Severity: TypeAlias = Literal["error", "warning", "info"]


class Mark(NamedTuple):
    """A position in a text; line and column count from 1, as in editors."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Related(NamedTuple):
    """Another position that belongs to a problem."""

    at: Mark
    note: str


class Problem(NamedTuple):
    """One error or warning about a playbook."""

    code: str  # kebab-case, stable, documented: "unknown-step"
    severity: Severity
    message: str
    at: Mark
    fix: str | None = None  # the suggested change, as text or YAML
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
    """The base class of all exceptions of NoETL."""


class PlaybookError(NoetlError):
    """The playbook cannot run; `problems` lists all its errors, or the first ones of `count`."""

    def __init__(self, problems: Iterable[Problem], count: int | None = None) -> None:
        self.problems = tuple(problems)
        self.count = len(self.problems) if count is None else count
        super().__init__()

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))  # on demand: a hostile text has tens of thousands


class Rejected(NoetlError):
    """The request is well-formed but not permitted in the current state."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code


class InputProblem(NamedTuple):
    """Why one value of a request does not fit the inputs that the playbook declares. It never contains the value."""

    name: str
    message: str

    def __str__(self) -> str:
        return f"{self.name}: {self.message}"


class InputError(Rejected):
    """Values of a request do not fit the inputs of the playbook; `problems` lists all of them. Nothing has run."""

    def __init__(self, problems: Iterable[InputProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("bad-input", "; ".join(map(str, self.problems)))


class NotFound(NoetlError):
    """There is no object with that name."""


class Conflict(NoetlError):
    """Another writer appended to this execution first."""


class Fenced(NoetlError):
    """Another process owns this now, and further writes are refused."""


class Unavailable(NoetlError):
    """An external service did not answer. The request may or may not have taken effect."""


class Damaged(NoetlError):
    """Stored data is corrupt. A retry does not help."""


def install_hint(*extras: str) -> str:
    """How to install optional dependencies, by the names of the extras in pyproject.toml.

    The hint names a checkout: the package index has no release of ours yet.
    """
    return f"run `pip install '.[{','.join(extras)}]'` in a checkout of NoETL"
