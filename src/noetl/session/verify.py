"""Audit and replay: logs, heads, stored results and snapshots, compared with what the log says."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from msgspec import Struct

from noetl.control.live_execution import fold
from noetl.engine import Event
from noetl.engine.facts import Processed, Requested
from noetl.engine.snapshot import schema, thaw
from noetl.engine.state import LIVE, State
from noetl.engine.stored import marks_on
from noetl.errors import Damaged, NotFound, PlaybookError
from noetl.net.notify import split_digest
from noetl.output import JSON, Output
from noetl.ports import LogRow, Snapshot
from noetl.session.execution import Execution, ExecutionLog
from noetl.session.protocol import ExecutionInfo, Session
from noetl.views.audit import findings
from noetl.views.log import events_of, readable, startup_failure
from noetl.views.replay import ReplayDifference, differences

if TYPE_CHECKING:
    from noetl.fork.audit import ForkPrograms

KEYS_MAX: Final = 100_000  # results of one execution that are read_runs as seen


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
        try:
            log = ExecutionLog(info, await session.log.read(info.id))
        except Damaged as error:
            audit.findings.append(AuditEntry(execution_id=info.id, seq=0, code="log", message=str(error)))
            continue
        audit.facts += log.last_seq
        audit.findings += [
            AuditEntry(execution_id=log.id, seq=each.seq, code=each.code, message=each.message)
            for each in findings(log.events())
        ]
        audit.findings += [each async for each in _of_fork(session, log)]
        audit.findings += _of_head(log)
        if startup_failure(log.events()) is None:  # the text of a refused request is not stored
            audit.findings += [each async for each in _of_playbook(session, info)]
        await _results(session, log, audit)
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


async def _of_fork(session: Session, log: ExecutionLog) -> AsyncIterator[AuditEntry]:
    """What a fork keeps is in the log that it was forked from, and is what the fork would have called."""
    from noetl.fork.audit import fork_findings, origin_of

    fork = origin_of(log.events())
    if fork is None:
        return
    try:
        origin = await session.log.read(fork.execution)
    except (NotFound, Damaged) as error:
        yield AuditEntry(execution_id=log.id, seq=1, code="fork", message=str(error))
        return
    if not origin:
        message = f"the execution that it was forked from, {fork.execution}, does not exist"
        yield AuditEntry(execution_id=log.id, seq=1, code="fork", message=message)
        return
    programs = await _programs(session, origin, log.rows)
    with readable(log.id):
        found = fork_findings(log.id, log.events(), events_of(origin), programs)
    for each in found:
        yield AuditEntry(execution_id=log.id, seq=each.seq, code=each.code, message=each.message)


async def _programs(session: Session, old: list[LogRow], new: list[LogRow]) -> ForkPrograms | None:
    """None: one cannot run here, for example because a tool is not installed."""
    from noetl.control.playbooks import CompiledPlaybooks
    from noetl.fork.audit import ForkPrograms
    from noetl.tool import Tools

    texts = CompiledPlaybooks(session.catalog, Tools.installed().kinds())
    digests = [fact.digest for rows in (old, new) for fact in rows[0].facts[:1] if isinstance(fact, Requested)]
    try:
        first, second = [await texts.by_digest(digest) for digest in digests]
    except (NotFound, PlaybookError, ValueError):
        return None
    return ForkPrograms(first, second)


def _of_head(log: ExecutionLog) -> Iterator[AuditEntry]:
    """The row that lists read agrees with the log: the last seq, and whether it has ended."""
    info = log.info
    if log.last_seq < info.seq:
        message = f"{info.seq} facts were recorded, and the log has {log.last_seq}"
        yield AuditEntry(execution_id=log.id, seq=log.last_seq, code="head", message=message)
        return
    last = next((event.fact for event in events_of(log.rows, after=info.seq - 1)), None)
    ended = last.status if isinstance(last, Processed) else None
    if ended != (None if info.status in LIVE else info.status):
        message = f"it is listed as {info.status}, and its log ends with {_named(last)}"
        yield AuditEntry(execution_id=log.id, seq=info.seq, code="head", message=message)


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


async def _results(session: Session, log: ExecutionLog, audit: AuditReport) -> None:
    """Every result that the log refers to exists, byte for byte."""
    seen: set[str] = set()
    for seq, name, ref in _refs(log.events()):
        key = str(ref["locator"]["key"])
        if key in seen:
            continue
        if len(seen) < KEYS_MAX:
            seen.add(key)
        audit.results += 1
        try:
            await session.results.get(ref)
        except (NotFound, Damaged) as error:
            message = f"{name}: {error}" if name else str(error)
            audit.findings.append(AuditEntry(execution_id=log.id, seq=seq, code="result", message=message))


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

    kept: Literal["head", "snapshot"]  # the row that lists read; the copy of the state
    at: int  # after which fact
    path: str
    folded: str  # the value by the log, as short JSON; "": none
    other: str


class ReplayReport(Struct, frozen=True, kw_only=True):
    execution_id: str
    facts: int
    snapshot: int | None  # after which fact it was stored; None: there is none, or none of this version
    identical: bool
    differences: tuple[StoredDifference, ...]


async def replay_execution(execution: Execution) -> ReplayReport:
    """Fold the log again, and compare the result with the stored head and snapshot."""
    log = await execution.log()
    snapshot = await execution.session.log.snapshot(log.id)
    if snapshot is not None and snapshot.seq > log.last_seq:
        # It was stored after the log was read.
        log = log._replace(rows=await execution.session.log.read(log.id))
    return compare(log, snapshot)


def compare(log: ExecutionLog, snapshot: Snapshot | None) -> ReplayReport:
    """The log is read up to its head: a running execution may have more facts by now."""
    state = State(execution_id=log.id)
    found: list[StoredDifference] = []
    at: int | None = None
    with readable(log.id):
        if snapshot is not None and snapshot.schema == schema():
            at = snapshot.seq
            fold(state, _up_to(log.rows, at))
            found += _by_snapshot(log, state, snapshot)
        fold(state, _up_to(log.rows, log.info.seq))
    # A snapshot that is newer than the head that was read says nothing about the head.
    if state.seq <= log.info.seq:
        found += _by_head(log, state)
    return ReplayReport(
        execution_id=log.id, facts=state.seq, snapshot=at, identical=not found, differences=tuple(found)
    )


def _up_to(rows: list[LogRow], seq: int) -> Iterator[LogRow]:
    for row in rows:
        if row.first_seq <= seq:
            yield row._replace(facts=row.facts[: seq + 1 - row.first_seq])


def _by_snapshot(log: ExecutionLog, state: State, snapshot: Snapshot) -> Iterator[StoredDifference]:
    """The copy itself, and the state that follows from it with the later facts."""
    kept = _thawed(snapshot)
    if kept is None:
        yield StoredDifference(kept="snapshot", at=snapshot.seq, path="", folded="", other="cannot be read")
        return
    yield from _differing("snapshot", snapshot.seq, differences(state, kept))
    fold(state, log.rows)
    fold(kept, log.rows)
    yield from _differing("snapshot", state.seq, differences(state, kept))


def _thawed(snapshot: Snapshot) -> State | None:
    try:
        return thaw(snapshot.body)
    except ValueError:
        return None


def _by_head(log: ExecutionLog, state: State) -> Iterator[StoredDifference]:
    info = log.info
    pairs = (("seq", state.seq, info.seq), ("status", state.status, info.status))
    for path, folded, other in pairs:
        if folded != other:
            yield StoredDifference(kept="head", at=info.seq, path=path, folded=str(folded), other=str(other))


def _differing(kept: Literal["head", "snapshot"], at: int, found: list[ReplayDifference]) -> Iterator[StoredDifference]:
    for each in found:
        yield StoredDifference(kept=kept, at=at, path=each.path, folded=each.folded, other=each.other)
