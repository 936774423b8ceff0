"""What a server answers with, as data; and its problem+json as the errors that everyone here knows.

Fields that we do not know are passed over: a server may be newer than its client.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from noetl.engine.facts import Fact
from noetl.engine.state import Status
from noetl.errors import (
    Damaged,
    Mark,
    NoetlError,
    NotFound,
    PlaybookError,
    Problem,
    Rejected,
    Related,
    Severity,
    Unavailable,
)
from noetl.output import JSON
from noetl.ports import ApiToken, ExecutionHead, LogRow, PlaybookVersion

T = TypeVar("T")
DETAIL_CHARS_MAX: Final = 2_000  # of what a stranger says; more is not repeated
_TRY_LATER: Final = frozenset({429, 500, 502, 503, 504, 507})


class PlaceSeen(Struct, frozen=True, kw_only=True):
    file: str = ""
    line: int = 1
    column: int = 1
    note: str = ""


class ProblemSeen(Struct, frozen=True, kw_only=True):
    """One thing that is wrong with a playbook, as `noetl check --format json` tells it."""

    code: str
    message: str
    severity: Severity = "error"
    file: str = ""
    line: int = 1
    column: int = 1
    fix: str | None = None
    related: tuple[PlaceSeen, ...] = ()

    def told(self, file: str) -> Problem:
        """`file`: how its author calls the text, which the server does not know."""
        related = tuple(Related(Mark(file, each.line, each.column), each.note) for each in self.related)
        at = Mark(file, self.line, self.column)
        return Problem(self.code, self.severity, self.message, at, self.fix, related)


class Trouble(Struct, frozen=True, kw_only=True):
    """application/problem+json."""

    title: str = ""
    detail: str = ""
    code: str = ""
    problems: tuple[ProblemSeen, ...] = ()
    execution_id: str | None = None  # under which a request that can not run is on record


class PlaybookRefused(PlaybookError):
    """A request to run it is on record, under an execution that never began (D65)."""

    def __init__(self, problems: Iterable[Problem], execution_id: str) -> None:
        super().__init__(problems)
        self.execution_id = execution_id


class Registered(Struct, frozen=True, kw_only=True):
    """A text that the catalog has."""

    path: str
    version: int
    digest: str
    created: bool = True  # False: it had it already
    problems: tuple[ProblemSeen, ...] = ()  # warnings


class Told(Struct, frozen=True, kw_only=True):
    """An execution, and how it stands."""

    execution_id: str
    status: str
    problems: tuple[ProblemSeen, ...] = ()  # of a text that was started: warnings


class HeadSeen(Struct, frozen=True, kw_only=True):
    """An execution as lists show it."""

    execution_id: str
    path: str
    digest: str
    status: Status
    seq: int
    started_at: datetime
    updated_at: datetime
    parent: str | None = None
    owner_alive: bool = True

    def head(self) -> ExecutionHead:
        return ExecutionHead(
            self.execution_id, self.path, self.digest, self.status, self.seq, self.started_at,
            self.updated_at, self.parent, None, self.owner_alive,
        )  # fmt: skip


class HeadsPage(Struct, frozen=True, kw_only=True):
    items: tuple[HeadSeen, ...]
    next: JSON = None  # None: there are no more


class BranchSeen(Struct, frozen=True, kw_only=True):
    """An execution, and those that its steps have started."""

    execution: HeadSeen
    children: tuple[BranchSeen, ...] = ()


class Last(Struct, frozen=True, kw_only=True):
    execution_id: str


class RowSeen(Struct, frozen=True, kw_only=True):
    first_seq: int
    at: datetime
    facts: tuple[Fact, ...]

    def row(self) -> LogRow:
        return LogRow(self.first_seq, self.at, self.facts)


class RowsPage(Struct, frozen=True, kw_only=True):
    items: tuple[RowSeen, ...]
    next: JSON = None


class Found(Struct, frozen=True, kw_only=True):
    ids: tuple[str, ...]


class TextSeen(Struct, frozen=True, kw_only=True):
    digest: str
    path: str
    text: str


class VersionSeen(Struct, frozen=True, kw_only=True):
    path: str
    version: int
    digest: str
    at: datetime
    current: bool = True
    archived: bool = False

    def told(self) -> PlaybookVersion:
        return PlaybookVersion(self.path, self.version, self.digest, self.at, self.current, self.archived)


class VersionsPage(Struct, frozen=True, kw_only=True):
    items: tuple[VersionSeen, ...]
    next: JSON = None


class CredentialSeen(Struct, frozen=True, kw_only=True):
    """A stored secret: never its value."""

    name: str
    version: int
    at: datetime


class TokenSeen(Struct, frozen=True, kw_only=True):
    """Who may ask for what: never what opens the door."""

    id: str
    name: str
    scopes: frozenset[str]
    created_at: datetime
    expires_at: datetime | None = None

    def told(self) -> ApiToken:
        return ApiToken(self.id, self.name, self.scopes, self.created_at, self.expires_at)


class TokensPage(Struct, frozen=True, kw_only=True):
    items: tuple[TokenSeen, ...]


class TokenMade(Struct, frozen=True, kw_only=True):
    id: str
    token: str  # this once


class CredentialsPage(Struct, frozen=True, kw_only=True):
    items: tuple[CredentialSeen, ...]


class Stored(Struct, frozen=True, kw_only=True):
    name: str
    version: int


class Ended(Struct, frozen=True, kw_only=True):
    """What a stream says last."""

    status: str = ""


def read(body: bytes, kind: type[T], url: str) -> T:
    """Raises Unavailable when a stranger answers, or a server that speaks otherwise than we do."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        words = f"{url} answers as no NoETL server does that this noetl knows ({error})"
        raise Unavailable(f"{words}: is the address right, and is the server not newer?") from error


def refusal(status: int, body: bytes, url: str, file: str = "playbook") -> NoetlError:
    """What an answer that is no success means for whoever asked."""
    try:
        trouble = msgspec.json.decode(body, type=Trouble)
    except (msgspec.DecodeError, UnicodeDecodeError):
        trouble = Trouble()
    said = (trouble.detail or trouble.title)[:DETAIL_CHARS_MAX].removeprefix(f"{trouble.code}: ")
    if trouble.problems:
        problems = tuple(each.told(file) for each in trouble.problems)
        id = trouble.execution_id
        return PlaybookError(problems) if id is None else PlaybookRefused(problems, id)
    if 300 <= status < 400:
        return Unavailable(f"{url} sends us elsewhere (HTTP {status}): give the address of the server itself")
    if trouble.code == "damaged":
        return Damaged(said)
    if status in _TRY_LATER:
        return Unavailable(f"{url} can not do it now: {said or f'HTTP {status}'}")
    if not trouble.code and not said:
        return Unavailable(f"{url} answers with HTTP {status}, and not as a NoETL server does")
    if status == 401:
        return Rejected(trouble.code or "unauthorized", f"{said}; {_TOKEN}")
    if status == 404:
        on_record = f"; the request is on record as {trouble.execution_id}" if trouble.execution_id else ""
        return NotFound(f"{said}{on_record}")
    return Rejected(trouble.code or f"http-{status}", said or f"HTTP {status}")


_TOKEN: Final = "a token comes from NOETL_TOKEN, or from `noetl context set NAME URL --token-file FILE`"
