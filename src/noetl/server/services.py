"""What the API works with: the ports of a house, whichever house it is, and the settings of the door."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

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
    WorkerRegistry,
)
from noetl.tool import Tools

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

REQUESTS_PER_S: Final = 2_000.0  # of one token, or of one address without a token
REQUESTS_BURST: Final = 4_000.0
FOLLOWERS_MAX: Final = 2_000  # of streams, in all
HEADERS_S: Final = 15.0  # from the first byte of a request, or from the connection, to the end of its headers
BODY_S: Final = 30.0  # between two pieces of a body
UI: Final = Path(__file__).parent / "static"


class StoredSecret(Protocol):
    """A secret as people see it."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int: ...

    @property
    def at(self) -> datetime: ...


class Secrets(Protocol):
    """Stored secrets, written and never read: their names and versions, and no value."""

    async def list(self) -> Sequence[StoredSecret]: ...

    async def set(self, name: str, value: str) -> int:
        """Its new version. Raises Rejected when it can not be a secret."""
        ...

    async def remove(self, name: str) -> None:
        """Raises NotFound."""
        ...


class Services(NamedTuple):
    """Whatever a route may reach."""

    link: Link  # to the owner of any execution
    store: EventStore
    listing: ExecutionListing
    catalog: Catalog
    playbooks: Playbooks
    results: ResultStore
    secrets: Secrets
    tokens: ApiTokenStore
    feed: Feed
    roster: WorkerRegistry
    tools: Tools
    kinds: Kinds
    clock: Clock
    refuse: Callable[[Refusal], Awaitable[str]]  # on record (D65): the id of its execution
    is_ready: Callable[[], bool]
    take_up: Callable[[str], Awaitable[None]] | None = None  # what nobody has; None: soon somebody will


class ServerSettings(NamedTuple):
    """How the door is set."""

    open: bool = False  # everyone may do everything: only for an address that no other machine reaches
    registry: CollectorRegistry | None = None  # what /metrics shows; None: nothing
    requests_per_s: float = REQUESTS_PER_S
    requests_burst: float = REQUESTS_BURST
    followers_max: int = FOLLOWERS_MAX
    headers_s: float = HEADERS_S
    body_s: float = BODY_S
    ui: Path = UI  # where the built UI lies
