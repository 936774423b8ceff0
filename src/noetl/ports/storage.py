"""What is stored: the log of executions, playbooks, results and secrets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from msgspec import Struct
from msgspec.json import Encoder

from noetl.engine.facts import Evaluated, Fact, Finished
from noetl.engine.state import Status
from noetl.errors import Conflict, Fenced
from noetl.output import JSON
from noetl.playbook.model import Credential
from noetl.ports.saved import SavedWrite
from noetl.secret import Secret

ERROR_CHARS_MAX: Final = 500  # of the error in a listing; the log has all of it

encode_facts = Encoder().encode  # as the log contains them


class PersonWait(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A `wait` task that waits for a signal: a decision of a person, or of another system."""

    frame: str  # "ask#1"
    signal: str
    title: str = ""  # "": the author gave none
    since: datetime | None = None


class Append(Struct, frozen=True):
    """Facts of one execution that are committed together."""

    execution_id: str
    first_seq: int  # compare-and-set: it must follow the last seq in the log
    at: datetime
    facts: tuple[Fact, ...]
    owner: int  # the owner's number, which grows with each new owner; another than the current one is Fenced
    status: Status  # of the execution after these facts, so that a listing need not read the log
    saved: tuple[SavedWrite, ...] = ()  # values that outlive the execution, written with these facts
    notifies: bool = False  # it has ended, and its notifications are to be started
    waits: tuple[PersonWait, ...] | None = None  # what a person has to decide now; None: as before
    encoded: bytes = b""  # the facts as JSON, if the writer has encoded them

    @property
    def body(self) -> bytes:
        """The facts as JSON, as the log contains them."""
        return self.encoded or encode_facts(self.facts)

    @property
    def error(self) -> str | None:
        """Why the execution has ended in these facts, shortened, so that a listing can show and search it."""
        if self.status not in ("error", "cancelled"):
            return None
        for fact in reversed(self.facts):
            if isinstance(fact, (Finished, Evaluated)):
                return None if fact.error is None else _storable(fact.error.message[:ERROR_CHARS_MAX])
        return None


def _storable(text: str) -> str:
    """Without the characters that a database refuses."""
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()


class LogRow(NamedTuple):
    """Facts that were appended together."""

    first_seq: int
    at: datetime
    facts: tuple[Fact, ...]


SnapshotOf: TypeAlias = Literal["state", "records"]  # the state of an execution, or the run records of its readers


class Snapshot(NamedTuple):
    """What the facts up to one of them give: a copy that saves reading the log up to there."""

    seq: int
    schema: str  # of what is copied; a snapshot with another schema is ignored
    body: bytes


class EventStore(Protocol):
    """The log: one ordered stream of facts for each execution, written by one owner at a time.

    The log is the source of truth. A committed append is durable and is never changed. Every method raises
    Unavailable if the store does not answer, and Damaged if stored data cannot be decoded.
    """

    async def append(self, appends: Sequence[Append]) -> list[Conflict | Fenced | None]:
        """Commit appends; the result has one entry for each. None: it is durable.

        Each append succeeds or fails alone. Conflict: another writer was first. Fenced: the owner number is
        not the current one. Raises Unavailable if the outcome is unknown: some appends may be committed, and
        the caller must read the log before it continues.
        """
        ...

    async def read(self, execution_id: str, after: int = 0, up_to: int | None = None) -> list[LogRow]:
        """The rows that contain facts with seq > after, in order; empty for an unknown execution.

        Rows that begin behind `up_to` may be omitted. A row is never cut.
        """
        ...

    async def status(self, execution_id: str) -> Status | None:
        """The status of the last append; None for an unknown execution."""
        ...

    async def snapshot(self, execution_id: str, of: SnapshotOf = "state") -> Snapshot | None:
        """The newest snapshot."""
        ...

    async def keep(self, execution_id: str, snapshot: Snapshot, of: SnapshotOf = "state") -> None:
        """Store a snapshot unless there is a newer one of the same schema. It may be lost: it is a copy."""
        ...


