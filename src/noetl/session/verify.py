"""Audit and replay: logs, heads, stored results and snapshots, compared with what the log says."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from noetl.control.log_pages import fold_log, read_slices
from noetl.control.run_records import records_schema
from noetl.engine import Event, apply
from noetl.engine.facts import Fact, Processed, Requested
from noetl.engine.snapshot import schema, thaw
from noetl.engine.state import LIVE, State
from noetl.engine.stored import marks_on
from noetl.errors import Damaged, NotFound, PlaybookError
from noetl.net.notify import split_digest
from noetl.output import JSON, Output
from noetl.ports import Snapshot
from noetl.session.execution import Execution
from noetl.session.protocol import ExecutionInfo, Session
from noetl.views import stored_runs
from noetl.views.audit import LogAudit
from noetl.views.log import STARTUP_FACTS, readable, startup_failure
from noetl.views.replay import ReplayDifference, differences
from noetl.views.runs import Runs

if TYPE_CHECKING:
    from noetl.fork.audit import ForkAudit, ForkPrograms

KEYS_MAX: Final = 100_000  # results of one execution that are remembered as seen


class AuditEntry(Struct, frozen=True, kw_only=True):
    """One inconsistency."""

    execution_id: str | None  # None: it is about the database file
    seq: int
    code: str
    message: str


class AuditReport(Struct, kw_only=True):
    """How much was checked, and every inconsistency."""

    executions: int = 0
    facts: int = 0
    results: int = 0
    findings: list[AuditEntry]


async def audit_executions(session: Session, execution: Execution | None = None) -> AuditReport:
    audit = AuditReport(findings=[])
    async for info in _executions(session, execution):
        audit.executions += 1
        found = _ExecutionAudit(session, info)
        try:
            await found.read()
        except Damaged as error:
            audit.findings.append(AuditEntry(execution_id=info.id, seq=0, code="log", message=str(error)))
            continue
        audit.facts += found.seq
        audit.results += found.results
        audit.findings += [each async for each in found.entries()]
    audit.findings += [
        AuditEntry(execution_id=None, seq=0, code="database", message=each) for each in await session.check_storage()
    ]
    return audit


async def _executions(session: Session, only: Execution | None) -> AsyncIterator[ExecutionInfo]:
    if only is not None:
        yield await only.info()
        return
    async for info in session.executions():
        yield info


class _ExecutionAudit:
    """Reads the log of one execution once, a few facts at a time."""

    def __init__(self, session: Session, info: ExecutionInfo) -> None:
        self._session = session
        self._info = info
        self._facts = LogAudit()
        self._fork: ForkAudit | None = None  # None: it is not a fork, or what it was forked from cannot be read
        self._unreadable: list[AuditEntry] = []
        self._first: list[Event] = []
        self._last: Event | None = None
        self._seen: set[str] = set()  # keys of results
        self._missing: list[AuditEntry] = []
        self.results = 0

    @property
    def seq(self) -> int:
        return 0 if self._last is None else self._last.seq

    async def read(self) -> None:
        """Raises Damaged."""
        info = self._info
        async for events in read_slices(self._session.log, info.id, 0, info.seq):
            if self._last is None:
                self._first = events[:STARTUP_FACTS]
                await self._open_fork(events[0])
            with readable(info.id):
                for event in events:
                    self._facts.feed(event)
                    if self._fork is not None:
                        self._fork.feed(event)
            for seq, name, ref in _refs(events):
                await self._check_result(seq, name, ref)
            self._last = events[-1]

    async def entries(self) -> AsyncIterator[AuditEntry]:
        """The inconsistencies, after the log was read."""
        for each in (*self._facts.result(), *(self._fork.found if self._fork is not None else ())):
            yield self._entry(each.seq, each.code, each.message)
        for entry in (*self._unreadable, *self._of_head()):
            yield entry
        if startup_failure(self._first) is None:  # the text of a refused request is not stored
            async for entry in _of_playbook(self._session, self._info):
                yield entry
        for entry in self._missing:
            yield entry

    def _entry(self, seq: int, code: str, message: str) -> AuditEntry:
        return AuditEntry(execution_id=self._info.id, seq=seq, code=code, message=message)

    async def _open_fork(self, first: Event) -> None:
        """What a fork keeps is in the log that it was forked from, and is what the fork would have called."""
        from noetl.fork.audit import ForkAudit, origin_of

        fork = origin_of((first,))
        if fork is None:
            return
        log = self._session.log
        try:
            rows = await log.read(fork.execution, 0, 1)
            audit = ForkAudit(
                self._info.id, await _programs(self._session, rows[0].facts[0], first.fact) if rows else None
            )
            seq = await fold_log(log, fork.execution, audit.feed_origin)
        except (NotFound, Damaged) as error:
            self._unreadable.append(self._entry(1, "fork", str(error)))
            return
        if not seq:
            message = f"the execution that it was forked from, {fork.execution}, does not exist"
            self._unreadable.append(self._entry(1, "fork", message))
            return
        self._fork = audit

    def _of_head(self) -> Iterator[AuditEntry]:
        """The row that lists read agrees with the log: the last seq, and whether it has ended."""
        info = self._info
        if self.seq < info.seq:
            message = f"{info.seq} facts were recorded, and the log has {self.seq}"
            yield self._entry(self.seq, "head", message)
            return
        last = None if self._last is None else self._last.fact
        ended = last.status if isinstance(last, Processed) else None
        if ended != (None if info.status in LIVE else info.status):
            yield self._entry(info.seq, "head", f"it is listed as {info.status}, and its log ends with {_named(last)}")

    async def _check_result(self, seq: int, name: str, ref: dict[str, JSON]) -> None:
        """Every result that the log refers to exists, byte for byte."""
        key = str(ref["locator"]["key"])
        if key in self._seen:
            return
        if len(self._seen) < KEYS_MAX:
            self._seen.add(key)
        self.results += 1
        try:
            await self._session.results.get(ref)
        except (NotFound, Damaged) as error:
            self._missing.append(self._entry(seq, "result", f"{name}: {error}" if name else str(error)))


async def _programs(session: Session, *requests: Fact) -> ForkPrograms | None:
    """None: one cannot run here, for example because a tool is not installed."""
    from noetl.control.playbooks import CompiledPlaybooks
    from noetl.fork.audit import ForkPrograms
    from noetl.tool import Tools

    texts = CompiledPlaybooks(session.catalog, Tools.installed().kinds())
    digests = [fact.digest for fact in requests if isinstance(fact, Requested)]
    try:
        first, second = [await texts.by_digest(digest) for digest in digests]
    except (NotFound, PlaybookError, ValueError):
        return None
    return ForkPrograms(first, second)


def _named(fact: object) -> str:
    return f"playbook.processed {fact.status}" if isinstance(fact, Processed) else "another fact"


async def _of_playbook(session: Session, info: ExecutionInfo) -> AsyncIterator[AuditEntry]:
    """The text that it runs exists, and is the one that it started with."""
    digest, _ = split_digest(info.digest)
    try:
        text = (await session.catalog.get(digest)).text
    except NotFound as error:
        message = str(error)
    else:
        if hashlib.sha256(text.encode()).hexdigest() == digest:
            return
        message = f"the text of {info.path} is not the one with the digest {info.digest}"
    yield AuditEntry(execution_id=info.id, seq=1, code="playbook", message=message)


def _refs(events: Iterable[Event]) -> Iterator[tuple[int, str, dict[str, JSON]]]:
    """The Refs in the fields of facts, and those of stored values with their names.

    Other Refs inside values of authors are not checked.
    """
    for event in events:
        if getattr(event.fact, "stored", None):
            fields = msgspec.to_builtins(event.fact)
            for name, value in {**fields.pop("set", {}), **fields}.items():
                yield from ((event.seq, name, ref) for ref in marks_on(value, ()))
        output = getattr(event.fact, "output", None)
        refs: list[JSON] = [output.ref if isinstance(output, Output) else None, getattr(event.fact, "ref", None)]
        for ref in refs:
            match ref:
                case {"locator": {"key": str()}}:
                    yield event.seq, "", ref


class StoredDifference(Struct, frozen=True, kw_only=True):
    """A value that is stored beside the log and differs from it."""

    kept: Literal["head", "snapshot", "records"]  # the row that lists read; the copies of the state and of run records
    at: int  # after which fact
    path: str
    folded: str  # the value by the log, as short JSON; "": none
    other: str


class ReplayReport(Struct, frozen=True, kw_only=True):
    execution_id: str
    facts: int
    snapshot: int | None  # after which fact it was stored; None: there is none, or none of this version
    records: int | None = None  # the same of the run records
    identical: bool
    differences: tuple[StoredDifference, ...]


async def replay_execution(execution: Execution) -> ReplayReport:
    """Fold the log again, and compare the result with the stored head, snapshot and run records."""
    info, log = await execution.info(), execution.session.log
    fold = _ReplayFold(info, await log.snapshot(info.id))
    records = _RecordsFold(info.id, await log.snapshot(info.id, "records"))

    def feed(event: Event) -> None:
        fold.feed(event)
        records.feed(event)

    await fold_log(log, info.id, feed, 0, max(fold.end, records.end))
    report, found = fold.result(), records.result()
    return replace(
        report,
        records=records.end or None,
        identical=report.identical and not found,
        differences=(*report.differences, *found),
    )


class _ReplayFold:
    """Reads a log up to its head: a running execution may have more facts by now."""

    def __init__(self, info: ExecutionInfo, snapshot: Snapshot | None) -> None:
        self._info = info
        self._snapshot = snapshot if snapshot is not None and snapshot.schema == schema() else None
        self._state = State(execution_id=info.id)
        self._kept: State | None = None  # the snapshot, and the facts after it
        self._is_compared = self._snapshot is None
        self._found: list[StoredDifference] = []

    @property
    def end(self) -> int:
        """A snapshot may be newer than the head that was read."""
        return max(self._info.seq, 0 if self._snapshot is None else self._snapshot.seq)

    def feed(self, event: Event) -> None:
        apply(self._state, event.fact, event.at)
        if self._kept is not None:
            apply(self._kept, event.fact, event.at)
        if self._snapshot is not None and event.seq == self._snapshot.seq:
            self._compare(self._snapshot)

    def _compare(self, snapshot: Snapshot) -> None:
        self._is_compared = True
        self._kept = _thawed(snapshot)
        if self._kept is None:
            unreadable = StoredDifference(kept="snapshot", at=snapshot.seq, path="", folded="", other="cannot be read")
            self._found.append(unreadable)
            return
        self._found += _differing("snapshot", snapshot.seq, differences(self._state, self._kept))

    def result(self) -> ReplayReport:
        """The copy itself is compared, and the state that follows from it with the later facts."""
        state, info = self._state, self._info
        if self._snapshot is not None and not self._is_compared:  # the log ends before it
            self._compare(self._snapshot)
        if self._kept is not None:
            self._found += _differing("snapshot", state.seq, differences(state, self._kept))
        # A snapshot that is newer than the head that was read says nothing about the head.
        if state.seq <= info.seq:
            self._found += _by_head(info, state)
        return ReplayReport(
            execution_id=info.id,
            facts=state.seq,
            snapshot=None if self._snapshot is None else self._snapshot.seq,
            identical=not self._found,
            differences=tuple(self._found),
        )


class _RecordsFold:
    """Reads a log up to the copy of its run records."""

    def __init__(self, execution_id: str, copy: Snapshot | None) -> None:
        self._copy = copy if copy is not None and copy.schema == records_schema() else None
        self._runs = Runs(execution_id)

    @property
    def end(self) -> int:
        """0: there is no copy."""
        return 0 if self._copy is None else self._copy.seq

    def feed(self, event: Event) -> None:
        if event.seq <= self.end:
            self._runs.feed(event)

    def result(self) -> list[StoredDifference]:
        if self._copy is None:
            return []
        try:
            copy = stored_runs.thaw_runs(self._copy.body)
        except ValueError:
            return [StoredDifference(kept="records", at=self.end, path="", folded="", other="cannot be read")]
        found = differences(self._runs.state, copy.state)
        found += differences(stored_runs.fields_of(self._runs), stored_runs.fields_of(copy))
        return list(_differing("records", self.end, found))


def _thawed(snapshot: Snapshot) -> State | None:
    try:
        return thaw(snapshot.body)
    except ValueError:
        return None


def _by_head(info: ExecutionInfo, state: State) -> Iterator[StoredDifference]:
    pairs = (("seq", state.seq, info.seq), ("status", state.status, info.status))
    for path, folded, other in pairs:
        if folded != other:
            yield StoredDifference(kept="head", at=info.seq, path=path, folded=str(folded), other=str(other))


def _differing(
    kept: Literal["head", "snapshot", "records"], at: int, found: list[ReplayDifference]
) -> Iterator[StoredDifference]:
    for each in found:
        yield StoredDifference(kept=kept, at=at, path=each.path, folded=each.folded, other=each.other)
