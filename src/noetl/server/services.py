"""The services behind the routes, the server's settings, and the thread pool for CPU-bound work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, ParamSpec, Protocol, TypeVar

from noetl.api.trials import TestsRequest, TestsResponse, WhatIfResponse
from noetl.clock import Clock
from noetl.control.playbooks import Playbooks
from noetl.control.refusals import Refusal
from noetl.control.triggers import Triggers
from noetl.output import JSON
from noetl.playbook.kinds import Kinds
from noetl.playbook.model import Credential
from noetl.ports import (
    ApiTokenStore,
    AuditStore,
    Catalog,
    CurrentWork,
    EventStore,
    Feed,
    FetchedCredential,
    FilteredListing,
    Limits,
    Link,
    LogRow,
    LogStore,
    PlaybookText,
    ResultStore,
    SavedStore,
    SecretInfo,
    SecretInputs,
    WebSessionStore,
    WorkerRegistry,
)
from noetl.server.committed_logs import CommittedLogs
from noetl.server.errors import ApiError
from noetl.server.oidc import OidcSettings
from noetl.server.sessions import SessionLimits
from noetl.slices import computing_thread
from noetl.telemetry.history import MetricsHistory
from noetl.tool import Tools
from noetl.views.pools import ShareWait

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from noetl.server.analysis_processes import AnalysisProcesses


P = ParamSpec("P")
T = TypeVar("T")
THREADS: Final = 2  # few, because result stores read and write on the same thread pool
WAITING_MAX: Final = 64
SHARE_THREADS: Final = 1  # of one token; Python's lock lets two threads of one token compute no faster than one
SHARE_WAITING_MAX: Final = 32

# The token of the request that is being served, for shares of the CPU. "": there is none.
requester: Final[ContextVar[str]] = ContextVar("requester", default="")


class CpuPool:
    """Limits how many checks, drawings and comparisons run at the same time, in all and for each token."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(THREADS)
        self._waiting = 0
        self._shares: dict[str, _Share] = {}  # of tokens with requests

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """In a thread. Raises ApiError when too many requests wait."""
        async with self.turn():
            with computing_thread():
                return await asyncio.to_thread(work, *args, **kwargs)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """A slot for work in a thread or a process. Raises ApiError when too many requests wait."""
        token = requester.get()
        share = self._shares.get(token) or _Share()
        if self._waiting >= WAITING_MAX or share.waiting >= SHARE_WAITING_MAX:
            is_own = share.waiting >= SHARE_WAITING_MAX
            who = f"{share.waiting} requests with this token" if is_own else f"{self._waiting} other requests"
            detail = f"{who} wait for the CPU: try again"
            raise ApiError(503, "busy", detail, {"Retry-After": "1"})
        self._shares[token] = share
        self._waiting += 1
        share.waiting += 1
        try:
            # First the share: requests of a token that uses all of it do not wait in front of other tokens.
            async with share.slots, self._slots:
                yield
        finally:
            self._waiting -= 1
            share.waiting -= 1
            if not share.waiting:
                del self._shares[token]


class _Share:
    """The part of the pool that one token may use."""

    def __init__(self) -> None:
        self.slots = asyncio.Semaphore(SHARE_THREADS)
        self.waiting = 0  # with those that run


REQUESTS_PER_S: Final = 2_000.0  # of one token, or of one address without a token
REQUESTS_BURST: Final = 4_000.0
SUBSCRIBERS_MAX: Final = 2_000  # of all streams together
HEADERS_S: Final = 15.0  # from the connection, or the first byte of a request, to the end of its headers
BODY_S: Final = 30.0  # between two pieces of a body
UI: Final = Path(__file__).parent / "static"


