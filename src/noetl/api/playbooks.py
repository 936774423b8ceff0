"""Requests and responses about playbooks, and problem details of errors."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from noetl.api.executions import VERSION_MAX, Dialect, ExecutionSummary, to_datetime
from noetl.errors import Mark, Problem, Related
from noetl.ports import PlaybookText, PlaybookVersion
from noetl.views.documents import ProblemDocument
from noetl.views.log import instant


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
    execution_id: str | UnsetType = UNSET  # that failed, or that records a start request that cannot run
    kind: str | UnsetType = UNSET  # of the error of an execution that failed
    fields: tuple[FieldError, ...] | UnsetType = UNSET  # of the request


def to_problem(problem: ProblemDocument, file: str) -> Problem:
    """The problem with its positions in `file`: the server does not know how the author names the text."""
    related = tuple(Related(Mark(file, each.line, each.column), each.note) for each in (problem.related or ()))
    at = Mark(file, problem.line, problem.column)
    return Problem(problem.code, problem.severity, problem.message, at, problem.fix or None, related)


class PlaybookTextRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The text of a playbook."""

    text: str
    dialect: Dialect = "canonical"


class CheckResponse(Struct, frozen=True, kw_only=True):
    ok: bool  # there are no errors
    problems: tuple[ProblemDocument, ...]


class UpgradeNote(Struct, frozen=True, kw_only=True):
    """Something that the upgrade of an older dialect could not keep."""

    code: str
    message: str
    line: int
    column: int


class RegisterResponse(Struct, frozen=True, kw_only=True):
    path: str
    version: int
    digest: str
    created: bool  # False: the text was registered before
    problems: tuple[ProblemDocument, ...]  # warnings and advice
    notes: tuple[UpgradeNote, ...] | UnsetType = UNSET  # of an upgrade


class RollbackRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The version that becomes the current one again."""

    path: str
    version: Annotated[int, Meta(ge=1, le=VERSION_MAX)]
    dry_run: bool = False  # only the plan; nothing is changed


class RollbackResponse(Struct, frozen=True, kw_only=True):
    """Which version replaces which, and what that means for triggers."""

    path: str
    version: int  # current afterwards; it keeps its number
    replaces: int  # current before
    digest: str
    triggers: tuple[str, ...]  # that act afterwards
    stopped: tuple[str, ...]  # triggers of the replaced version that no longer act
    done: bool  # False: a dry run


class PlaybookVersionItem(Struct, frozen=True, kw_only=True):
    """One version of a path."""

    path: str
    version: int
    digest: str
    at: str
    current: bool
    archived: bool

    @staticmethod
    def from_version(version: PlaybookVersion) -> PlaybookVersionItem:
        return PlaybookVersionItem(**{**version._asdict(), "at": instant(version.at)})

    def to_version(self) -> PlaybookVersion:
        """Raises msgspec.ValidationError when the time is invalid."""
        at = to_datetime(self.at)
        return PlaybookVersion(self.path, self.version, self.digest, at, self.current, self.archived)


class PlaybookVersionsPage(Struct, frozen=True, kw_only=True):
    items: tuple[PlaybookVersionItem, ...]
    next: str | None = None  # `after` of the next page; None: this is the last page


class PlaybookOverview(Struct, frozen=True, kw_only=True):
    """What the catalog shows of a playbook besides its version."""

    path: str
    description: str
    labels: dict[str, str]
    credentials: tuple[str, ...]  # that its keychain names
    last: ExecutionSummary | None  # the execution that started last; None: it has never run
    next_at: str | None  # when a trigger starts it next; None: no schedule does


class PlaybookOverviewList(Struct, frozen=True, kw_only=True):
    items: tuple[PlaybookOverview, ...]


class CredentialUse(Struct, frozen=True, kw_only=True):
    path: str
    version: int


class CredentialUses(Struct, frozen=True, kw_only=True):
    """The playbooks whose current version names a credential."""

    items: tuple[CredentialUse, ...]
    complete: bool  # False: only the first 1,000 playbooks were searched


class PlaybookDetails(Struct, frozen=True, kw_only=True):
    """A version with its text."""

    path: str
    version: int
    digest: str
    at: str
    current: bool
    archived: bool
    text: str


class PlaybookTextResponse(Struct, frozen=True, kw_only=True):
    digest: str
    path: str
    text: str

    def to_text(self) -> PlaybookText:
        return PlaybookText(self.digest, self.path, self.text)


class PlaybookDiff(Struct, frozen=True, kw_only=True):
    diff: str  # unified
