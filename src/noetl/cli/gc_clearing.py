"""`noetl gc`: away with results that nobody needs any more, and a word on what and how much it was."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from msgspec import Struct

from noetl.cli.choices import FormatChoice
from noetl.cli.encoded import as_document
from noetl.cli.exits import OK, Usage
from noetl.cli.gc_planning import Grace, Unneeded, unneeded
from noetl.cli.looking import opened_file, screen_for
from noetl.errors import NotFound
from noetl.net.describe import count
from noetl.runtime import LocalStore
from noetl.views.styled_text import Styled
from noetl.worker.result_policy import seconds_of

WORDS = {"orphan": "orphan", "gone": "of a gone execution", "expired": "expired", "torn": "unfinished"}


class Cleared(Struct, frozen=True, kw_only=True):
    """One result that is gone, or would be."""

    store: str
    key: str
    bytes: int
    why: str


class Clearance(Struct, frozen=True, kw_only=True):
    """What a run of `gc` did."""

    dry_run: bool
    results: int
    bytes: int
    dropped: list[Cleared]


def run_gc(older_than: str, form: FormatChoice, db: str | None, *, dry_run: bool) -> int:
    seconds = seconds_of(older_than)
    if seconds is None:
        raise Usage(f'"{older_than}" is no length of time: write it as 24h, 7d or 90m')
    with opened_file(db) as disk:
        done = asyncio.run(_gc(disk, seconds, dry_run=dry_run))
    if form == "json":
        sys.stdout.write(as_document(done))
    else:
        screen_for(form).lines(_told(done))
    return OK


async def _gc(disk: LocalStore, seconds: float, *, dry_run: bool) -> Clearance:
    try:
        found = await unneeded(disk, Grace(disk.database.clock.now(), seconds))
        gone = found if dry_run else await _dropped(disk, found)
    finally:
        await disk.results.close()
    dropped = [
        Cleared(store=each.offered.kind, key=each.kept.key, bytes=each.kept.bytes, why=each.why)
        for each in gone
    ]
    total = sum(each.bytes for each in dropped)
    return Clearance(dry_run=dry_run, results=len(dropped), bytes=total, dropped=dropped)


async def _dropped(disk: LocalStore, found: Sequence[Unneeded]) -> list[Unneeded]:
    """Execution by execution; one that has moved since it was looked at, by a retry, keeps what it has."""
    gone: list[Unneeded] = []
    for (execution_id, seq, offered), group in groupby(
        found, lambda each: (each.kept.key.partition("/")[0], each.seq, each.offered)
    ):
        each = list(group)
        if seq is not None and await _seq(disk, execution_id) != seq:
            continue
        await offered.store.drop([unneeded.kept.key for unneeded in each])
        gone += each
    return gone


async def _seq(disk: LocalStore, execution_id: str) -> int | None:
    try:
        return (await disk.listing.head(execution_id)).seq
    except NotFound:
        return None


def _told(done: Clearance) -> Iterator[list[Styled]]:
    for store in dict.fromkeys(each.store for each in done.dropped):
        ours = [each for each in done.dropped if each.store == store]
        kinds = Counter(each.why for each in ours)
        said = ", ".join(f"{number:,} {WORDS[why]}" for why, number in kinds.items())
        size = sum(each.bytes for each in ours)
        yield [
            Styled(store, "name"),
            Styled(f": {count(len(ours), 'result')}, {size:,} bytes ({said})"),
        ]
    if not done.dropped:
        yield [Styled("nothing to clear: every result is needed, or too young")]
    elif done.dry_run:
        yield [Styled(f"would drop {count(done.results, 'result')}, {done.bytes:,} bytes", "warning")]
    else:
        yield [Styled(f"dropped {count(done.results, 'result')}, {done.bytes:,} bytes", "good")]
