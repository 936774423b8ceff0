"""The embedded house: log, control, worker and tools in this process, on one file, with nothing to install.

`async with open_house(path) as house:` starts it; leaving it lets running calls end, and loses nothing.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from noetl.adapters.files.results import FileResults
from noetl.adapters.memory.queue import MemoryQueue
from noetl.adapters.sqlite.catalog import SqliteCatalog
from noetl.adapters.sqlite.database import Database, open_sqlite
from noetl.adapters.sqlite.inbox import SqliteInbox
from noetl.adapters.sqlite.listing import SqliteListing
from noetl.adapters.sqlite.ownership import SqliteOwnership
from noetl.adapters.sqlite.results import SqliteResults
from noetl.adapters.sqlite.store import SqliteStore
from noetl.clock import Clock, SystemClock
from noetl.control.deps import ControlPorts, ControlSettings
from noetl.control.executions import Control
from noetl.control.live_execution import LiveExecution
from noetl.control.ownership import HeldOwners
from noetl.control.playbooks import Playbooks
from noetl.control.refusals import Refusal, record
from noetl.control.sweeper import sweep
from noetl.engine import Event
from noetl.engine.commands import Command, Start
from noetl.engine.state import State
from noetl.errors import Conflict, Fenced, NotFound, Rejected, Unavailable
from noetl.output import JSON
from noetl.playbook.kinds import Kinds
from noetl.playbook.model import Credential
from noetl.ports import FetchedCredential, ResultStore
from noetl.runtime.background import BackgroundTasks
from noetl.runtime.result_stores import far_results
from noetl.runtime.settings import result_stores, secret_sources
from noetl.tool import Tools
from noetl.worker.calls import Toolbox
from noetl.worker.frame_driver import LogLine
from noetl.worker.keychain import Keychain
from noetl.worker.refs import Refs
from noetl.worker.result_stores import NamedStore, ResultStores, StoreSelector
from noetl.worker.worker import Worker, WorkerPorts

if TYPE_CHECKING:
    from noetl.adapters.secrets.providers import Providers
    from noetl.adapters.secrets.stored import StoredSecrets
    from noetl.adapters.sqlite.tokens import SqliteTokens

Watch: TypeAlias = Callable[[LiveExecution, list[Event]], None]

SLOTS = 64  # calls at once (D87); tools that take a core each have fewer of their own
SWEEP_S = 2.0
HURRY_S = 0.2  # between sweeps while something is being cancelled, and between looks into the inbox
LEASE_S = 30.0
TROUBLE_S = 10.0  # commits fail for so long: whoever waits is told
GRACE_S = 5.0


class LocalStore(NamedTuple):
    """What a house keeps in its file and beside it."""

    database: Database
    store: SqliteStore
    catalog: SqliteCatalog
    listing: SqliteListing
    inbox: SqliteInbox
    results: ResultStores
    flag: str = ""  # what commands in hints carry, so that they find this file

    @property
    def secrets(self) -> StoredSecrets:
        from noetl.adapters.sqlite.secrets import stored_secrets

        return stored_secrets(self.database)

    @property
    def tokens(self) -> SqliteTokens:
        from noetl.adapters.sqlite.tokens import SqliteTokens

        return SqliteTokens(self.database)

    def close(self) -> None:
        self.database.close()


def open_local_store(path: Path, clock: Clock | None = None) -> LocalStore:
    """Only the file: to look at what is there, and to leave commands for whoever runs it."""
    database = open_sqlite(path, clock or SystemClock())
    return LocalStore(
        database=database,
        store=SqliteStore(database),
        catalog=SqliteCatalog(database),
        listing=SqliteListing(database),
        inbox=SqliteInbox(database),
        results=open_results(path, database),
    )


def open_results(path: Path, database: Database) -> ResultStores:
    """The result stores that are configured. Those on the disk are always there: Refs may point into them.

    Raises Rejected, which names no address: one may hold a password.
    """
    near = [
        NamedStore("files", FileResults(path.with_name(path.name + "-results"))),
        NamedStore("sqlite", SqliteResults(database)),
    ]
    by_name = {each.kind: each for each in near}
    found = [by_name[name] if name in by_name else far_results(name) for name in result_stores()]
    return ResultStores([*found, *(each for each in near if each not in found)])


async def record_refused(disk: LocalStore, refusal: Refusal) -> str:
    """A request that can not run, on record all the same (D65) where no house is open: its execution."""
    clock = disk.database.clock
    id = clock.new_id()
    await record(disk.store, HeldOwners(SqliteOwnership(disk.database)), id, clock.now(), refusal)
    return id


class TellingResults:
    """A result store that says when it is away: whoever asks tries again, and people want to know."""

    def __init__(self, results: ResultStore, tell: Callable[[Unavailable], None]) -> None:
        self._results = results
        self._tell = tell

    async def put(self, execution_id: str, body: bytes, content_type: str) -> dict[str, JSON]:
        with self._told():
            return await self._results.put(execution_id, body, content_type)

    async def write(
        self, execution_id: str, chunks: AsyncIterator[bytes], content_type: str
    ) -> dict[str, JSON]:
        with self._told():
            return await self._results.write(execution_id, chunks, content_type)

    async def get(self, ref: dict[str, JSON]) -> bytes:
        with self._told():
            return await self._results.get(ref)

    def read(self, ref: dict[str, JSON]) -> AsyncIterator[bytes]:
        return self._results.read(ref)

    def chosen(self, wanted: Mapping[str, JSON]) -> ResultStore:
        assert isinstance(self._results, StoreSelector)
        return TellingResults(self._results.chosen(wanted), self._tell)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except Unavailable as error:
            self._tell(error)
            raise


class LateProviders:
    """Where credentials come from. A playbook without any does not wait for 10 ms of imports."""

    def __init__(self, disk: LocalStore, *, served: bool) -> None:
        self._disk = disk
        self._served = served
        self._made: Providers | None = None

    async def fetch(self, credential: Credential, *, fresh: bool = False) -> FetchedCredential:
        if self._made is None:
            from noetl.adapters.secrets.providers import Providers
            from noetl.adapters.secrets.sources import SourcePolicy

            policy = SourcePolicy.of_server(*secret_sources()) if self._served else SourcePolicy()
            self._made = Providers(self._disk.secrets, self._disk.database.clock, policy=policy)
        return await self._made.fetch(credential, fresh=fresh)

    async def close(self) -> None:
        if self._made is not None:
            await self._made.close()


def relax_collector() -> None:
    """For a process that is all ours: programs and states live long, and are no garbage.

    To look through them less often makes loops a tenth faster; garbage in circles waits a little longer.
    """
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


class EmbeddedRuntime:
    """One process that runs executions."""

    def __init__(
        self,
        disk: LocalStore,
        clock: Clock,
        tools: Tools,
        *,
        kinds: Kinds | None = None,
        slots: int = SLOTS,
        served: bool = False,
    ) -> None:
        """`kinds`: those of the tools, when the caller has them already: it takes 10 ms to describe them.

        `served`: who writes the playbooks is not who owns the machine.
        """
        self.disk = disk
        self.clock = clock
        known = tools.kinds() if kinds is None else kinds
        self.playbooks = Playbooks(disk.catalog, known, lambda path: path.read_text("utf-8"))
        queue, results = MemoryQueue(), TellingResults(disk.results, self._worry)
        self.control = Control(
            ControlPorts(disk.store, queue, results),
            self.playbooks,
            HeldOwners(SqliteOwnership(disk.database)),
            clock,
            ControlSettings(lease_s=LEASE_S, window=2 * slots),
        )
        self.control.relatives.link = self.control
        self.control.watch, self.control.trouble = self._see, self._worry
        self.providers = LateProviders(disk, served=served)
        keychain = Keychain(self.providers, clock)
        self.control.probe = keychain.probed
        self.toolbox = Toolbox(tools, Refs(results, self.control), keychain)
        self.worker = Worker("here", WorkerPorts(self.control, queue, results, keychain), self.toolbox, clock)
        self.watchers: list[Watch] = []
        self.listeners: list[Callable[[LogLine], None]] = []  # told what tools say while they work
        self.worker.listen = self._hear
        self._slots = slots
        self._chores = BackgroundTasks()
        self._chores.fell = self._tell_all  # whoever waits must not wait for ever
        self._ends: dict[str, asyncio.Future[State]] = {}
        self._trouble: asyncio.TimerHandle | None = None

    # What callers ask

    async def start(
        self,
        digest: str,
        workload: dict[str, JSON],
        *,
        execution_id: str | None = None,
        by: str | None = None,
    ) -> str:
        """It is on record when this returns."""
        id = execution_id or self.clock.new_id()
        await self.control.start(id, digest, Start(workload=workload, by=by))
        return id

    async def refuse(self, refusal: Refusal) -> str:
        """What can not run is on record all the same (D65): the id of its execution."""
        id = self.clock.new_id()
        await record(self.disk.store, self.control.owners, id, self.clock.now(), refusal)
        return id

    async def take_up(self, execution_id: str) -> State:
        """Make it ours, and go on with it where it stands. Raises NotFound, or Rejected: another has it."""
        live = await self.control.live(execution_id)
        await sweep(self.control)
        return live.state

    async def command(self, execution_id: str, command: Command) -> None:
        await self.control.command(execution_id, command)

    async def rest(self, execution_id: str) -> State:
        """Wait until it has ended or is paused. Raises Unavailable when the disk does not take it."""
        live = await self.control.live(execution_id)
        if _is_at_rest(live.state):
            return live.state
        end = self._ends.setdefault(execution_id, asyncio.get_running_loop().create_future())
        return await asyncio.shield(end)

    def _see(self, live: LiveExecution, events: list[Event]) -> None:
        if events and self._trouble is not None:  # without events nothing was committed
            self._trouble.cancel()
            self._trouble = None
        for watcher in self.watchers:
            watcher(live, events)
        if _is_at_rest(live.state) and (end := self._ends.pop(live.id, None)) is not None and not end.done():
            end.set_result(live.state)

    def _hear(self, said: LogLine) -> None:
        for listener in self.listeners:
            listener(said)

    def _worry(self, error: Unavailable) -> None:
        """It is tried again, for a while: space may be made, another process may let go."""
        if self._trouble is None:
            self._trouble = asyncio.get_running_loop().call_later(TROUBLE_S, self._tell_all, error)

    # Its life

    def open(self) -> None:
        for _ in range(self._slots):
            self._chores.run(self.worker.serve())
        self._chores.run(self.worker.beat(LEASE_S / 3))
        self._chores.run(self._sweep())
        self._chores.run(self._look_into_inbox())

    def _tell_all(self, error: BaseException) -> None:
        for end in self._ends.values():
            if not end.done():
                end.set_exception(error)
                end.exception()  # seen: whoever waited may have given up
        self._ends.clear()

    async def _sweep(self) -> None:
        while True:
            hurry = any(live.state.status == "cancelling" for live in self.control.lives.values())
            await self.clock.sleep(HURRY_S if hurry else SWEEP_S)
            await sweep(self.control)

    async def _look_into_inbox(self) -> None:
        while True:
            await self.clock.sleep(HURRY_S)
            with suppress(Unavailable):
                for posted in await self.disk.inbox.collect():
                    with suppress(Rejected, NotFound, Conflict, Fenced):
                        await self.control.command(posted.execution_id, posted.command)
                    await self.disk.inbox.done([posted.id])

    async def close(self, grace_s: float = GRACE_S) -> None:
        await self.worker.leave(grace_s)
        await self._chores.end()
        self.control.timers.close()
        await self.toolbox.close()
        await self.providers.close()
        await self.disk.results.close()
        self._tell_all(Unavailable("the house is closed"))


def _is_at_rest(state: State) -> bool:
    return not state.live or state.status == "paused"


@asynccontextmanager
async def open_embedded(
    path: Path, *, slots: int = SLOTS, clock: Clock | None = None
) -> AsyncIterator[EmbeddedRuntime]:
    clock = clock or SystemClock()
    disk = open_local_store(path, clock)
    house = EmbeddedRuntime(disk, clock, Tools.installed(), slots=slots)
    house.open()
    try:
        yield house
    finally:
        await house.close()
        disk.close()