class PendingNotifications(Protocol):
    """The finished executions whose notifications may not have started: noted with their last facts.

    Every method raises Unavailable if the store does not answer.
    """

    async def unnotified(self, before: datetime, limit: int) -> list[str]:
        """Executions that ended before then, the oldest first."""
        ...

    async def notified(self, execution_id: str, seq: int) -> None:
        """The notifications of the end with this seq have been started, or it no longer has any."""
        ...


class OwnedPartitions(NamedTuple):
    """The partitions that a server owns, and the store's time, which all instants in the log use (P6)."""

    epochs: dict[int, int]  # partition → epoch, which grows with each new owner
    at: datetime


class Partitions(Protocol):
    """Ownership of many servers on one log: each owns some partitions of the executions, under a lease.

    The store's clock decides when a lease ends. Ownership is only a hint until an append: the store refuses
    appends with an old epoch (Fenced). Every method raises Unavailable if the store does not answer.
    """

    async def live(self, partitions: Sequence[int]) -> list[tuple[str, int]]:
        """The executions of these partitions that have not ended, each with the seq of its last fact."""
        ...

    async def own(self, server: str, partitions: Sequence[int], ttl_s: float) -> OwnedPartitions:
        """Acquire or renew leases. The result omits partitions that another server owns.

        A lease that has expired gets a new epoch, even if its last owner acquires it again.
        """
        ...

    async def let_go(self, server: str, partitions: Sequence[int]) -> None:
        """Release leases, so that other servers can acquire them at once. Others' leases are ignored."""
        ...

    async def servers(self, server: str, ttl_s: float) -> list[str]:
        """Announce this server for `ttl_s`, and return the sorted names of all announced servers."""
        ...


class ExecutionOwnership(Protocol):
    """Ownership of several processes on one file: one live process holds each execution."""

    async def hold(self, execution_id: str, *, is_new: bool = False) -> int:
        """Acquire an execution, which may be new. Returns the owner number for its appends.

        `is_new`: this process has just made the id, so that no other one can hold the execution.

        Raises Rejected("held", …) if another live process holds it. An execution of a dead process is
        acquired under a higher number.
        """
        ...


class ExecutionHead(NamedTuple):
    """An execution as a listing shows it, without its log."""

    execution_id: str
    path: str
    digest: str
    status: Status
    seq: int
    started_at: datetime
    updated_at: datetime
    parent: str | None
    pid: int | None  # of the process that holds it or held it last; None: unknown
    owner_alive: bool
    labels: dict[str, str] = {}
    error: str | None = None  # why it ended, shortened; None: it has not failed
    waits: tuple[PersonWait, ...] = ()  # what a person has to decide; the first ones


class ExecutionFilter(NamedTuple):
    """The executions that a list contains: those that fit all of these."""

    status: Status | None = None
    open_only: bool = False  # it has not ended
    path: str | None = None
    path_prefix: str | None = None  # the beginning of the path
    digest: str | None = None  # of the playbook: one of its versions
    labels: Mapping[str, str] | None = None  # with all of these
    since: datetime | None = None  # started then or later
    until: datetime | None = None  # started before then
    roots: bool = False  # without those that another one called
    waiting: bool = False  # a person has to decide something
    search: str | None = None  # part of the path, the error or a label `key=value`; or an end or a beginning of the id
    within: Sequence[str] | None = None  # only paths that match one of these, as in a RoleGrant; None: all


ALL_EXECUTIONS: Final = ExecutionFilter()


class ExecutionListing(Protocol):
    """Queries over all executions. They read heads, never logs. Every method raises Unavailable."""

    async def executions(
        self, limit: int = 100, wanted: ExecutionFilter = ALL_EXECUTIONS, *, before: str | None = None
    ) -> list[ExecutionHead]:
        """The newest first. `before` is the id of the last execution on the previous page."""
        ...

    async def head(self, execution_id: str) -> ExecutionHead:
        """Raises NotFound."""
        ...

    async def children(self, execution_id: str) -> list[ExecutionHead]:
        """The executions that frames of this one have started, in the order of their starts."""
        ...

    async def find(self, prefix: str) -> list[str]:
        """Some of the ids with this prefix, enough to show whether it is unique; a full id matches alone."""
        ...

    async def last(self) -> str:
        """The execution that started last. Raises NotFound if there is none."""
        ...