class Secrets(SecretInputs, Protocol):
    """Stored secrets, and secret inputs. The API writes values and reads only names and versions."""

    async def list(self) -> Sequence[SecretInfo]: ...

    async def set(self, name: str, value: str) -> int:
        """Store a value. Returns its version. Raises Rejected when the name or the value is invalid."""
        ...

    async def remove(self, name: str) -> None:
        """Raises NotFound."""
        ...


class Services(NamedTuple):
    """Everything that a route may use."""

    link: Link  # to the owner of any execution
    store: EventStore
    committed: CommittedLogs  # of the executions that requests wait for
    listing: FilteredListing
    catalog: Catalog
    playbooks: Playbooks
    results: ResultStore
    secrets: Secrets
    tokens: ApiTokenStore
    sessions: WebSessionStore
    audit: AuditStore
    logs: LogStore
    feed: Feed
    workers: WorkerRegistry
    tools: Tools
    kinds: Kinds
    clock: Clock
    record_refusal: Callable[[Refusal], Awaitable[str]]  # writes it to the log (D65); returns the execution id
    saved: SavedStore
    limits: Limits
    is_ready: Callable[[], bool]
    delete: Callable[[Sequence[str]], Awaitable[list[str]]]  # finished executions; returns the ids that are gone
    triggers: Triggers
    fetch_secret: Callable[[Credential], Awaitable[FetchedCredential]]  # for webhooks. Raises NotFound or Unavailable
    current_work: Callable[[], Awaitable[CurrentWork]]  # of all servers that answer
    share_of: Callable[[str], int]  # pool → the slots that one execution may hold; it may exceed the slots of the pool
    share_waits: Callable[[str], Awaitable[Sequence[ShareWait]]]  # of any execution; none if its owner does not answer
    # Resumes an execution without a live owner. None: another server takes such executions over automatically.
    resume_orphan: Callable[[str], Awaitable[None]] | None = None


class AgentEndpoint(Protocol):
    """The tools for agents, at `/mcp`. It sends its requests to the application itself, with the caller's token."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None: ...

    async def close(self) -> None: ...


class RecordReads(Protocol):
    """What a what-if may read for its caller: logs, and the texts and results that they name. Raises NotFound."""

    async def rows(self, execution_id: str) -> Sequence[LogRow]: ...

    async def text(self, digest: str) -> PlaybookText: ...

    async def result(self, ref: dict[str, JSON]) -> bytes: ...


class WhatIfSpec(NamedTuple):
    text: str
    executions: tuple[str, ...]
    on_miss: Literal["fail", "null"]


class Trials(Protocol):
    """Runs tests and what-ifs, without calls, with limits of time and memory.

    Both raise Rejected when a limit is reached, and Unavailable when too many wait.
    """

    async def test(self, request: TestsRequest) -> TestsResponse: ...

    async def what_if(self, spec: WhatIfSpec, reads: RecordReads) -> WhatIfResponse: ...


class ServerSettings(NamedTuple):
    open: bool = False  # no tokens, every caller is an admin: only for a loopback address
    registry: CollectorRegistry | None = None  # what /metrics returns; None: nothing
    history: MetricsHistory | None = None  # the course of the metrics; None: it is not kept
    requests_per_s: float = REQUESTS_PER_S
    requests_burst: float = REQUESTS_BURST
    subscribers_max: int = SUBSCRIBERS_MAX
    headers_s: float = HEADERS_S
    body_s: float = BODY_S
    connections: int = 0  # at once; 0: as many as the limit of open files permits
    ui: Path = UI  # the folder of the built UI
    public_url: str = ""  # the address that browsers use, without a path; "": the host of the request
    oidc: OidcSettings | None = None  # None: only tokens
    sessions: SessionLimits = SessionLimits()
    # Makes the tools for agents of an application. None: it has none.
    agents: Callable[[Callable[[Any, Any, Any], Awaitable[None]]], AgentEndpoint] | None = None
    trials: Trials | None = None  # None: the server runs no tests and no what-ifs
    analyses: AnalysisProcesses | None = None  # for large texts. None: threads analyse them
