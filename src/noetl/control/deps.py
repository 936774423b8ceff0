"""The dependencies of Control: its ports, compiled playbooks, ownership, hooks and settings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from noetl.defaults import LEASE_S
from noetl.engine import Event
from noetl.engine.commands import Command, Lose, Start
from noetl.errors import Unavailable
from noetl.net.program import FilesOfTask, Program
from noetl.playbook.model import INLINE_BYTES_MAX
from noetl.ports import EventStore, Limits, Link, PendingNotifications, Pointer, ResultStore, WorkQueue

if TYPE_CHECKING:
    from noetl.control.live_execution import LiveExecution

CommitHook: TypeAlias = Callable[["LiveExecution", list[Event]], None]
UnavailableHook: TypeAlias = Callable[[Unavailable], None]
StartHook: TypeAlias = Callable[[str, Program, Start], Awaitable[Start]]  # the first argument is the execution


class ProgramSource(Protocol):
    """Compiled playbooks. An execution pins a digest; a path is resolved when an execution starts."""

    async def by_digest(self, digest: str) -> Program:
        """Raises NotFound."""
        ...

    async def find(self, path: str, near: str | None = None, version: int | None = None) -> str:
        """The digest of the playbook with this path, as the playbook with the digest `near` refers to it.

        `near` None: the path comes from outside. `version`: a registered version; None: the current one.
        Raises NotFound, or PlaybookError when the playbook cannot run.
        """
        ...

    async def add_document(self, text: str, caller: str) -> Program:
        """Check a playbook that a task of the playbook with the digest `caller` has made, and store its text.

        It is found by its digest only. Raises PlaybookError when it cannot run there, or Rejected (D103).
        """
        ...


class OwnershipRegistry(Protocol):
    """The executions that this process may write."""

    async def number(self, execution_id: str, *, is_new: bool = False) -> int:
        """The owner number for our appends. Raises Unavailable or Rejected when another process owns it.

        `is_new`: its id has just been made, so that no other process can own it.
        """
        ...

    def is_current(self, execution_id: str, number: int) -> bool:
        """Whether we still own it under this number, as far as we know."""
        ...

    def on_fenced(self, execution_id: str) -> None:
        """The store has refused an append of ours: we no longer own the execution."""
        ...

    def on_ended(self, execution_id: str) -> None:
        """The execution has ended: there is nothing left to write."""
        ...

    async def open_executions(self) -> list[tuple[str, int]]:
        """Our executions that have not ended, each with the seq of its last fact, if the store knows it."""
        ...


class ControlPorts(NamedTuple):
    """The ports that Control uses."""

    store: EventStore
    queue: WorkQueue
    results: ResultStore
    link: Link | None = None  # to the owners of other executions; None: Control itself owns them all
    limits: Limits | None = None  # None: playbooks with limits that executions share cannot run
    pending: PendingNotifications | None = None  # None: notifications that a crash has lost are not repeated


class CrashedCalls(Protocol):
    """The calls that were running in processes that died, until the log contains them."""

    def lost(self, execution_id: str) -> list[Lose]: ...

    def forget(self, execution_id: str) -> None:
        """They are in the log now."""
        ...


class ControlHooks(NamedTuple):
    """Callbacks and policies that a runtime supplies. Control calls all hooks of a list, in order."""

    on_commit: Sequence[CommitHook] = ()  # after each commit, with its events; also with none
    on_unavailable: Sequence[UnavailableHook] = ()  # after a failed commit
    on_load: Sequence[Callable[[], None]] = ()  # after a takeover: asks all workers for the frames they hold
    on_start: Sequence[StartHook] = ()  # may replace the request
    window: Callable[[str], int] | None = None  # pool → unclaimed pointers at once; None: as in the settings
    # Pool, frames of executions here that workers hold → whether all its slots are busy; None: as counted here.
    is_full: Callable[[str, int], bool] | None = None
    use_own_slot: Callable[[Pointer], bool] | None = None  # a worker in this process takes it; None: no worker here
    post: Callable[[str, Command], Awaitable[None]] | None = None  # to another process on the file; None: there is none
    files: FilesOfTask | None = None  # for forks; None: tasks run on other machines
    crashes: CrashedCalls | None = None  # None: the leases of workers show what was running


class ControlSettings(NamedTuple):
    lease_s: float = LEASE_S  # of a granted frame
    items_bytes: int = INLINE_BYTES_MAX  # items of a loop in the log; more go to the result store (D44)
    resend_s: float = 10.0  # an unclaimed pointer is sent again after this time
    lost_max: int = 3  # a call is blamed after this many workers in a row vanished during it
    settle_s: float = 0.0  # no dispatch for so long after a load: workers may hold frames of the execution
    snapshot_bytes: int = 262_144  # minimum growth of the log between two snapshots
    public_url: str = ""  # of the server, for people; "": unknown
    window: int = 128  # pointers in the queue at once: twice the slots of the workers
    idle_s: float = 10.0  # an execution that has waited and will wait for so long is not kept in memory
    slot_reserve: float = 0.0  # the share of a pool's slots that one execution leaves to others
    state_bytes: int = 0  # of all executions in memory; past it, the largest one is ended. 0: no limit
