"""Stored results that nothing refers to (D53), found and deleted.

A result that a log refers to stays, unless its own `ttl` has passed. The results of one execution are
examined together, at most CANDIDATES_MAX in one pass.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import datetime
from itertools import groupby
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct

from noetl.engine.state import LIVE
from noetl.errors import Damaged, NotFound
from noetl.output import JSON
from noetl.ports import LogRow, StoredResult
from noetl.runtime.embedded import LocalStore
from noetl.views.documents import refs_in
from noetl.worker.result_stores import NamedStore, seconds_of

CANDIDATES_MAX: Final = 100_000
PAGE: Final = 200  # executions in one request
_encode = msgspec.json.Encoder().encode

GarbageReason: TypeAlias = Literal["orphan", "gone", "expired", "torn"]


class Garbage(NamedTuple):
    named: NamedStore
    kept: StoredResult
    reason: GarbageReason
    seq: int | None  # of the last fact of its execution when it was examined; None: there is no such execution


class AgeLimit(NamedTuple):
    """Results that are newer than this are kept."""

    now: datetime
    seconds: float

    def has_passed(self, at: datetime, seconds: float | None = None) -> bool:
        return (self.now - at).total_seconds() > (self.seconds if seconds is None else seconds)


async def _find_garbage(disk: LocalStore, age: AgeLimit) -> list[Garbage]:
    found: list[Garbage] = []
    for named in disk.results.offered:
        async for execution_id, held in _by_execution(named):
            found += await _of_execution(disk, named, (execution_id, held), age)
            if len(found) >= CANDIDATES_MAX:
                break
    return await _without_foreign_references(disk, found)


async def _by_execution(named: NamedStore) -> AsyncIterator[tuple[str, list[StoredResult]]]:
    held: list[StoredResult] = []
    before = ""
    async for kept in named.store.kept():
        execution_id = kept.key.partition("/")[0]
        if execution_id != before and held:
            yield before, held
            held = []
        before = execution_id
        held.append(kept)
    if held:
        yield before, held


async def _of_execution(
    disk: LocalStore, named: NamedStore, group: tuple[str, Sequence[StoredResult]], age: AgeLimit
) -> list[Garbage]:
    execution_id, held = group
    torn = [each for each in held if each.torn and age.has_passed(each.at)]
    whole = [each for each in held if not each.torn]
    found = [Garbage(named, each, "torn", None) for each in torn]
    try:
        head = await disk.listing.head(execution_id)
    except NotFound:
        # A shared store also holds the results of other deployments: unknown ones there are not ours.
        gone = [each for each in whole if age.has_passed(each.at) and not named.shared]
        return found + [Garbage(named, each, "gone", None) for each in gone]
    if head.status in LIVE:
        return found
    referenced = ReferencedResults(disk.store.stream(execution_id))
    unreferenced: list[StoredResult] = []
    for each in whole:
        if each.key not in referenced:
            unreferenced.append(each)
        elif (lifetime := referenced.lifetime_s(each.key)) is not None and age.has_passed(each.at, lifetime):
            found.append(Garbage(named, each, "expired", head.seq))
    if not age.has_passed(head.updated_at):
        return found
    unreferenced = [each for each in unreferenced if age.has_passed(each.at)]
    if unreferenced:
        others = [each for each in whole if each not in unreferenced]
        unreferenced = await _not_inside(disk, named, others, unreferenced, referenced)
    return found + [Garbage(named, each, "orphan", head.seq) for each in unreferenced]


async def _not_inside(
    disk: LocalStore,
    named: NamedStore,
    kept: list[StoredResult],
    unreferenced: list[StoredResult],
    referenced: ReferencedResults,
) -> list[StoredResult]:
    """Results refer to results, such as the index of a list to its pages: those are referenced too."""
    left = {each.key: each for each in unreferenced}
    waiting = sorted(kept, key=lambda each: -each.bytes)
    while waiting and left:
        each = waiting.pop()
        ref = referenced.refs.get(each.key) or _bare_ref(named, each)
        before = b""
        try:
            async for chunk in disk.results.read(ref):
                for key in names_in(before + chunk) & left.keys():
                    waiting.append(left.pop(key))
                before = chunk[-NAME_CHARS_MAX:]
        except (Damaged, NotFound):
            return []  # Its references are unknown: everything stays.
    return list(left.values())


def _bare_ref(named: NamedStore, kept: StoredResult) -> dict[str, JSON]:
    place = named.store.place
    meta = {"bytes": kept.bytes, "sha256": kept.key.rpartition("/")[2]}
    return {"type": place.type, "locator": {**place.locator, "key": kept.key}, "meta": meta}


async def _without_foreign_references(disk: LocalStore, found: list[Garbage]) -> list[Garbage]:
    """Without those that the log of another execution refers to, such as the log of its caller."""
    wanted = {each.kept.key for each in found if each.reason in ("orphan", "gone")}
    before: str | None = None
    while wanted:
        page = await disk.listing.executions(PAGE, before=before)
        for head in page:
            for row in disk.store.stream(head.execution_id):
                wanted -= names_in(_encode(row.facts))
        if len(page) < PAGE:
            break
        before = page[-1].execution_id
    return [each for each in found if each.reason in ("expired", "torn") or each.kept.key in wanted]


class DeletedResult(Struct, frozen=True, kw_only=True):
    """One result that was deleted, or would be."""

    store: str
    key: str
    bytes: int
    why: str


class GarbageReport(Struct, frozen=True, kw_only=True):
    """What one pass deleted."""

    dry_run: bool
    results: int
    bytes: int
    dropped: list[DeletedResult]


async def collect_garbage(disk: LocalStore, older_than_s: float, *, dry_run: bool) -> GarbageReport:
    found = await _find_garbage(disk, AgeLimit(disk.database.clock.now(), older_than_s))
    gone = found if dry_run else await _delete(disk, found)
    dropped = [
        DeletedResult(store=each.named.kind, key=each.kept.key, bytes=each.kept.bytes, why=each.reason) for each in gone
    ]
    total = sum(each.bytes for each in dropped)
    return GarbageReport(dry_run=dry_run, results=len(dropped), bytes=total, dropped=dropped)


async def _delete(disk: LocalStore, found: Sequence[Garbage]) -> list[Garbage]:
    """Execution by execution; one that has changed since it was examined, by a retry, keeps its results."""
    gone: list[Garbage] = []
    for (execution_id, seq, named), group in groupby(
        found, lambda each: (each.kept.key.partition("/")[0], each.seq, each.named)
    ):
        results = list(group)
        if seq is not None and await _seq(disk, execution_id) != seq:
            continue
        await named.store.drop([each.kept.key for each in results])
        gone += results
    return gone


async def _seq(disk: LocalStore, execution_id: str) -> int | None:
    try:
        return (await disk.listing.head(execution_id)).seq
    except NotFound:
        return None


# References in logs

_NAME: Final = re.compile(rb"[0-9a-zA-Z-]{1,64}/[0-9a-f]{64}")
NAME_CHARS_MAX: Final = 129


class ReferencedResults:
    """The results that one log refers to, and how long each is kept. Any text like a key counts."""

    def __init__(self, rows: Iterable[LogRow]) -> None:
        self.refs: dict[str, dict[str, JSON]] = {}  # of packed results: a key alone is not enough to read them
        self._lifetimes: dict[str, float | None] = {}  # seconds; None: as long as the execution exists
        for row in rows:
            self._read(_encode(row.facts))

    def __contains__(self, key: str) -> bool:
        return key in self._lifetimes

    def lifetime_s(self, key: str) -> float | None:
        """The longest `ttl` of all references; None: unlimited."""
        return self._lifetimes[key]

    def _read(self, body: bytes) -> None:
        found = names_in(body)
        marked: dict[str, float | None] = {}
        if b'"ttl":' in body or b'"encoding":' in body:
            for ref in refs_in(msgspec.json.decode(body)):
                key, meta = ref["locator"]["key"], ref["meta"]
                if "encoding" in meta:
                    self.refs[key] = ref
                marked[key] = _longer(marked, key, seconds_of(meta.get("ttl")))
        for key in found:
            self._lifetimes[key] = _longer(self._lifetimes, key, marked.get(key))


def _longer(lifetimes: dict[str, float | None], key: str, length: float | None) -> float | None:
    if key not in lifetimes:
        return length
    before = lifetimes[key]
    return None if before is None or length is None else max(before, length)


def names_in(body: bytes) -> set[str]:
    return {name.decode() for name in _NAME.findall(body)}
