"""`noetl replay`: is what is shown of an execution what its log says? The log is folded anew and compared."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from noetl.cli.choices import FormatChoice
from noetl.cli.encoded import as_document
from noetl.cli.exits import OK
from noetl.cli.looking import Log, Shelf, log_of, opened, screen_for
from noetl.control.snapshots import fold
from noetl.engine.snapshot import SCHEMA, thaw
from noetl.engine.state import State
from noetl.net.describe import count
from noetl.ports import LogRow, Snapshot
from noetl.views.log import readable
from noetl.views.replay import ReplayDifference, differences
from noetl.views.styled_text import Styled

DIFFERENT = 1


class Differing(Struct, frozen=True, kw_only=True):
    """Something that is kept beside the log, and is not what the log says."""

    kept: Literal["head", "snapshot"]  # the row that lists read; the copy of the state
    at: int  # after which fact
    path: str
    folded: str  # the value by the log, as short JSON; "": there is none
    other: str


class Replay(Struct, frozen=True, kw_only=True):
    execution_id: str
    facts: int
    snapshot: int | None  # after which fact it was kept; None: there is none, or none that we can read
    identical: bool
    differences: tuple[Differing, ...]


def run_replay(given: str, form: FormatChoice, db: str | None) -> int:
    with opened(db) as disk:
        replay = asyncio.run(_replay(disk, given))
    if form == "json":
        sys.stdout.write(as_document(replay))
    else:
        screen_for(form).lines(_told(replay))
    return OK if replay.identical else DIFFERENT


async def _replay(disk: Shelf, given: str) -> Replay:
    log = await log_of(disk, given)
    snapshot = await disk.store.snapshot(log.id)
    if snapshot is not None and snapshot.seq > log.last_seq:
        # It was kept after the log was read.
        log = log._replace(rows=await disk.store.read(log.id))
    return compared(log, snapshot)


def compared(log: Log, snapshot: Snapshot | None) -> Replay:
    """The log is read up to its head: an execution that runs may be further by now."""
    state = State(execution_id=log.id)
    found: list[Differing] = []
    at: int | None = None
    with readable(log.id):
        if snapshot is not None and snapshot.schema == SCHEMA:
            at = snapshot.seq
            fold(state, _up_to(log.rows, at))
            found += _by_snapshot(log, state, snapshot)
        fold(state, _up_to(log.rows, log.execution.seq))
    # When the snapshot is further than the head that was read, the head can say nothing of the state.
    if state.seq <= log.execution.seq:
        found += _by_head(log, state)
    return Replay(
        execution_id=log.id, facts=state.seq, snapshot=at, identical=not found, differences=tuple(found)
    )


def _up_to(rows: list[LogRow], seq: int) -> Iterator[LogRow]:
    for row in rows:
        if row.first_seq <= seq:
            yield row._replace(facts=row.facts[: seq + 1 - row.first_seq])


def _by_snapshot(log: Log, state: State, snapshot: Snapshot) -> Iterator[Differing]:
    """The copy itself, and the state that comes of it with the facts behind it."""
    kept = _thawed(snapshot)
    if kept is None:
        yield Differing(kept="snapshot", at=snapshot.seq, path="", folded="", other="can not be read")
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


def _by_head(log: Log, state: State) -> Iterator[Differing]:
    execution = log.execution
    shown = (("seq", state.seq, execution.seq), ("status", state.status, execution.status))
    for path, folded, other in shown:
        if folded != other:
            yield Differing(kept="head", at=execution.seq, path=path, folded=str(folded), other=str(other))


def _differing(
    kept: Literal["head", "snapshot"], at: int, found: list[ReplayDifference]
) -> Iterator[Differing]:
    for each in found:
        yield Differing(kept=kept, at=at, path=each.path, folded=each.folded, other=each.other)


def _told(replay: Replay) -> Iterator[list[Styled]]:
    line = [Styled(replay.execution_id, "strong"), Styled(f": {count(replay.facts, 'fact')}, ")]
    if replay.identical:
        line.append(Styled("identical", "good"))
    else:
        line.append(Styled(count(len(replay.differences), "difference"), "error"))
    beside = f", with the snapshot at {replay.snapshot:,}" if replay.snapshot is not None else ""
    yield [*line, Styled(beside, "faint")]
    for each in replay.differences:
        yield [Styled(f"  {each.kept} at {each.at}: "), Styled(each.path, "name")]
        yield [Styled("    by the log ", "faint"), Styled(each.folded or "(nothing)")]
        yield [Styled("    kept       ", "faint"), Styled(each.other or "(nothing)")]