class LabelChange(NamedTuple):
    """Labels that a person or a program has added to an execution, or removed from it, after its start."""

    at: datetime
    by: str | None  # None: without a server
    labels: dict[str, str | None]  # None: removed


class FilteredListing(ExecutionListing, Protocol):
    """A listing that a server can limit to the paths of a caller. Labels are changed here: a run does not read them."""

    async def label(self, execution_id: str, change: LabelChange) -> None:
        """Change the labels in the head and record the change, together. Raises NotFound."""
        ...

    async def label_changes(self, execution_id: str) -> list[LabelChange]:
        """All changes, the oldest first. They are never changed, and deleted with the execution."""
        ...

    async def count(self, wanted: ExecutionFilter = ALL_EXECUTIONS) -> int:
        """How many executions `executions` lists on all pages."""
        ...

    async def find(self, prefix: str, *, within: Sequence[str] | None = None) -> list[str]: ...


class PlaybookText(NamedTuple):
    """A playbook as its author wrote it. An execution refers to it by digest."""

    digest: str
    path: str  # metadata.path
    text: str
    origin: str | None = None  # the file it was read from; the `path` of a child is relative to it


class PlaybookVersion(NamedTuple):
    """One text of a path. The same text is the same version, however often it is registered."""

    path: str
    version: int  # numbers the texts of a path from 1, in the order of their first registration
    digest: str
    at: datetime  # of the first registration
    current: bool  # whether new executions of this path use it
    archived: bool  # of the whole path: no new execution starts from it


Versions: TypeAlias = list[PlaybookVersion]


class Catalog(Protocol):
    """The registered playbooks. A text stays available by its digest forever.

    A committed text survives a crash. Reads see all writes that were committed before. Every method raises
    Unavailable if the store does not answer; a write may have happened then, and may be repeated.
    """

    async def put(self, text: PlaybookText, *, listed: bool = True) -> None:
        """Register a text and make it the current version of its path.

        A known digest becomes current again and keeps its version number. An archived path is reopened.
        `listed` False: the text is only kept by its digest, and is no version of its path.
        Raises Rejected if the path or the text cannot be stored.
        """
        ...

    async def get(self, digest: str) -> PlaybookText:
        """Raises NotFound."""
        ...

    async def newest(self, path: str, version: int | None = None) -> PlaybookText:
        """The current text of a path, or one of its versions. Raises NotFound, also for an archived path."""
        ...

    async def list(self, *, after: str = "", limit: int = 100, archived: bool = False) -> Versions:
        """The current version of each path greater than `after`, ordered by path."""
        ...

    async def versions(self, path: str) -> Versions:
        """All versions of a path, the newest first. Raises NotFound."""
        ...

    async def archive(self, path: str) -> None:
        """Prevent new executions of a path. Running ones continue. Raises NotFound."""
        ...


class ResultStore(Protocol):
    """Payloads that are too large for the log, addressed by Refs. A stored payload never changes.

    A store derives the name of a payload from execution and sha256, and checks every Ref before it uses it: a
    forged Ref reaches nothing else. Every method raises Unavailable if the store does not answer or is full.
    """

    async def put(self, execution_id: str, body: bytes, content_type: str) -> dict[str, JSON]:
        """Store a payload and return its Ref. It is durable when the method returns.

        The same body gives the same Ref. Raises Rejected for an invalid execution id.
        """
        ...

    async def get(self, ref: dict[str, JSON]) -> bytes:
        """Raises NotFound, or Damaged if the payload does not match the sha256 of the Ref."""
        ...

    async def write(self, execution_id: str, chunks: AsyncIterator[bytes], content_type: str) -> dict[str, JSON]:
        """`put` for a stream, without holding it in memory. Errors of the stream are raised unchanged.

        A stream that fails leaves no result; its remains may appear as torn in `ResultCleanup.kept`.
        """
        ...

    def read(self, ref: dict[str, JSON]) -> AsyncIterator[bytes]:
        """`get` in chunks. Damaged may be raised after the last chunk: use no chunk before the end."""
        ...


