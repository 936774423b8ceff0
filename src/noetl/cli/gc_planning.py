"""Which results nobody needs any more (D53). Whatever a log speaks of stays, unless its own ttl has passed.

Results of one execution are looked at together; at most CANDIDATES_MAX in a run, the rest in the next one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from noetl.cli.gc_references import NAME_CHARS_MAX, Mentioned, names_in
from noetl.engine.state import LIVE
from noetl.errors import Damaged, NotFound
from noetl.output import JSON
from noetl.ports import StoredResult
from noetl.runtime import LocalStore
from noetl.worker.result_stores import NamedStore

CANDIDATES_MAX = 100_000
PAGE = 200  # executions that are listed together

_encode = msgspec.json.Encoder().encode

Why: TypeAlias = Literal["orphan", "gone", "expired", "torn"]


class Unneeded(NamedTuple):
    """A result that may go."""

    offered: NamedStore
    kept: StoredResult
    why: Why
    seq: int | None  # of its execution's last fact when it was looked at; None: there is no such execution


class Grace(NamedTuple):
    """What is younger than that stays."""

    now: datetime
    seconds: float

    def is_over(self, at: datetime, seconds: float | None = None) -> bool:
        return (self.now - at).total_seconds() > (self.seconds if seconds is None else seconds)


async def unneeded(disk: LocalStore, grace: Grace) -> list[Unneeded]:
    found: list[Unneeded] = []
    for offered in disk.results.offered:
        async for execution_id, held in _by_execution(offered):
            found += await _of_execution(disk, offered, (execution_id, held), grace)
            if len(found) >= CANDIDATES_MAX:
                break
    return await _unmentioned(disk, found)


async def _by_execution(offered: NamedStore) -> AsyncIterator[tuple[str, list[StoredResult]]]:
    held: list[StoredResult] = []
    before = ""
    async for kept in offered.store.kept():
        execution_id = kept.key.partition("/")[0]
        if execution_id != before and held:
            yield before, held
            held = []
        before = execution_id
        held.append(kept)
    if held:
        yield before, held


async def _of_execution(
    disk: LocalStore, offered: NamedStore, group: tuple[str, Sequence[StoredResult]], grace: Grace
) -> list[Unneeded]:
    execution_id, held = group
    torn = [each for each in held if each.torn and grace.is_over(each.at)]
    whole = [each for each in held if not each.torn]
    found = [Unneeded(offered, each, "torn", None) for each in torn]
    try:
        head = await disk.listing.head(execution_id)
    except NotFound:
        # A store that houses share holds what is another's: what we do not know there is not ours.
        gone = [each for each in whole if grace.is_over(each.at) and not offered.shared]
        return found + [Unneeded(offered, each, "gone", None) for each in gone]
    if head.status in LIVE:
        return found
    mentioned = Mentioned(disk.store.stream(execution_id))
    loose: list[StoredResult] = []
    for each in whole:
        if each.key not in mentioned:
            loose.append(each)
        elif (life := mentioned.life_s(each.key)) is not None and grace.is_over(each.at, life):
            found.append(Unneeded(offered, each, "expired", head.seq))
    if not grace.is_over(head.updated_at):
        return found
    loose = [each for each in loose if grace.is_over(each.at)]
    if loose:
        others = [each for each in whole if each not in loose]
        loose = await _not_inside(disk, offered, others, loose, mentioned)
    return found + [Unneeded(offered, each, "orphan", head.seq) for each in loose]


async def _not_inside(
    disk: LocalStore,
    offered: NamedStore,
    kept: list[StoredResult],
    loose: list[StoredResult],
    mentioned: Mentioned,
) -> list[StoredResult]:
    """Results speak of results, as the index of a list of its pages: what is reached so is meant too."""
    left = {each.key: each for each in loose}
    waiting = sorted(kept, key=lambda each: -each.bytes)
    while waiting and left:
        each = waiting.pop()
        ref = mentioned.refs.get(each.key) or _bare_ref(offered, each)
        before = b""
        try:
            async for chunk in disk.results.read(ref):
                for key in names_in(before + chunk) & left.keys():
                    waiting.append(left.pop(key))
                before = chunk[-NAME_CHARS_MAX:]
        except (Damaged, NotFound):
            return []  # Nobody knows what it spoke of: all of it stays.
    return list(left.values())


def _bare_ref(offered: NamedStore, kept: StoredResult) -> dict[str, JSON]:
    place = offered.store.place
    meta = {"bytes": kept.bytes, "sha256": kept.key.rpartition("/")[2]}
    return {"type": place.type, "locator": {**place.locator, "key": kept.key}, "meta": meta}


async def _unmentioned(disk: LocalStore, found: list[Unneeded]) -> list[Unneeded]:
    """Without those that the log of another execution speaks of, as a caller does of what it called."""
    wanted = {each.kept.key for each in found if each.why in ("orphan", "gone")}
    before: str | None = None
    while wanted:
        page = await disk.listing.executions(PAGE, before=before)
        for head in page:
            for row in disk.store.stream(head.execution_id):
                wanted -= names_in(_encode(row.facts))
        if len(page) < PAGE:
            break
        before = page[-1].execution_id
    return [each for each in found if each.why in ("expired", "torn") or each.kept.key in wanted]
