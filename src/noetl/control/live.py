"""One execution in a server's hands: its state, and what is known of it that is not on record."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from noetl.engine import Agenda, agenda_of, apply
from noetl.engine.commands import Command
from noetl.engine.state import State
from noetl.net.program import Program
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

    def fold(self, rows: list[Row]) -> None:
        """Rebuild the state from the log."""
        for row in rows:
            for fact in row.facts:
                apply(self.state, fact, row.at)
        self.agenda = agenda_of(self.state)
