"""The iterations of loops, one by one: status, attempts, times, and where their facts are in the log.

A few numbers for each iteration, so that a loop of 100,000 needs about 5 MB.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Literal, TypeAlias, get_args

from msgspec import Struct, field

from noetl.engine import Event, facts
from noetl.engine.facts import ForChild
from noetl.escape import one_line, shorten
from noetl.ids import frame_parts
from noetl.output import JSON
from noetl.template.values import to_json
from noetl.views.runs import ITEM_CHARS_MAX

ERROR_CHARS_MAX = 300
IterationStatus: TypeAlias = Literal["waiting", "running", "ok", "failed"]
STATUSES: tuple[IterationStatus, ...] = get_args(IterationStatus)
_WAITING, _RUNNING, _OK, _FAILED = range(4)


class LoopTable(Struct, kw_only=True):
    """The iterations of one run of a step."""

    run: str
    retries: tuple[str, ...] = ()  # the runs that it retries, whose iterations it has inherited
    count: int = 0
    items: list[JSON] | None = None  # None: they are in the result store
    ref: dict[str, JSON] | None = None
    status: bytearray = field(default_factory=bytearray)  # an index into STATUSES
    attempts: array[int] = field(default_factory=lambda: array("L"))  # calls that were repeated
    started: array[float] = field(default_factory=lambda: array("d"))  # seconds since the epoch; 0: not known
    ended: array[float] = field(default_factory=lambda: array("d"))  # of the last fact
    first_seq: array[int] = field(default_factory=lambda: array("Q"))  # of its first fact; 0: it has none
    last_seq: array[int] = field(default_factory=lambda: array("Q"))
    done_seq: array[int] = field(default_factory=lambda: array("Q"))  # of its last finished call; 0: none
    errors: dict[int, str] = field(default_factory=dict)
    children: dict[int, str] = field(default_factory=dict)  # the execution that it called last

    def resize(self, count: int) -> None:
        """Forget everything: the loop begins."""
        self.count, self.status = count, bytearray(count)
        self.attempts, self.started, self.ended = (
            array("L", [0]) * count,
            array("d", [0]) * count,
            array("d", [0]) * count,
        )
        self.first_seq, self.last_seq, self.done_seq = (array("Q", [0]) * count for _ in range(3))
        self.errors, self.children = {}, {}

    def retried(self, run: str) -> LoopTable:
        """The table of a run that retries this one: failed iterations wait again, the others are inherited."""
        copied = LoopTable(
            run=run, retries=(*self.retries, self.run), count=self.count, items=self.items, ref=self.ref,
            status=bytearray(self.status),
            attempts=self.attempts[:], started=self.started[:], ended=self.ended[:], first_seq=self.first_seq[:],
            last_seq=self.last_seq[:], done_seq=self.done_seq[:], children=dict(self.children),
        )  # fmt: skip
        for index in self.errors:
            copied.status[index], copied.started[index] = _WAITING, 0
        return copied

    def counts(self) -> dict[IterationStatus, int]:
        found = Counter(self.status)
        return {name: found.get(place, 0) for place, name in enumerate(STATUSES)}

    def item_text(self, index: int) -> str:
        """On one line; "": it is in the result store."""
        return "" if self.items is None or index >= len(self.items) else text_of(self.items[index])

    def find(self, status: IterationStatus | None, text: str) -> Sequence[int]:
        """The indexes with this status whose item, number or error contains the text."""
        found: Sequence[int] = range(self.count)
        if status is not None:
            place = STATUSES.index(status)
            found = [index for index, value in enumerate(self.status) if value == place]
        if text:
            low = text.lower()
            found = [index for index in found if low in self._searched(index)]
        return found

    def _searched(self, index: int) -> str:
        return f"[{index}] {self.item_text(index)} {self.errors.get(index, '')}".lower()

    def note(self, index: int, event: Event, status: int | None = None, started: datetime | None = None) -> None:
        """A fact of the iteration."""
        if index >= self.count:
            return
        if not self.first_seq[index]:
            self.first_seq[index] = event.seq
        self.last_seq[index] = event.seq
        self.ended[index] = event.at.timestamp()
        if started is not None and not self.started[index]:
            self.started[index] = started.timestamp()
        if status is not None:
            self.status[index] = status


def text_of(item: JSON) -> str:
    """An item on one short line."""
    return shorten(one_line(to_json(item)), ITEM_CHARS_MAX)


class LoopTables:
    """Reads a log event by event; holds a table for each loop of a step."""

    def __init__(self) -> None:
        self.tables: dict[str, LoopTable] = {}

    def feed(self, event: Event) -> None:
        fact, tables = event.fact, self.tables
        match fact:
            case facts.StepScheduled(run=run, loop=True, parent=None):
                before = tables.get(fact.retry_of or "")
                tables[run] = LoopTable(run=run) if before is None else before.retried(run)
            case facts.LoopStarted(run=run, count=count) if run in tables:
                table = tables[run]
                table.resize(count)
                table.items, table.ref = fact.items, fact.ref
            case facts.IterationDone(run=run, index=index) if run in tables:
                tables[run].note(index, event, _OK)
            case facts.IterationFailed(run=run, index=index, error=error) if run in tables:
                tables[run].note(index, event, _FAILED)
                tables[run].errors[index] = shorten(f"{error.kind}: {error.message}", ERROR_CHARS_MAX)
            case (
                facts.TaskStarted() | facts.TaskDone() | facts.FrameParked() | facts.FrameResumed() | facts.FrameLost()
            ):
                run, at = frame_parts(fact.frame)
                found = tables.get(run)
                if found is not None and at is not None:
                    _note_frame(found, at, event, fact)


_FrameFact: TypeAlias = facts.TaskStarted | facts.TaskDone | facts.FrameParked | facts.FrameResumed | facts.FrameLost


def _note_frame(table: LoopTable, index: int, event: Event, fact: _FrameFact) -> None:
    match fact:
        case facts.TaskStarted(started_at=started):
            table.note(index, event, _RUNNING, started)
        case facts.TaskDone(started_at=began):
            table.note(index, event, _RUNNING, began)
            if index < table.count:
                table.attempts[index] += fact.repeats
                table.done_seq[index] = event.seq
        case facts.FrameParked(until=until):
            table.note(index, event, _RUNNING)
            if isinstance(until, ForChild):
                table.children[index] = until.execution_id
        case facts.FrameLost():
            table.note(index, event, _WAITING)
        case _:
            table.note(index, event)
