"""A session on a database file: executions run in this process, by the embedded runtime."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from noetl.clock import Clock, SystemClock
from noetl.control.log_pages import PAGE_FACTS
from noetl.control.refusals import Refusal, path_in, reason_of, without_secrets
from noetl.control.roles import INCLUDES
from noetl.control.run_records import RunRecords
from noetl.control.secret_inputs import check_inputs, secrets_of_fork, stored_secrets
from noetl.defaults import POOL
from noetl.engine.commands import Cancel, Command, Pause, Resume, Retry, SetBreakpoint, Signal
from noetl.engine.facts import Cancelled, Paused, Requested
from noetl.engine.state import LIVE, Status
from noetl.errors import Damaged, InputError, InputProblem, PlaybookError, Rejected, Unavailable
from noetl.labels import changed_labels, check_labels, label_texts
from noetl.output import JSON
from noetl.playbook.kinds import Kinds
from noetl.playbook.model import Playbook
from noetl.runtime.embedded import (
    EmbeddedRuntime,
    LocalStore,
    RuntimeHooks,
    open_local_store,
    record_refused,
    relax_collector,
)
from noetl.runtime.settings import Settings
from noetl.session.catalog import PlaybookCatalog
from noetl.session.declared import ANYTHING, WorkloadSource, declared_in, values_for
from noetl.session.errors import StartRefused, UsageError, unsupported
from noetl.session.execution import (
    Execution,
    SessionVerbs,
    StartNotes,
    last_seq,
    until_ended,
)
from noetl.session.local_admin import AuditedSaved, AuditedSecrets, StoredTokens, local_entry
from noetl.session.protocol import GRACE_S, ExecutionInfo, ForkSpec, Observer
from noetl.session.sources import (
    Dialect,
    LoadedPlaybook,
    PlaybookFile,
    digest_of,
    document_of,
    find_registered,
    find_source,
    load,
    load_text,
    unknown_playbook,
)
from noetl.tool import Tools
from noetl.views.documents import ShowDocument, show_document
from noetl.views.runs import Runs

if TYPE_CHECKING:
    from noetl.api.admin import WorkersResponse
    from noetl.api.bulk import BulkItem, BulkRequest
    from noetl.api.playbooks import RollbackResponse
    from noetl.errors import Problem
    from noetl.fork.plan import ForkPlan
    from noetl.net.inputs import Inputs
    from noetl.ports import (
        Catalog,
        ExecutionListing,
        LogRow,
        SavedStore,
        SecretProvider,
    )
    from noetl.session.debugger import Debugger
    from noetl.session.garbage import GarbageReport
    from noetl.session.protocol import LogReader, PrintedReader, ResultReader, SecretAdmin, TokenAdmin, TriggerAdmin

POLL_S: Final = 0.2
OWN_POLL_S: Final = 0.02  # of an execution that this process runs
POLLS_PER_OWNER_CHECK: Final = 10  # polls without a change until the owner is looked for
KEY_CHARS_MAX: Final = 255


def _ignored(playbook: Playbook) -> tuple[str, ...]:
    """Keys that select something in a cluster only."""
    found = []
    if playbook.executor.profile == "distributed":
        found.append("executor.profile is distributed, but this execution is embedded; --server runs it on workers")
    specs = [playbook.executor.spec, *(owner.spec for owner in playbook.pipelines)]
    if any(spec.get("pool", POOL) != POOL for spec in specs):
        found.append("spec.pool has no effect here: an embedded execution has a single pool")
    return tuple(found)


class InstalledTools(NamedTuple):
    """The tools of this environment, described once."""

    tools: Tools
    kinds: Kinds

    @classmethod
    def load(cls) -> InstalledTools:
        """Raises Rejected if programs cannot run as NOETL_TOOL_USER."""
        tools = Tools.installed(user=Settings.from_environment().find_tool_user())
        return cls(tools, tools.kinds())


class LocalSession(SessionVerbs):
    """The file is opened at first use, and the runtime at the first start, resume or retry."""

    runs_here = True
    untold: Mapping[str, Status] = MappingProxyType({})

    def __init__(
        self, path: Path, *, hint: str = "", create: bool = True, dedicated: bool = False, clock: Clock | None = None
    ) -> None:
        """`create`: make the file when it does not exist; else using it raises UsageError.

        `dedicated`: this process does nothing but run executions; its garbage collector is tuned for that.
        """
        self.hint = hint
        self.clock = clock or SystemClock()
        self.playbooks = PlaybookCatalog(lambda: self.catalog, self._declare)
        self._path = path
        self._create = create
        self._dedicated = dedicated
        self._store: LocalStore | None = None
        self._runtime: EmbeddedRuntime | None = None
        self._ours: set[str] = set()  # executions that this session started, resumed or retried
        self._observers: list[Observer] = []

    async def __aenter__(self) -> LocalSession:
        if not self._create:
            _ = self.store
        return self

    async def drain(self, grace_s: float = GRACE_S) -> None:
        if self._runtime is not None:
            runtime, self._runtime = self._runtime, None
            await runtime.close(grace_s)
            self._ours.clear()

    async def close(self) -> None:
        await self.drain()
        if self._store is not None:
            store, self._store = self._store, None
            await store.results.close()
            store.close()

    async def scopes(self) -> frozenset[str]:
        return INCLUDES["admin"]

    # Ports

    @property
    def store(self) -> LocalStore:
        if self._store is None:
            if not self._create and not self._path.exists():
                raise UsageError(
                    f"{self._path}: there is no such database: nothing has run there yet; --db names another file"
                )
            self._store = open_local_store(self._path, self.clock)
        return self._store

    @property
    def listing(self) -> ExecutionListing:
        return self.store.listing

    @property
    def log(self) -> LogReader:
        return self.store.store

    @property
    def logs(self) -> PrintedReader:
        return self.store.logs

    @property
    def results(self) -> ResultReader:
        return self.store.results

    @property
    def catalog(self) -> Catalog:
        return self.store.catalog

    @property
    def secrets(self) -> SecretAdmin:
        return AuditedSecrets(self.store.secrets, self.clock, self.store.audit)

    @property
    def tokens(self) -> TokenAdmin:
        return StoredTokens(self.store.tokens, self.clock, self.store.audit)

    @property
    def saved(self) -> SavedStore:
        return AuditedSaved(self.store.saved, self.clock, self.store.audit)

    @cached_property
    def installed(self) -> InstalledTools:
        return InstalledTools.load()

    async def check_storage(self) -> list[str]:
        rows = self.store.database.fetch("PRAGMA quick_check")
        return [str(finding) for (finding,) in rows if finding != "ok"]

    async def collect_garbage(self, older_than_s: float, *, dry_run: bool = False) -> GarbageReport:
        from noetl.session.garbage import collect_garbage

        return await collect_garbage(self.store, older_than_s, dry_run=dry_run)

    # Start

    async def check(self, playbook: str | Path | PlaybookFile, *, dialect: Dialect = "canonical") -> list[Problem]:
        return list((await self.load(find_source(playbook), None, dialect))[0].problems)

    async def start(
        self,
        playbook: str | Path | PlaybookFile,
        *,
        workload: WorkloadSource | None = None,
        ctx: WorkloadSource | None = None,
        labels: Mapping[str, str] | None = None,
        key: str | None = None,
        version: int | None = None,
        dialect: Dialect = "canonical",
        breakpoints: Sequence[SetBreakpoint] = (),
        secrets: Mapping[str, str] | None = None,
    ) -> Execution:
        source, marks = find_source(playbook), dict(labels or {})
        check_labels(marks)
        loaded, digest = await self.load(source, version, dialect)
        checked = loaded.runnable
        if checked is None or checked.playbook is None:
            raise await self._refuse(loaded, values_for(workload, ANYTHING), values_for(ctx, ANYTHING), marks)
        declared = declared_in(checked.document)
        values, first = values_for(workload, declared), values_for(ctx, declared)
        if checked.program is not None and checked.program.inputs is not None:
            values = find_files(checked.program.inputs, values)
        if checked.program is not None:
            check_inputs(checked.program, values, secrets or {})
        notes = StartNotes(loaded.problems, loaded.notes, declared, _ignored(checked.playbook))
        execution_id = self.clock.new_id() if key is None else _derived_id(key)
        if key is not None and await self.store.store.status(execution_id) is not None:
            await self._compare(execution_id, digest or digest_of(loaded.canonical), values, first)
            return await self._continue(Execution(self, execution_id, notes))
        runtime = self._running()
        if digest is None:
            origin = source.origin if isinstance(source, PlaybookFile) else None
            digest = await runtime.playbooks.add(loaded.canonical, origin, checked)
        self._ours.add(execution_id)
        async with stored_secrets(self.store.secrets, execution_id, secrets) if secrets else nullcontext():
            await runtime.start(
                digest, values, ctx=first, labels=marks, execution_id=execution_id, breakpoints=breakpoints
            )
        return Execution(self, execution_id, notes)

    async def _declare(self, digest: str) -> None:
        """The triggers of a registered playbook act as soon as a server runs on this file."""
        from noetl.control.playbooks import CompiledPlaybooks
        from noetl.control.triggers import declare

        program = await CompiledPlaybooks(self.catalog, self.installed.kinds).by_digest(digest)
        await declare(self.store.triggers, program, self.clock.now())

    @property
    def triggers(self) -> TriggerAdmin:
        from noetl.session.triggers import LocalTriggers

        return LocalTriggers(self.store.triggers, self.clock)

    async def load(
        self, source: PlaybookFile | str, version: int | None, dialect: Dialect
    ) -> tuple[LoadedPlaybook, str | None]:
        """Checked; and its digest, if it is registered and stays as it is."""
        if isinstance(source, PlaybookFile):
            if version is not None:
                raise UsageError(f"{source.name}: only registered playbooks have versions, files have none")
            return load(source, dialect, self.installed.kinds), None
        if self._store is None and not self._path.exists():
            raise unknown_playbook(source)
        text = await find_registered(self.catalog, source, version)
        return load_text(text, self.installed.kinds), text.digest

    async def _refuse(
        self, loaded: LoadedPlaybook, workload: dict[str, JSON], ctx: dict[str, JSON], labels: dict[str, str]
    ) -> StartRefused:
        """The request is logged all the same (D65, D78), unless the text has no path."""
        id = reason = None
        path = path_in(document_of(loaded))
        if path is not None:
            failure = reason_of(PlaybookError(loaded.problems))
            try:
                values = without_secrets(workload, document_of(loaded))
                refusal = Refusal(path, values, failure, digest_of(loaded.canonical), ctx=ctx, labels=labels)
                id = await record_refused(self.store, refusal)
            except Unavailable as error:
                reason = str(error)
        return StartRefused(loaded.problems, loaded.text, id, reason)

    async def _compare(self, execution_id: str, digest: str, workload: dict[str, JSON], ctx: dict[str, JSON]) -> None:
        """Raises Rejected when the key belongs to another request."""
        rows = await self.log.read(execution_id, 0, 1)
        first = rows[0].facts[0] if rows else None
        if not isinstance(first, Requested):
            raise Damaged(f"the log of {execution_id} does not begin with a request: see noetl audit")
        if (first.digest, first.workload, first.ctx) != (digest, workload, ctx):
            raise Rejected("idempotency-mismatch", "this key was used for another start: use a new key")

    async def _continue(self, execution: Execution) -> Execution:
        """An execution that was interrupted continues here; one that is paused, ended or running is left."""
        if (await execution.info()).standing == "interrupted":
            await self.resume(execution.id)
        return execution

    def _running(self) -> EmbeddedRuntime:
        if self._runtime is None:
            tools, kinds = self.installed
            hooks = RuntimeHooks(
                on_commit=[observer.watch for observer in self._observers],
                on_log_line=[observer.hear for observer in self._observers],
            )
            runtime = EmbeddedRuntime(self.store, self.clock, tools, kinds=kinds, hooks=hooks)
            if self._dedicated:
                relax_collector()
            runtime.open()
            self._runtime = runtime
        return self._runtime

    # Reading

    async def read_runs(self, execution_id: str, up_to: int | None = None) -> Runs:
        return await RunRecords(self.store.store).read(execution_id, up_to)

    async def show(self, execution_id: str) -> ShowDocument:
        info, runs = await Execution(self, execution_id).runs()
        # Without a live owner there is no progress: the clock stops at the last fact.
        document = show_document(runs, self.clock.now() if info.owner_alive else None)
        if not document.limits:
            return document
        from noetl.control.limits import with_holders

        return await with_holders(document, self.store.limits)

    async def follow(
        self, execution_id: str, after: int = 0, on_ownerless: Callable[[], None] | None = None
    ) -> AsyncIterator[list[LogRow]]:
        """SQLite counts the changes of a file, so that a poll without news costs next to nothing."""
        version, quiet, warned = None, 0, False
        while True:
            seen = self.store.database.fetch("PRAGMA data_version")
            quiet += 1
            if seen != version or quiet >= POLLS_PER_OWNER_CHECK or execution_id in self._ours:
                version, quiet = seen, 0
                info = await Execution(self, execution_id).info()
                if info.seq > after:
                    rows = await self.log.read(execution_id, after, after + PAGE_FACTS)
                    after = last_seq(rows) or info.seq
                    yield rows
                    continue  # there may be more, or this was the end
                if not info.live:
                    return
                if not info.owner_alive and not warned and on_ownerless is not None:
                    warned = True
                    on_ownerless()
            await self.clock.sleep(OWN_POLL_S if execution_id in self._ours else POLL_S)

    def observe(self, observer: Observer) -> None:
        assert self._runtime is None, "observers are attached before the runtime starts"
        self._observers.append(observer)

    async def rest(self, execution_id: str) -> Status:
        if self._runtime is not None and execution_id in self._ours:
            for live in list(self._runtime.control.executions.values()):  # its own, and those of children
                for observer in self._observers:
                    observer.seed(live)
            state = await self._runtime.wait_until_idle(execution_id)
            if not state.live:  # its notifications run in this process, too
                self.untold = await self._runtime.wait_for_notifications()
            return state.status
        while True:
            info = await Execution(self, execution_id).info()
            if not info.live or info.status == "paused":
                return info.status
            if not info.owner_alive:
                raise Unavailable(f"no process runs {execution_id}: resume continues it")
            await self.clock.sleep(POLL_S)

    # Commands

    async def pause(self, execution_id: str) -> Status:
        info = await self._live(execution_id)
        if info.status == "paused":
            return "paused"
        if info.status != "running":
            raise Rejected("not-running", f"it cannot be paused: its status is {info.status}")
        if not await self.command_here(execution_id, Pause()):
            from noetl.session.local_commands import deliver

            await deliver(self.store, info, Pause(), lambda fact: isinstance(fact, Paused), self.hint)
        return "paused"

    async def cancel(self, execution_id: str, reason: str = "", *, compensate: bool = False) -> Status:
        info, command = await self._live(execution_id), Cancel(reason=reason, compensate=compensate)
        if compensate:
            from noetl.session.local_commands import require_not_undone

            require_not_undone((await Execution(self, execution_id).runs())[1].state)
        if await self.command_here(execution_id, command):
            return await until_ended(self, execution_id)
        from noetl.session.local_commands import cancel_ownerless, post, unless_taken

        if not info.owner_alive:
            with unless_taken():
                return await cancel_ownerless(self.store, execution_id, command)
        if info.status != "cancelling":
            await post(self.store, execution_id, command, lambda fact: isinstance(fact, Cancelled), self.hint)
        return await until_ended(self, execution_id)

    async def signal(self, execution_id: str, name: str, data: JSON = None, *, frame: str | None = None) -> bool:
        from noetl.session.local_commands import deliver, frames_awaiting, is_resumed

        info, runs = await Execution(self, execution_id).runs()
        frames = frames_awaiting(runs.state, name)
        command = Signal(name=name, data=data, frame=frame)
        if await self.command_here(execution_id, command):
            return True
        return await deliver(self.store, info, command, is_resumed(frames if frame is None else {frame}), self.hint)

    async def resume(self, execution_id: str) -> None:
        info = await self._live(execution_id)
        runtime = self._running()
        if info.status == "paused":
            await runtime.command(execution_id, Resume())
        await runtime.adopt(execution_id)
        self._ours.add(execution_id)

    async def retry(
        self, execution_id: str, step: str | None = None, *, iterations: Sequence[int] = (), from_start: bool = False
    ) -> None:
        await Execution(self, execution_id).require_started()
        runtime = self._running()
        await runtime.command(execution_id, Retry(step=step, iterations=tuple(iterations), from_start=from_start))
        await runtime.adopt(execution_id)
        self._ours.add(execution_id)

    def credentials(self) -> SecretProvider:
        from noetl.runtime.embedded import LazyProviders

        return LazyProviders(self.store, served=False)

    async def plan_fork(self, execution_id: str, wanted: ForkSpec) -> ForkPlan:
        from noetl.session.local_forks import plan_fork

        return await plan_fork(self, execution_id, wanted)

    async def fork(self, execution_id: str, wanted: ForkSpec) -> Execution:
        from noetl.session.local_forks import prepare_fork

        fork, labels = await prepare_fork(self, execution_id, wanted), dict(wanted.labels)
        check_labels(labels)
        new, runtime = self.clock.new_id(), self._running()
        program = await runtime.playbooks.by_digest(fork.digest)
        head = await self.listing.head(execution_id)
        secrets = await secrets_of_fork(self.store.secrets, head, program, wanted.secrets)
        self._ours.add(new)
        async with stored_secrets(self.store.secrets, new, secrets):
            await runtime.start(
                fork.digest, fork.workload, labels=labels, execution_id=new, fork=fork.origin,
                breakpoints=wanted.breakpoints,
            )  # fmt: skip
        return Execution(self, new, fork.notes)

    def debugger(self, execution_id: str) -> Debugger:
        from noetl.session.debugger import LocalDebugger

        return LocalDebugger(self, execution_id)

    async def label(self, execution_id: str, change: Mapping[str, str | None]) -> dict[str, str]:
        labels = (await self.listing.head(execution_id)).labels
        found = changed_labels(labels, change)
        if found != labels:
            from noetl.ports import LabelChange

            await self.store.listing.label(execution_id, LabelChange(self.clock.now(), None, dict(change)))
            entry = local_entry(self.clock, "command", "label", execution_id, label_texts(change))
            await self.store.audit.add([entry])
        return found

    async def delete(self, execution_id: str) -> int:
        plan = await self.deletable(execution_id)
        gone = await self.store.retention.delete([each.id for each in plan])
        if execution_id not in gone:
            raise Rejected("not-ended", f"{execution_id} cannot be deleted: it was retried just now")
        detail = f"{plan[0].path}: {len(gone)} executions"
        await self.store.audit.add([local_entry(self.clock, "command", "delete", execution_id, detail)])
        return len(gone)

    async def bulk(self, request: BulkRequest) -> list[BulkItem]:
        from noetl.session.bulk import act_on_each

        return await act_on_each(self, request)

    async def rollback(self, path: str, version: int, *, dry_run: bool = False) -> RollbackResponse:
        from noetl.session.local_rollback import roll_back

        return await roll_back(self, path, version, dry_run=dry_run)

    async def workers(self) -> WorkersResponse:
        raise unsupported("workers")

    def detach(self) -> None:
        raise unsupported("detach")

    async def _live(self, execution_id: str) -> ExecutionInfo:
        """Raises Rejected when it has ended."""
        info = await Execution(self, execution_id).info()
        if info.status not in LIVE:
            raise Rejected("execution-over", f"it has ended: {info.status}")
        return info

    async def command_here(self, execution_id: str, command: Command) -> bool:
        """False: this session does not run the execution."""
        if self._runtime is None or not (execution_id in self._ours or self._runtime.runs(execution_id)):
            return False
        await self._runtime.command(execution_id, command)
        return True


def find_files(inputs: Inputs, values: dict[str, JSON]) -> dict[str, JSON]:
    """The values with absolute paths for files of this machine. Raises InputError when one does not exist."""
    found: dict[str, JSON] = {}
    missing: list[InputProblem] = []
    for name, each in inputs.fields.items():
        path = values.get(name)
        if each.field.type == "file" and isinstance(path, str) and path and "://" not in path:
            found[name] = os.path.abspath(os.path.expanduser(path))
            if not os.path.isfile(found[name]):
                missing.append(InputProblem(name, "there is no such file"))
    if missing:
        raise InputError((*missing, *inputs.fit({**values, **found}, lambda _: False).problems))
    return {**values, **found}


def _derived_id(key: str) -> str:
    if not key.isprintable() or not 0 < len(key) <= KEY_CHARS_MAX:
        raise Rejected("bad-key", f"a key has 1 to {KEY_CHARS_MAX} printable characters")
    return str(UUID(bytes=hashlib.sha256(f"start local {key}".encode()).digest()[:16], version=5))
