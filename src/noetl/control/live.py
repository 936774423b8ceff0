"""One execution in a server's hands: its state, and what is known of it that is not on record."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from noetl.engine import Agenda, Event, agenda_of, apply
from noetl.engine.commands import Command
from noetl.engine.facts import Evaluated
from noetl.engine.state import State
from noetl.engine.work import due_of
from noetl.ids import frame_parts
from noetl.net.program import Program
from noetl.output import JSON
from noetl.ports import Answer, Epoch, Grant, Row


class Lease(NamedTuple):
    """A grant that is out."""

    epoch: Epoch
    worker: str
    until: float  # by the server's own monotonic clock


class Asked(NamedTuple):
    """A command that waits for its commit; its answer is given after it."""

    command: Command | None  # None: only what follows of itself
    answer: asyncio.Future[None]


class Look(NamedTuple):
    """Something to be asked of the committed state."""

    ask: Callable[[], Grant | Answer | None]
    answer: asyncio.Future[Grant | Answer | None]


Item: TypeAlias = Asked | Look


class Live:
    """Never seen by two tasks at once while a commit is out: everything goes through its inbox."""

    def __init__(self, execution_id: str, program: Program, owner: int) -> None:
        self.program = program
        self.owner = owner  # our epoch of the partition
        self.state = State(execution_id=execution_id)
        self.agenda: Agenda = {}
        self.inbox: deque[Item] = deque()
        self.busy = False
        self.leases: dict[str, Lease] = {}
        self.sent: dict[str, float] = {}  # frame → when its pointer was put last
        self.dispatched = 0
        self.items: dict[str, list[JSON]] = {}  # run → items that are on their way to the result store

    def fold(self, rows: list[Row]) -> None:
        """Rebuild the state from the log."""
        for row in rows:
            for fact in row.facts:
                apply(self.state, fact, row.at)
        self.agenda = agenda_of(self.state)


def is_due(state: State, frame: str) -> bool:
    owner, _ = frame_parts(frame)
    run = state.runs.get(owner)
    return state.status == "running" and run is not None and frame in due_of(run)


def touched(events: list[Event]) -> list[str]:
    """Runs in which a frame may have become due."""
    runs: dict[str, None] = {}
    for event in events:
        fact = event.fact
        if isinstance(fact, Evaluated):
            continue
        run = getattr(fact, "run", None)
        if isinstance(run, str):
            runs[run] = None
        frame = getattr(fact, "frame", None)
        if isinstance(frame, str):
            runs[frame_parts(frame)[0]] = None
    return list(runs)
