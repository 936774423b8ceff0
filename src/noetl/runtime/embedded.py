"""The embedded runtime: event store, Control, worker and tools in one process, on one file.

`async with open_embedded(path) as runtime:` runs it. On exit running calls may finish, and nothing is lost.
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from noetl.adapters.files import FileResults
from noetl.adapters.memory import MemoryQueue
from noetl.adapters.sqlite.catalog import SqliteCatalog
from noetl.adapters.sqlite.database import Database, open_sqlite, running_calls_of
from noetl.adapters.sqlite.limits import SqliteLimits
from noetl.adapters.sqlite.ownership import SqliteInbox, SqliteOwnership
from noetl.adapters.sqlite.results import SqliteResults
from noetl.adapters.sqlite.saved import SqliteSaved
from noetl.adapters.sqlite.store import SqliteListing, SqliteRetention, SqliteStore
from noetl.background import BackgroundTasks
from noetl.clock import Clock, SystemClock
from noetl.control.deps import CommitHook, ControlHooks, ControlPorts, ControlSettings, UnavailableHook
from noetl.control.executions import Control
from noetl.control.live_execution import LiveExecution, resolve
from noetl.control.ownership import ExecutionOwners
from noetl.control.playbooks import Playbooks
from noetl.control.refusals import Refusal, record_refusal
from noetl.control.saved import SavedAtStart
from noetl.control.sweeper import adopt, sweep
from noetl.defaults import EMBEDDED_GRACE_S, EMBEDDED_SLOTS, LEASE_S, NOTIFY_WAIT_S, SWEEP_S
from noetl.engine import Event
from noetl.engine.commands import Command, SetBreakpoint, Start
from noetl.engine.facts import ForkOrigin
from noetl.engine.state import LIVE, State, Status
from noetl.errors import Conflict, Fenced, NotFound, Rejected, Unavailable
from noetl.output import JSON
from noetl.playbook.kinds import Kinds
from noetl.playbook.model import Credential
from noetl.ports import EventStore, FetchedCredential, ResultStore
from noetl.runtime.adapters import open_remote_store
from noetl.runtime.settings import Settings
from noetl.runtime.written_calls import WrittenCalls
from noetl.tool import Tools
from noetl.worker.calls import Toolbox
from noetl.worker.keychain import Keychain
from noetl.worker.refs import Lineage, Refs
from noetl.worker.result_stores import NamedStore, ResultStores, StoreSelector
from noetl.worker.task_files import TaskFiles
from noetl.worker.worker import LogLineHook, Worker, WorkerPorts

if TYPE_CHECKING:
    from noetl.adapters.secrets.providers import CredentialProviders
    from noetl.adapters.secrets.stored import StoredSecrets
    from noetl.adapters.sqlite.audit import SqliteAudit
    from noetl.adapters.sqlite.logs import SqliteLogs
    from noetl.adapters.sqlite.secrets import SqliteTokens
    from noetl.adapters.sqlite.sessions import SqliteSessions
    from noetl.adapters.sqlite.triggers import SqliteTriggers

POLL_S = 0.2  # between two reads of the inbox, and between two sweeps during a cancellation
EMBEDDED_WORKER = "here"  # the name of the worker, which serves every pool
OUTAGE_S = 10.0  # after commits have failed for this long, waiting callers receive the error


class LocalStore(NamedTuple):
    """The storage of an embedded runtime, in its database file and beside it."""

    database: Database
    store: SqliteStore
    catalog: SqliteCatalog
    listing: SqliteListing
    inbox: SqliteInbox
    results: ResultStores
    flag: str = ""  # the option for commands in hints, so that they use this file

    @property
    def secrets(self) -> StoredSecrets:
        from noetl.adapters.sqlite.secrets import stored_secrets

        return stored_secrets(self.database)

    @property
    def tokens(self) -> SqliteTokens:
        from noetl.adapters.sqlite.secrets import SqliteTokens

        return SqliteTokens(self.database)

    @property
    def sessions(self) -> SqliteSessions:
        from noetl.adapters.sqlite.sessions import SqliteSessions

        return SqliteSessions(self.database)

    @property
    def audit(self) -> SqliteAudit:
        from noetl.adapters.sqlite.audit import SqliteAudit

        return SqliteAudit(self.database)

    @property
    def saved(self) -> SqliteSaved:
        return SqliteSaved(self.database)

    @property
    def limits(self) -> SqliteLimits:
        return SqliteLimits(self.database)

    @property
    def retention(self) -> SqliteRetention:
        return SqliteRetention(self.database)

    @property
    def triggers(self) -> SqliteTriggers:
        from noetl.adapters.sqlite.triggers import SqliteTriggers

        return SqliteTriggers(self.database)

    @property
    def logs(self) -> SqliteLogs:
        """The lines that tasks print. Raises Rejected when their limits are wrong."""
        from noetl.adapters.sqlite.logs import SqliteLogs

        return SqliteLogs(self.database, Settings.from_environment().log_limits[1])

    def close(self) -> None:
        self.database.close()


def open_local_store(path: Path, clock: Clock | None = None) -> LocalStore:
    """Only the storage: to read executions, and to leave commands for the process that runs them."""
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
    """The configured result stores. Those on the disk are always included: Refs may refer to them.

    Raises Rejected without the address, which may contain a password.
    """
    local = [
        NamedStore("files", FileResults(path.with_name(path.name + "-results"))),
        NamedStore("sqlite", SqliteResults(database)),
    ]
    by_name = {each.kind: each for each in local}
    settings = Settings.from_environment()
    found = [by_name.get(name) or open_remote_store(settings, name) for name in settings.result_stores()]
    return ResultStores([*found, *(each for each in local if each not in found)])


async def record_refused(storage: LocalStore, refusal: Refusal) -> str:
    """Record a request that cannot run (D65) without a running runtime; the id of its execution."""
    clock = storage.database.clock
    id = clock.new_id()
    owners = ExecutionOwners(SqliteOwnership(storage.database))
    await record_refusal(storage.store, owners, id, clock.now(), refusal)
    return id


class ObservedResults:
    """A result store that reports when it is unavailable. Its callers still receive the error."""

    def __init__(self, results: ResultStore, on_unavailable: UnavailableHook) -> None:
        self._results = results
        self._on_unavailable = on_unavailable

    async def put(self, execution_id: str, body: bytes, content_type: str) -> dict[str, JSON]:
        with self._observed():
            return await self._results.put(execution_id, body, content_type)

    async def write(self, execution_id: str, chunks: AsyncIterator[bytes], content_type: str) -> dict[str, JSON]:
        with self._observed():
            return await self._results.write(execution_id, chunks, content_type)

    async def get(self, ref: dict[str, JSON]) -> bytes:
        with self._observed():
            return await self._results.get(ref)

    def read(self, ref: dict[str, JSON]) -> AsyncIterator[bytes]:
        return self._results.read(ref)

    def select(self, wanted: Mapping[str, JSON]) -> ResultStore:
        assert isinstance(self._results, StoreSelector)
        return ObservedResults(self._results.select(wanted), self._on_unavailable)

    @contextmanager
    def _observed(self) -> Iterator[None]:
        try:
            yield
        except Unavailable as error:
            self._on_unavailable(error)
            raise


class LazyProviders:
    """Sources of credentials, imported on first use: that takes 10 ms, and many playbooks need none."""

    def __init__(self, storage: LocalStore, *, served: bool) -> None:
        self._storage = storage
        self._served = served
        self._providers: CredentialProviders | None = None

    async def fetch(self, credential: Credential, *, fresh: bool = False) -> FetchedCredential:
        if self._providers is None:
            from noetl.adapters.secrets.providers import CredentialProviders
            from noetl.adapters.secrets.sources import SourcePolicy

            sources = Settings.from_environment().secret_sources
            policy = SourcePolicy.of_server(*sources) if self._served else SourcePolicy()
            storage = self._storage
            self._providers = CredentialProviders(storage.secrets, storage.database.clock, policy=policy)
        return await self._providers.fetch(credential, fresh=fresh)

    async def close(self) -> None:
        if self._providers is not None:
            await self._providers.close()


def relax_collector() -> None:
    """Collect garbage less often, in a process of our own: programs and states live long.

    This makes loops a tenth faster; cyclic garbage is freed a little later. A first number of 10,000 makes them no
    faster, but single passes take 11 ms instead of 2-4 ms.
    """
    gc.freeze()
    gc.set_threshold(2_500, 20, 80)


_GOING = LIVE - {"paused"}


class RuntimeHooks(NamedTuple):
    """Callbacks for the runtime. Each list is called in order."""

    on_commit: Sequence[CommitHook] = ()
    on_log_line: Sequence[LogLineHook] = ()  # lines and progress of running tools
    on_unavailable: Sequence[UnavailableHook] = ()  # after a failed commit


def _control_settings(settings: Settings, slots: int, *, served: bool) -> ControlSettings:
    """Raises Rejected."""
    return ControlSettings(
        window=2 * slots,
        public_url=settings.public_url.rstrip("/"),
        slot_reserve=settings.slot_reserve_share if served else 0.0,  # `noetl run` has one execution
        state_bytes=settings.state_bytes_max if served else 0,
    )


class EmbeddedRuntime:
    """One process that runs executions."""

    def __init__(
        self,
        storage: LocalStore,
        clock: Clock,
        tools: Tools,
        *,
        store: EventStore | None = None,
        kinds: Kinds | None = None,
        slots: int = EMBEDDED_SLOTS,
        served: bool = False,
        hooks: RuntimeHooks = RuntimeHooks(),  # noqa: B008  # immutable
    ) -> None:
        """`store`: measures that of `storage`. `kinds`: the kinds of the tools, if the caller has them already.

        `served`: the authors of playbooks do not own the machine, so that playbooks may reach less.
        """
        self.storage = storage
        self.clock = clock
        self._store = store or storage.store
        settings = Settings.from_environment()
        self.watchers: list[CommitHook] = [*hooks.on_commit]  # called after each commit
        self.listeners: list[LogLineHook] = [*hooks.on_log_line]
        self.playbooks = Playbooks(
            storage.catalog, tools.kinds() if kinds is None else kinds, lambda path: path.read_text("utf-8")
        )
        self.providers = LazyProviders(storage, served=served)
        self._running, keychain = running_calls_of(storage.database), Keychain(self.providers, clock)
        queue, results = MemoryQueue(), ObservedResults(storage.results, self._on_unavailable)
        self.control = Control(
            ControlPorts(self._store, queue, results, limits=storage.limits, pending=storage.store),
            self.playbooks,
            ExecutionOwners(SqliteOwnership(storage.database)),
            clock,
            _control_settings(settings, slots, served=served),
            hooks=ControlHooks(
                on_commit=(self._on_commit,),
                on_unavailable=(self._on_unavailable, *hooks.on_unavailable),
                on_start=(keychain.resolve_for_start, SavedAtStart(storage.saved)),
                post=storage.inbox.post,
                files=TaskFiles(tools),
                crashes=self._running,
                is_full=lambda _pool, _held: not queue.has_taker,  # the slots are for all pools
            ),
        )
        self.toolbox = Toolbox(tools, Refs(results, self.control), keychain, Lineage(self.control))
        self._slots = slots
        self.worker = self._make_worker(settings, queue, results, keychain)
        self._background = BackgroundTasks(on_error=[self._fail_waiters])
        self._waiters: dict[str, set[asyncio.Future[State]]] = {}  # by execution
        self._outage: asyncio.TimerHandle | None = None

    def _make_worker(self, settings: Settings, queue: MemoryQueue, results: ResultStore, keychain: Keychain) -> Worker:
        name, kept = f"process {os.getpid()}", settings.log_limits[0]
        ports = WorkerPorts(self.control, queue, results, keychain, self.storage.logs if kept else None)
        calls = WrittenCalls(self.toolbox, self._running)
        return Worker(name, ports, calls, self.clock, on_log_line=self.listeners, log_call_bytes=kept)

    # Requests

    async def start(
        self,
        digest: str,
        workload: dict[str, JSON],
        *,
        ctx: dict[str, JSON] | None = None,
        labels: dict[str, str] | None = None,
        execution_id: str | None = None,
        by: str | None = None,
        fork: ForkOrigin | None = None,
        breakpoints: Sequence[SetBreakpoint] = (),
    ) -> str:
        """Start an execution; its request is committed when this returns. `fork`: it keeps work of this one."""
        id = execution_id or self.clock.new_id()
        start = Start(
            workload=workload, ctx=ctx or {}, labels=labels or {}, by=by, fork=fork, breakpoints=tuple(breakpoints)
        )
        await self.control.start(id, digest, start, is_new=execution_id is None)
        return id

    async def refuse(self, refusal: Refusal) -> str:
        """Record a request that cannot run (D65); the id of its execution."""
        id = self.clock.new_id()
        await record_refusal(self._store, self.control.owners, id, self.clock.now(), refusal)
        return id

    async def adopt(self, execution_id: str) -> State:
        """Take ownership of an execution and continue it. Raises NotFound, or Rejected if it has an owner."""
        live = await self.control.load(execution_id)
        await sweep(self.control)
        return live.state

    async def adopt_all(self, execution_ids: Sequence[str]) -> None:
        """Continue those of the executions that have no owner. Those that only wait do not stay in memory."""
        await adopt(self.control, execution_ids)

    async def command(self, execution_id: str, command: Command) -> None:
        await self.control.command(execution_id, command)

    def runs(self, execution_id: str) -> bool:
        """Whether this process runs the execution."""
        return execution_id in self.control.executions or execution_id in self.control.idle

    async def wait_until_idle(self, execution_id: str) -> State:
        """Wait until it has ended or is paused. Raises Unavailable when the disk fails."""
        live = await self.control.load(execution_id)
        if not live.busy and _is_idle(live.state):
            return live.state
        waiter: asyncio.Future[State] = asyncio.get_running_loop().create_future()
        waiters = self._waiters.setdefault(execution_id, set())
        waiters.add(waiter)
        try:
            if live.busy:  # during a commit the state is ahead of the log, so it is read after the commit
                with suppress(Unavailable):  # the commit failed and is repeated
                    if await self.control.read(live, lambda: _is_idle(live.state)):
                        return live.state
            return await waiter
        finally:
            waiters.discard(waiter)
            if not waiters and self._waiters.get(execution_id) is waiters:
                del self._waiters[execution_id]

    async def wait_for_notifications(self) -> dict[str, Status]:
        """Wait for those that started here, at most NOTIFY_WAIT_S; the statuses of those that are not ok."""
        notifications = self.control.notifications
        with suppress(TimeoutError):
            async with asyncio.timeout(NOTIFY_WAIT_S):
                await notifications.started()
                for execution_id in notifications.recent:
                    await self.wait_until_idle(execution_id)
        found = {each: await self._store.status(each) for each in notifications.recent}
        return {each: status for each, status in found.items() if status not in ("ok", None)}

    def _on_commit(self, live: LiveExecution, events: list[Event]) -> None:
        if events and self._outage is not None:  # without events nothing was committed
            self._outage.cancel()
            self._outage = None
        for watcher in self.watchers:
            watcher(live, events)
        if _is_idle(live.state):
            for waiter in self._waiters.pop(live.id, ()):
                resolve(waiter, live.state)

    def _on_unavailable(self, error: Unavailable) -> None:
        """Commits are repeated for a while: the disk may get space, another process may release its lock."""
        if self._outage is None:
            self._outage = asyncio.get_running_loop().call_later(OUTAGE_S, self._fail_waiters, error)

    # Life cycle

    def open(self) -> None:
        for _ in range(self._slots):
            self._background.spawn(self.worker.serve())
        self._background.spawn(self.worker.send_heartbeats(LEASE_S / 3))
        self._background.spawn(self._sweep())
        self._background.spawn(self._poll_inbox())

    def _fail_waiters(self, error: BaseException) -> None:
        """No caller waits forever."""
        for waiters in self._waiters.values():
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_exception(error)
                    waiter.exception()  # retrieved: the caller may be gone
        self._waiters.clear()

    async def _sweep(self) -> None:
        while True:
            executions = self.control.executions.values()
            is_cancelling = any(live.state.status == "cancelling" for live in executions)
            await self.clock.sleep(POLL_S if is_cancelling else SWEEP_S)
            await sweep(self.control)

    async def _poll_inbox(self) -> None:
        while True:
            await self.clock.sleep(POLL_S)
            with suppress(Unavailable):
                for posted in await self.storage.inbox.collect():
                    with suppress(Rejected, NotFound, Conflict, Fenced):
                        await self.control.command(posted.execution_id, posted.command)
                    await self.storage.inbox.done([posted.id])

    async def close(self, grace_s: float = EMBEDDED_GRACE_S) -> None:
        await self.worker.drain(grace_s)
        await self._background.cancel()
        self.control.timers.close()
        await self.toolbox.close()
        await self.worker.close()
        self._running.close()
        await self.providers.close()
        await self.storage.results.close()
        self._fail_waiters(Unavailable("the runtime is closed"))


def _is_idle(state: State) -> bool:
    return state.status not in _GOING


@asynccontextmanager
async def open_embedded(
    path: Path,
    *,
    slots: int = EMBEDDED_SLOTS,
    clock: Clock | None = None,
    hooks: RuntimeHooks = RuntimeHooks(),  # noqa: B008  # immutable
) -> AsyncIterator[EmbeddedRuntime]:
    clock = clock or SystemClock()
    storage = open_local_store(path, clock)
    tools = Tools.installed(user=Settings.from_environment().find_tool_user())
    runtime = EmbeddedRuntime(storage, clock, tools, slots=slots, hooks=hooks)
    runtime.open()
    try:
        yield runtime
    finally:
        await runtime.close()
        storage.close()