class PrintedLine(Struct, frozen=True, kw_only=True):
    """A line that a task has printed, or a note about lines that are left out."""

    at: datetime
    run: str  # "fetch#1"
    call: str  # "fetch#1[17]/2"
    stream: Literal["out", "err", "note"]
    text: str  # without secrets


class PrintedBatch(NamedTuple):
    """Lines of one execution that were stored together."""

    number: int  # from 1, in the order of storing
    lines: tuple[PrintedLine, ...]


class LogSink(Protocol):
    """Takes the lines that tasks print."""

    async def append(self, execution_id: str, lines: Sequence[PrintedLine]) -> bool:
        """Store lines. They survive a crash of this process when the method returns.

        False: the execution has reached the limit of its lines, which a note in the store says; these lines are not
        stored. Raises NotFound if there is no such execution, and Unavailable.
        """
        ...


class LogStore(LogSink, Protocol):
    """The lines that tasks print, in a limited amount for each execution. They are deleted with their execution."""

    async def read(self, execution_id: str, after: int = 0) -> list[PrintedBatch]:
        """Batches with higher numbers, in order: some of them, or none at the end. Raises Unavailable."""
        ...


class StoredResult(NamedTuple):
    """A stored payload, or the remains of one that was never completed."""

    key: str  # <execution>/<digest>
    bytes: int
    at: datetime  # of storing
    torn: bool = False


class ResultCleanup(Protocol):
    """The view of a result store for the removal of old results."""

    def kept(self) -> AsyncIterator[StoredResult]:
        """All stored results, grouped by execution. Results that are stored meanwhile may be missing."""
        ...

    async def drop(self, keys: Sequence[str]) -> None:
        """Remove results. Unknown keys are ignored."""
        ...


class FetchedCredential(NamedTuple):
    """The current values of a credential."""

    values: Mapping[str, Secret]  # by field; a credential with a single value has the field ""
    version: str  # changes with the values and reveals nothing about them
    expires_s: float | None = None  # None: unknown


class SecretProvider(Protocol):
    """A source of credentials. No error contains a value."""

    async def fetch(self, credential: Credential, *, fresh: bool = False) -> FetchedCredential:
        """`fresh`: bypass caches, because the last values did not work.

        Raises NotFound, which names the keychain entry, or Unavailable.
        """
        ...


class SecretRow(NamedTuple):
    """A stored secret: encrypted, and bound to its name and version."""

    name: str
    version: int  # never reused for a name
    nonce: bytes
    body: bytes  # empty: the secret was removed
    key_id: str
    at: datetime


class SecretInfo(NamedTuple):
    """A stored secret without its value."""

    name: str
    version: int
    at: datetime  # of setting it
    key_id: str = ""  # "": a server does not reveal it


AllRows: TypeAlias = list[SecretRow]


class SecretRows(Protocol):
    """The table of stored secrets. It never sees a plain value. Every method raises Unavailable."""

    async def get(self, name: str) -> SecretRow | None:
        """The row, also of a removed secret."""
        ...

    async def put(self, row: SecretRow, before: SecretRow | None) -> bool:
        """Replace `before`, or insert if it is None. The row is durable when the method returns True.

        False: another writer was first, and nothing was written. Raises Rejected for an invalid name.
        """
        ...

    async def list(self) -> AllRows:
        """All rows with a value, by name."""
        ...


class SecretInputs(Protocol):
    """The values of the secret inputs of executions, encrypted. They go with their execution, or when it ends ok.

    Every method raises Unavailable.
    """

    async def inputs(self, execution_id: str) -> dict[str, Secret]:
        """Empty: none are stored. Raises Damaged."""
        ...

    async def set_inputs(self, execution_id: str, values: Mapping[str, Secret]) -> None:
        """Replace the values. They are durable when this returns."""
        ...

    async def remove_inputs(self, execution_id: str) -> None: ...
