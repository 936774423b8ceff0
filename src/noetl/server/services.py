"""The services behind the routes, the server's settings, and the thread pool for CPU-bound work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, ParamSpec, Protocol, TypeVar

from noetl.clock import Clock
from noetl.control.playbooks import Playbooks
from noetl.control.refusals import Refusal
from noetl.playbook.kinds import Kinds
from noetl.ports import (
    ApiTokenStore,
    Catalog,
    EventStore,
    ExecutionListing,
    Feed,
    Link,
    ResultStore,
    SecretInfo,
    WorkerRegistry,
)
from noetl.server.errors import ApiError
from noetl.tool import Tools

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


P = ParamSpec("P")
T = TypeVar("T")
THREADS: Final = 2  # few, because result stores read and write on the same thread pool
WAITING_MAX: Final = 64


class CpuPool:
    """Limits how many checks, drawings and comparisons run at the same time."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(THREADS)
        self._waiting = 0

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Raises ApiError when too many requests wait."""
        if self._waiting >= WAITING_MAX:
            detail = f"{WAITING_MAX} other requests wait for the CPU: try again"
            raise ApiError(503, "busy", detail, {"Retry-After": "1"})
        self._waiting += 1
        try:
            async with self._slots:
                return await asyncio.to_thread(work, *args, **kwargs)
        finally:
            self._waiting -= 1


REQUESTS_PER_S: Final = 2_000.0  # of one token, or of one address without a token
REQUESTS_BURST: Final = 4_000.0
SUBSCRIBERS_MAX: Final = 2_000  # of all streams together
HEADERS_S: Final = 15.0  # from the connection, or the first byte of a request, to the end of its headers
BODY_S: Final = 30.0  # between two pieces of a body
UI: Final = Path(__file__).parent / "static"


class Secrets(Protocol):
    """Stored secrets. The API writes values and reads only names and versions."""

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
    listing: ExecutionListing
    catalog: Catalog
    playbooks: Playbooks
    results: ResultStore
    secrets: Secrets
    tokens: ApiTokenStore
    feed: Feed
    workers: WorkerRegistry
    tools: Tools
    kinds: Kinds
    clock: Clock
    record_refusal: Callable[[Refusal], Awaitable[str]]  # writes it to the log (D65); returns the execution id
    is_ready: Callable[[], bool]
    # Resumes an execution without a live owner. None: another server takes such executions over by itself.
    resume_orphan: Callable[[str], Awaitable[None]] | None = None


class ServerSettings(NamedTuple):
    open: bool = False  # no tokens, every caller is an admin: only for a loopback address
    registry: CollectorRegistry | None = None  # what /metrics returns; None: nothing
    requests_per_s: float = REQUESTS_PER_S
    requests_burst: float = REQUESTS_BURST
    subscribers_max: int = SUBSCRIBERS_MAX
    headers_s: float = HEADERS_S
    body_s: float = BODY_S
    connections: int = 0  # at once; 0: as many as the limit of open files permits
    ui: Path = UI  # the folder of the built UI
