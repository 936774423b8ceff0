"""Reading a log in pages: a long one is never in memory as a whole."""

from __future__ import annotations

from itertools import islice
from typing import Final, Protocol

from noetl.control.live_execution import turn
from noetl.ports import LogRow
from noetl.views.log import events_of, readable
from noetl.views.runs import Runs

PAGE_FACTS: Final = 2_000  # read from the store at once
SLICE_FACTS: Final = 200  # folded before other tasks get their turn


class ReadableLog(Protocol):
    """The part of an EventStore that reading needs."""

    async def read(self, execution_id: str, after: int = 0, up_to: int | None = None) -> list[LogRow]: ...


async def read_runs(log: ReadableLog, runs: Runs, up_to: int | None = None) -> None:
    """Fold further facts into the records, to the end of the log or up to a fact. Raises Damaged."""
    id, state = runs.state.execution_id, runs.state
    while True:
        page_end = state.seq + PAGE_FACTS
        remaining = events_of(await log.read(id, state.seq, page_end), after=state.seq)
        while events := list(islice(remaining, SLICE_FACTS)):
            with readable(id):
                for event in events:
                    if up_to is not None and event.seq > up_to:
                        return
                    runs.feed(event)
            await turn()
        if state.seq < page_end:
            return
