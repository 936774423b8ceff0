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

    def retried(self, run: str, named: tuple[int, ...]) -> LoopTable:
        """The table of a run that retries this one: failed iterations wait again, the others are inherited.

        `named`: only these wait again; (): all that failed.
        """
        copied = LoopTable(
            run=run, retries=(*self.retries, self.run), count=self.count, items=self.items, ref=self.ref,
            status=bytearray(self.status),
            attempts=self.attempts[:], started=self.started[:], ended=self.ended[:], first_seq=self.first_seq[:],
            last_seq=self.last_seq[:], done_seq=self.done_seq[:], children=dict(self.children),
        )  # fmt: skip
        again = {*named} if named else {*self.errors}
        for index in again:
            copied.status[index], copied.started[index] = _WAITING, 0
        copied.errors = {index: error for index, error in self.errors.items() if index not in again}
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

    def note(self, index: int, seq: int, at: float, status: int | None = None, started: datetime | None = None) -> None:
        """A fact of the iteration."""
        if index >= self.count:
            return
        if not self.first_seq[index]:
            self.first_seq[index] = seq
        self.last_seq[index] = seq
        self.ended[index] = at
        if started is not None and not self.started[index]:
            self.started[index] = started.timestamp()
        if status is not None:
            self.status[index] = status


def text_of(item: JSON) -> str:
    """An item on one short line."""
    return shorten(one_line(to_json(item)), ITEM_CHARS_MAX)


_FrameFact: TypeAlias = facts.TaskStarted | facts.TaskDone | facts.FrameParked | facts.FrameResumed | facts.FrameLost


class LoopTables:
    """Reads a log event by event; holds a table for each loop of a step."""

    def __init__(self) -> None:
        self.tables: dict[str, LoopTable] = {}
        self._at: datetime | None = None  # of the last fact; the facts of a commit share it
        self._now = 0.0  # the same in seconds since the epoch

    def feed(self, event: Event) -> None:
        fact, tables = event.fact, self.tables
        if event.at is not self._at:
            self._at, self._now = event.at, event.at.timestamp()
        if isinstance(fact, facts.TaskDone):  # this and the next one are most facts of a long log
            self._note_frame(event, fact)
            return
        if isinstance(fact, facts.IterationDone):
            if (table := tables.get(fact.run)) is not None:
                table.note(fact.index, event.seq, self._now, _OK)
            return
        match fact:
            case facts.StepScheduled(run=run, loop=True, parent=None):
                before = tables.get(fact.retry_of or "")
                tables[run] = LoopTable(run=run) if before is None else before.retried(run, fact.iterations)
            case facts.LoopStarted(run=run, count=count) if run in tables:
                table = tables[run]
                table.resize(count)
                table.items, table.ref = fact.items, fact.ref
            case facts.IterationFailed(run=run, index=index, error=error) if run in tables:
                tables[run].note(index, event.seq, self._now, _FAILED)
                tables[run].errors[index] = shorten(f"{error.kind}: {error.message}", ERROR_CHARS_MAX)
            case facts.TaskStarted() | facts.FrameParked() | facts.FrameResumed() | facts.FrameLost():
                self._note_frame(event, fact)

    def _note_frame(self, event: Event, fact: _FrameFact) -> None:
        run, index = frame_parts(fact.frame)
        table = self.tables.get(run)
        if table is None or index is None or index >= table.count:
            return
        seq, now = event.seq, self._now
        match fact:
            case facts.TaskDone(started_at=began):
                table.note(index, seq, now, _RUNNING, began)
                table.attempts[index] += fact.repeats
                table.done_seq[index] = seq
            case facts.TaskStarted(started_at=started):
                table.note(index, seq, now, _RUNNING, started)
            case facts.FrameParked(until=until):
                table.note(index, seq, now, _RUNNING)
                if isinstance(until, ForChild):
                    table.children[index] = until.execution_id
            case facts.FrameLost():
                table.note(index, seq, now, _WAITING)
            case _:
                table.note(index, seq, now)
