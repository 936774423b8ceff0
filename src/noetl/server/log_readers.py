"""Logs as the routes read them: folded piece by piece, so that others have their turn, and remembered.

A log that no engine has written is Damaged, and no bug of ours.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from noetl.control.live_execution import turn
from noetl.engine import Event, apply
from noetl.engine.state import State
from noetl.errors import NotFound
from noetl.ports import EventStore
from noetl.views.envelopes import Envelope, Envelopes
from noetl.views.log import events_of, readable
from noetl.views.runs import Runs

T = TypeVar("T")
SLICE_FACTS: Final = 200  # then whatever else is ready goes first
AHEAD_FACTS: Final = 5_000  # that are read at once
ID_PATTERN: Final = r"^[0-9a-zA-Z-]{1,64}\Z"
REMEMBERED_MAX: Final = 16  # executions whose fold is kept, so that it is only carried on

_ID: Final = re.compile(ID_PATTERN)


def checked_id(execution_id: str) -> str:
    """What can be no id is asked of no store. Raises NotFound."""
    if not _ID.fullmatch(execution_id):
        raise NotFound(f"no execution {execution_id[:64]!a}")
    return execution_id


async def read_runs(store: EventStore, runs: Runs, up_to: int | None = None) -> None:
    """Carry the records on, to the end of the log or up to a fact. Raises Damaged."""
    id = runs.state.execution_id
    rows = await store.read(id, runs.state.seq)
    left = events_of(rows, after=runs.state.seq)
    while events := list(islice(left, SLICE_FACTS)):
        with readable(id):
            for event in events:
                if up_to is not None and event.seq > up_to:
                    return
                runs.feed(event)
        await turn()


class Memory:
    """The records of executions that were asked for lately: the next question costs what is new."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._kept: OrderedDict[str, Runs] = OrderedDict()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def ask(self, execution_id: str, question: Callable[[Runs], T]) -> T:
        """Of the records as they are now. Raises NotFound, or Damaged."""
        lock = self._locks.setdefault(execution_id, asyncio.Lock())
        async with lock:
            # It is taken out while it is carried on: what breaks halfway is not asked again.
            runs = self._kept.pop(execution_id, None) or Runs(execution_id)
            await read_runs(self._store, runs)
            if not runs.state.seq:
                raise NotFound(f"no execution {execution_id}")
            self._kept[execution_id] = runs
            if len(self._kept) > REMEMBERED_MAX:
                self._kept.popitem(last=False)
            with readable(execution_id):
                return question(runs)


class Reader:
    """Reads one log from its beginning on, with the fold that envelopes need beside it."""

    def __init__(self, store: EventStore, execution_id: str) -> None:
        self._store = store
        self._envelopes = Envelopes(State(execution_id=execution_id))
        self._ahead: Iterator[Event] = iter(())

    @property
    def state(self) -> State:
        return self._envelopes.state

    @property
    def seq(self) -> int:
        return self._envelopes.state.seq

    async def events(self, limit: int) -> list[Event]:
        """The next ones; none: the log ends here for now. Each is to be skipped or shown."""
        if not (found := list(islice(self._ahead, limit))):
            up_to = self.seq + max(limit, AHEAD_FACTS)
            rows = await self._store.read(self.state.execution_id, self.seq, up_to)
            self._ahead = events_of(rows, after=self.seq)
            found = list(islice(self._ahead, limit))
        return found

    def let_go(self) -> None:
        """What was read ahead is read again when it is wanted."""
        self._ahead = iter(())

    async def skip(self, up_to: int) -> None:
        """Fold on to a fact, or to the end of the log."""
        while (room := up_to - self.seq) > 0:
            events = await self.events(min(room, SLICE_FACTS))
            if not events:
                return
            with readable(self.state.execution_id):
                for event in events:
                    apply(self.state, event.fact, event.at)
            await turn()

    def show(self, event: Event) -> list[Envelope]:
        with readable(self.state.execution_id):
            return self._envelopes.feed(event)


class Readers:
    """Readers that wait where a page ended, for whoever asks for the next one."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._kept: OrderedDict[tuple[str, int], Reader] = OrderedDict()

    async def take(self, execution_id: str, after: int) -> Reader:
        """It stands behind the fact `after`, or at the end of the log."""
        reader = self._kept.pop((execution_id, after), None)
        if reader is None:
            reader = Reader(self._store, execution_id)
            await reader.skip(after)
        return reader

    def keep(self, reader: Reader) -> None:
        reader.let_go()
        self._kept[reader.state.execution_id, reader.seq] = reader
        if len(self._kept) > REMEMBERED_MAX:
            self._kept.popitem(last=False)
