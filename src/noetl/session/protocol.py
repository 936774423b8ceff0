"""Session: everything that can be asked of a deployment, whether it is a database file or a server.

The command line, the Python API and the tests use only this. noetl.session.local and noetl.session.remote
implement it; logic that both share reads through the four ports `listing`, `log`, `results` and `catalog`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

from noetl.engine.state import LIVE, State, Status
from noetl.ports import ExecutionHead, SecretProvider

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from noetl.api.admin import WorkersResponse
    from noetl.api.bulk import BulkItem, BulkRequest
    from noetl.api.playbooks import RollbackResponse
    from noetl.api.triggers import FiringItem, TriggerDetails, TriggerItem
    from noetl.clock import Clock
    from noetl.engine import Event
    from noetl.engine.commands import SetBreakpoint
    from noetl.errors import Problem
    from noetl.fork.plan import ForkPlan
    from noetl.output import JSON
    from noetl.ports import (
        ApiToken,
        AuditRecord,
        Catalog,
        ExecutionListing,
        LogRow,
        PrintedBatch,
        RoleGrant,
        SavedStore,
        SecretInfo,
        Snapshot,
        SnapshotOf,
    )
    from noetl.session.catalog import PlaybookCatalog
    from noetl.session.debugger import Debugger
    from noetl.session.declared import WorkloadSource
    from noetl.session.execution import Execution
    from noetl.session.garbage import GarbageReport
    from noetl.session.sources import Dialect, PlaybookFile
    from noetl.views.documents import ShowDocument
    from noetl.views.runs import Runs
    from noetl.worker.frame_driver import LogLine

Standing: TypeAlias = Literal["running", "interrupted", "paused", "ok", "error", "cancelled"]
GRACE_S = 5.0  # that running calls get when a session is closed


class ExecutionInfo(ExecutionHead):
    """An execution as lists show it, without a look into its log."""

    __slots__ = ()

    @property
    def id(self) -> str:
        return self.execution_id

    @property
    def live(self) -> bool:
        """It has not ended."""
        return self.status in LIVE

    @property
    def standing(self) -> Standing:
        """The status for people: a live execution without a live owner is `interrupted`."""
        match self.status:
            case "new" | "running" | "cancelling":
                return "running" if self.owner_alive else "interrupted"
            case status:
                return status


class ForkSpec(NamedTuple):
    """What a fork runs, and what it keeps."""

    playbook: str | Path | PlaybookFile | None = None  # None: the text of the old execution
    at: int | None = None  # the last event that counts; None: all
    from_step: str | None = None  # the runs of this step are not kept
    workload: WorkloadSource | None = None  # values that replace those of the old execution
    failed_only: bool = False  # keep all finished work, even if its text or its input has changed
    labels: Mapping[str, str] = {}
    dialect: Dialect = "canonical"
    breakpoints: tuple[SetBreakpoint, ...] = ()
    secrets: Mapping[str, str] = {}  # of secret inputs; those that the old execution still has are taken over


class LogReader(Protocol):
    """The reading part of EventStore."""

    async def read(self, execution_id: str, after: int = 0, up_to: int | None = None) -> list[LogRow]: ...

    async def snapshot(self, execution_id: str, of: SnapshotOf = "state") -> Snapshot | None: ...


class PrintedReader(Protocol):
    """The reading part of LogStore."""

    async def read(self, execution_id: str, after: int = 0) -> list[PrintedBatch]: ...


class ResultReader(Protocol):
    """The reading part of ResultStore."""

    async def get(self, ref: dict[str, JSON]) -> bytes:
        """Raises NotFound, Damaged or Unavailable."""
        ...


class WatchedExecution(Protocol):
    """An execution as an observer sees it."""

    @property
    def id(self) -> str: ...

    @property
    def state(self) -> State: ...


class Observer(Protocol):
    """Receives what happens in the executions that a session runs or follows."""

    def seed(self, live: WatchedExecution) -> None:
        """This execution is already running when the observer is attached."""
        ...

    def watch(self, live: WatchedExecution, events: Sequence[Event]) -> None:
        """These facts were committed."""
        ...

    def hear(self, said: LogLine) -> None:
        """A tool wrote a line or reported progress."""
        ...

    def wait(self, run: str, words: str) -> None:
        """A run waits for something that no fact shows, such as a worker of its pool."""
        ...


class SecretAdmin(Protocol):
    """Stored secrets. Values go in; none comes out."""

    async def set(self, name: str, value: str) -> int:
        """The new version. Raises Rejected when the value cannot be a secret."""
        ...

    async def remove(self, name: str) -> None:
        """Raises NotFound."""
        ...

    async def rotate(self) -> int:
        """Encrypt all secrets with a new key; how many. Raises Unsupported on a server."""
        ...

    async def list(self) -> Sequence[SecretInfo]: ...


class NewToken(NamedTuple):
    """An API token, and its text, which is shown only once."""

    token: ApiToken
    text: str


class TokenAdmin(Protocol):
    """The API tokens of a server."""

    async def create(
        self, name: str, scopes: frozenset[str], lasts_s: float | None, roles: Sequence[RoleGrant] = ()
    ) -> NewToken:
        """Either scopes or roles. Raises Rejected."""
        ...

    async def list(self) -> list[ApiToken]: ...

    async def remove(self, id: str) -> None:
        """Raises NotFound."""
        ...


class TriggerAdmin(Protocol):
    """The triggers of registered playbooks."""

    async def list(self, path: str | None = None) -> Sequence[TriggerItem]:
        """By path and name; `path`: only of this playbook."""
        ...

    async def show(self, path: str, name: str, *, times: int = 5, limit: int = 100) -> TriggerDetails:
        """With its next times, and its history. Raises NotFound."""
        ...

    async def set_paused(self, path: str, name: str, *, paused: bool) -> TriggerItem:
        """Raises NotFound."""
        ...

    async def fire(self, path: str, name: str) -> FiringItem:
        """Start an execution now. Raises NotFound, and Unsupported for a file: only a server fires."""
        ...


class AuditReader(Protocol):
    """Reads the audit trail, as `AuditStore.read`."""

    async def __call__(
        self,
        limit: int = 100,
        *,
        before: int | None = None,
        since: datetime | None = None,
        action: str | None = None,
        who: str | None = None,
    ) -> list[AuditRecord]: ...


class Session(Protocol):
    """A connection to a database file or to a server. Use it as `async with noetl.connect() as session`."""

    @property
    def hint(self) -> str:
        """The option that commands in hints carry, so that they reach the same place: ` --db x.db`."""
        ...

    @property
    def clock(self) -> Clock: ...

    @property
    def runs_here(self) -> bool:
        """Whether executions run in this process and stop with it."""
        ...

    @property
    def untold(self) -> Mapping[str, Status]:
        """The notifications of this process that did not succeed: id → status. A running one took too long."""
        ...

    async def scopes(self) -> frozenset[str]:
        """What may be done here: `read`, `run`, `write`, `admin`, with the scopes that each includes."""
        ...

    # Ports to read from

    @property
    def listing(self) -> ExecutionListing: ...

    @property
    def log(self) -> LogReader: ...

    @property
    def results(self) -> ResultReader: ...

    @property
    def logs(self) -> PrintedReader:
        """The lines that tasks have printed."""
        ...

    @property
    def catalog(self) -> Catalog: ...

    # Administration

    @property
    def playbooks(self) -> PlaybookCatalog:
        """The registered playbooks: list, versions, text, diff, register, archive."""
        ...

    @property
    def secrets(self) -> SecretAdmin: ...

    @property
    def triggers(self) -> TriggerAdmin: ...

    @property
    def tokens(self) -> TokenAdmin: ...

    @property
    def saved(self) -> SavedStore:
        """The values that outlive executions, by the path of their playbook. `put` raises Rejected."""
        ...

    async def check_storage(self) -> list[str]:
        """What is wrong with the database file. A server checks its own storage: nothing is reported."""
        ...

    async def collect_garbage(self, older_than_s: float, *, dry_run: bool = False) -> GarbageReport:
        """Delete stored results that nothing refers to. Raises Unsupported on a server."""
        ...

    # Executions

    async def check(self, playbook: str | Path | PlaybookFile, *, dialect: Dialect = "canonical") -> list[Problem]:
        """All problems of a playbook, checked against the tools that would run it."""
        ...

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
        """Start a playbook: a file, or the path of a registered one, also as `path@version`.

        `workload` is its values, or a function that gets what the playbook declares and returns them; `ctx`, in
        the same way, the first values of `ctx`. `secrets` are the values of its secret inputs. `labels` are added
        to those of the playbook. `breakpoints` hold it from its first step on.
        The same `key` names the same execution: a second call with it returns that execution. Raises
        StartRefused when the playbook cannot run, InputError when values do not fit its inputs, Rejected
        when the key was used for another request.
        """
        ...

    async def execution(self, name: str) -> Execution:
        """By its id, a prefix of it, or `last`. Raises UsageError."""
        ...

    def executions(
        self,
        *,
        status: Standing | Collection[Standing] | None = None,
        path: str | None = None,
        open_only: bool = False,
        roots: bool = False,
        since: datetime | None = None,
        until: datetime | None = None,
        labels: Mapping[str, str] | None = None,
        waiting: bool = False,
        search: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[ExecutionInfo]:
        """Newest first. `path` may be a pattern such as `orders/*`. `labels`: with all of these.

        `roots`: without executions that another one called. `since`: those that started then or later; `until`:
        before then. `waiting`: those that wait for a person. `search`: a part of the path, the error or a label,
        or the beginning or the end of the id.
        """
        ...

    async def read_runs(self, execution_id: str, up_to: int | None = None) -> Runs:
        """Its run records at the end of its log or after a fact; empty without such an execution. Raises Damaged."""
        ...

    async def show(self, execution_id: str) -> ShowDocument:
        """Its steps, output and error: what `noetl show --format json` prints."""
        ...

    def follow(
        self, execution_id: str, after: int = 0, on_ownerless: Callable[[], None] | None = None
    ) -> AsyncIterator[list[LogRow]]:
        """Rows of its log after `after`, as they are committed, until it has ended.

        `on_ownerless` is called once when the execution no longer has a process.
        """
        ...

    def observe(self, observer: Observer) -> None:
        """Attach an observer. Do it before `start`, so that it sees all facts."""
        ...

    async def rest(self, execution_id: str) -> Status:
        """Wait until it has ended or is paused; observers receive what happens meanwhile.

        Raises Unavailable when no process runs it, or when storage or the server fails.
        """
        ...

    async def pause(self, execution_id: str) -> Status: ...

    async def resume(self, execution_id: str) -> None:
        """Continue a paused or interrupted execution. Raises Rejected when it has ended."""
        ...

    async def retry(
        self, execution_id: str, step: str | None = None, *, iterations: Sequence[int] = (), from_start: bool = False
    ) -> None:
        """Retry the failed parts of a finished execution. Raises Rejected when nothing failed.

        `iterations`: only these iterations of the step; others that failed stay failed.
        """
        ...

    def credentials(self) -> SecretProvider | None:
        """For calls that are made here; None: they are on a server."""
        ...

    async def plan_fork(self, execution_id: str, wanted: ForkSpec) -> ForkPlan:
        """What `fork` would keep and repeat. Nothing is started."""
        ...

    async def fork(self, execution_id: str, wanted: ForkSpec) -> Execution:
        """Start a new execution that keeps the finished work of this one.

        Raises StartRefused when the playbook cannot run, Rejected when nothing can be kept.
        """
        ...

    async def cancel(self, execution_id: str, reason: str = "", *, compensate: bool = False) -> Status:
        """The status afterwards: `cancelling` while running calls use their 10 seconds.

        `compensate`: undo its completed steps before it ends, which takes as long as it takes. Raises Rejected
        when it is being cancelled or undone already.
        """
        ...

    async def signal(self, execution_id: str, name: str, data: JSON = None, *, frame: str | None = None) -> bool:
        """Whether a process received it; False: it is logged, and takes effect on resume.

        `frame`: only for the wait of this frame; None: for all that wait for the signal.
        """
        ...

    def debugger(self, execution_id: str) -> Debugger:
        """Breakpoints of the execution, what they hold, and the values there."""
        ...

    async def label(self, execution_id: str, change: Mapping[str, str | None]) -> dict[str, str]:
        """Add labels, or remove those with None; the labels afterwards. Raises Rejected."""
        ...

    async def deletable(self, execution_id: str) -> list[ExecutionInfo]:
        """What `delete` deletes: the execution, and those that it called. Raises Rejected when one has not ended."""
        ...

    async def delete(self, execution_id: str) -> int:
        """Delete a finished execution and those that it called; how many. Raises Rejected."""
        ...

    async def bulk(self, request: BulkRequest) -> list[BulkItem]:
        """One action on several executions that the request names; the outcome for each.

        Each one succeeds or fails alone. Retried executions of a file run in this process: `rest` waits for them.
        """
        ...

    async def rollback(self, path: str, version: int, *, dry_run: bool = False) -> RollbackResponse:
        """Make an older version of a playbook the current one again; `dry_run`: only the plan.

        Raises NotFound, Rejected if it is the current version, PlaybookError if it can no longer run.
        """
        ...

    async def workers(self) -> WorkersResponse:
        """The workers of a server, and their pools. Raises Unsupported on a file, which has none."""
        ...

    def detach(self) -> None:
        """Declare that executions continue without this session. Raises Unsupported on a file."""
        ...

    # Its end

    async def drain(self, grace_s: float = GRACE_S) -> None:
        """Stop running executions here: running calls get `grace_s`. A server's executions continue."""
        ...

    async def close(self) -> None: ...

    async def __aenter__(self) -> Session: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
