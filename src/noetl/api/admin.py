"""Bodies of the routes for credentials, tokens, sessions, workers, and the server itself."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from noetl.api.executions import to_datetime
from noetl.ports import ApiToken, AuditRecord, AuditTrailEntry, RoleGrant, SecretInfo, WebSession, WorkerInfo
from noetl.views.log import instant

EXPIRY_MAX_S: Final = 10 * 366 * 86_400

Scope: TypeAlias = Literal["read", "run", "write", "admin"]


# Credentials


class CredentialItem(Struct, frozen=True, kw_only=True):
    """A stored secret without its value."""

    name: str
    version: int
    at: str  # when it was set

    @staticmethod
    def from_info(info: SecretInfo) -> CredentialItem:
        return CredentialItem(name=info.name, version=info.version, at=instant(info.at))

    def to_info(self) -> SecretInfo:
        """Raises msgspec.ValidationError when the time is invalid."""
        return SecretInfo(self.name, self.version, to_datetime(self.at))


class CredentialList(Struct, frozen=True, kw_only=True):
    items: tuple[CredentialItem, ...]


class CredentialValue(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    value: str


class CredentialStored(Struct, frozen=True, kw_only=True):
    name: str
    version: int


# Tokens


class TokenRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    name: str  # the log records it with the actions of the token's bearer
    scopes: list[Scope] = []
    roles: tuple[RoleGrant, ...] = ()  # instead of scopes
    expires_in_s: Annotated[float, Meta(gt=0, le=EXPIRY_MAX_S)] | None = None  # None: never


class TokenCreated(Struct, frozen=True, kw_only=True):
    id: str
    token: str  # it is not shown again


class ApiTokenItem(Struct, frozen=True, kw_only=True):
    """A token without its secret."""

    id: str
    name: str
    scopes: tuple[str, ...]
    created_at: str
    expires_at: str | None
    roles: tuple[RoleGrant, ...] | UnsetType = UNSET

    @staticmethod
    def from_token(token: ApiToken) -> ApiTokenItem:
        return ApiTokenItem(
            id=token.id,
            name=token.name,
            scopes=tuple(sorted(token.scopes)),
            created_at=instant(token.created_at),
            expires_at=None if token.expires_at is None else instant(token.expires_at),
            roles=token.roles or UNSET,
        )

    def to_token(self) -> ApiToken:
        """Raises msgspec.ValidationError when a time is invalid."""
        expires_at = None if self.expires_at is None else to_datetime(self.expires_at)
        scopes, roles = frozenset(self.scopes), self.roles or ()
        return ApiToken(self.id, self.name, scopes, to_datetime(self.created_at), expires_at, roles)


class TokenList(Struct, frozen=True, kw_only=True):
    items: tuple[ApiTokenItem, ...]


# Sessions


class SessionRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    token: str  # an API token; the session has its rights, and ends with it


class SignInMethods(Struct, frozen=True, kw_only=True):
    """How the web UI can sign in."""

    open: bool  # the server needs no sign-in
    oidc: str | None  # the host of the OpenID Connect provider; null: only API tokens


class SessionItem(Struct, frozen=True, kw_only=True):
    """A session without its secret."""

    id: str
    user: str  # `oidc:SUBJECT`, or `token:ID`
    name: str
    created_at: str
    expires_at: str
    seen_at: str  # of the last request, to the minute
    roles: tuple[RoleGrant, ...] | UnsetType = UNSET  # of a person; a session of a token has the rights of the token

    @staticmethod
    def from_session(session: WebSession) -> SessionItem:
        times = {name: instant(getattr(session, name)) for name in ("created_at", "expires_at", "seen_at")}
        return SessionItem(id=session.id, user=session.user, name=session.name, roles=session.roles or UNSET, **times)


class SessionList(Struct, frozen=True, kw_only=True):
    items: tuple[SessionItem, ...]


# Workers


class RunningFrame(Struct, frozen=True, kw_only=True):
    """What a worker runs now."""

    execution_id: str
    path: str
    frame: str  # the run of a step, or one iteration of it
    task: str | None  # None: its call began less than half a second ago
    since: str


class WorkerItem(Struct, frozen=True, kw_only=True):
    name: str
    pool: str
    slots: int
    busy: int
    host: str
    pid: int
    version: str
    labels: dict[str, str]
    leaving: bool
    at: str  # the time of its last message
    running: tuple[RunningFrame, ...] = ()  # the oldest first

    @staticmethod
    def from_info(info: WorkerInfo, running: tuple[RunningFrame, ...] = ()) -> WorkerItem:
        return WorkerItem(**{**info._asdict(), "at": instant(info.at)}, running=running)


class PoolItem(Struct, frozen=True, kw_only=True):
    pool: str
    workers: int
    slots: int
    busy: int
    waiting: int = 0  # frames that no worker has begun
    oldest_s: float | None = None  # how long the first of them has waited in the queue
    share: int | None = None  # slots that one execution may hold, see NOETL_SLOT_RESERVE; null: not known


class WorkersResponse(Struct, frozen=True, kw_only=True):
    workers: tuple[WorkerItem, ...]
    pools: tuple[PoolItem, ...]
    complete: bool = True  # False: a server has not answered, so that what runs and waits for it is missing


# The server


class HealthResponse(Struct, frozen=True, kw_only=True):
    status: str
    version: str


class WhoamiResponse(Struct, frozen=True, kw_only=True):
    """The name of the caller's token, or of the person who has signed in, and its scopes."""

    name: str
    scopes: tuple[str, ...]
    open: bool  # the server needs no token
    roles: tuple[RoleGrant, ...] | UnsetType = UNSET  # the scopes follow from them, and have their limits


# The audit trail

AuditAction: TypeAlias = Literal[
    "start", "command", "register", "secret", "token", "saved", "sign-in", "sign-out", "denied", "lost"
]


class AuditItem(Struct, frozen=True, kw_only=True):
    """Who did what, when."""

    id: int
    at: str
    action: str
    what: str
    target: str
    who: str
    caller: str
    address: str
    detail: str
    times: int

    @staticmethod
    def from_record(record: AuditRecord) -> AuditItem:
        return AuditItem(id=record.id, **{**record.entry._asdict(), "at": instant(record.entry.at)})

    def to_record(self) -> AuditRecord:
        """Raises msgspec.ValidationError when the time is invalid."""
        fields = {name: getattr(self, name) for name in AuditTrailEntry._fields}
        return AuditRecord(self.id, AuditTrailEntry(**{**fields, "at": to_datetime(self.at)}))


class AuditPage(Struct, frozen=True, kw_only=True):
    items: tuple[AuditItem, ...]
    next: int | None = None
