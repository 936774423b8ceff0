"""Reading a log in pages: a long one is never in memory as a whole."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from itertools import islice
from typing import Final, Protocol

from noetl.engine import Event
from noetl.engine.facts import Requested, StepScheduled
from noetl.engine.loops import Iterations, lineage
from noetl.errors import NotFound
from noetl.output import Output
from noetl.ports import LogRow
from noetl.slices import turn
from noetl.views.log import events_of, readable
from noetl.views.runs import Runs

PAGE_FACTS: Final = 2_000  # read from the store at once
SLICE_FACTS: Final = 200  # folded before other tasks get their turn


class ReadableLog(Protocol):
    """The part of an EventStore that reading needs."""

    async def read(self, execution_id: str, after: int = 0, up_to: int | None = None) -> list[LogRow]: ...


async def read_slices(
    log: ReadableLog, execution_id: str, after: int = 0, up_to: int | None = None
) -> AsyncIterator[list[Event]]:
    """The events of a log in order, a few at a time: to its end, or up to a fact."""
    page_end: int | None = after + PAGE_FACTS
    while up_to is None or after < up_to:
        limit = up_to if page_end is None else page_end if up_to is None else min(page_end, up_to)
        remaining = events_of(await log.read(execution_id, after, limit), after=after)
        before = after
        while events := list(islice(remaining, SLICE_FACTS)):
            after = events[-1].seq
            if up_to is not None and after > up_to:  # a row is never cut
                events = [event for event in events if event.seq <= up_to]
            if events:
                yield events
            await turn()
        if after == before and page_end is None:
            return
        # A short page is the last one, unless facts are missing: then the next ones may be anywhere.
        page_end = after + PAGE_FACTS if page_end is not None and after >= page_end else None


async def fold_log(
    log: ReadableLog,
    execution_id: str,
    feed: Callable[[Event], object],
    after: int = 0,
    up_to: int | None = None,
) -> int:
    """Pass the events of a log to a view, one by one. Returns the seq of the last one. Raises Damaged."""
    async for events in read_slices(log, execution_id, after, up_to):
        with readable(execution_id):
            for event in events:
                feed(event)
        after = events[-1].seq
    return after


async def read_runs(log: ReadableLog, runs: Runs, up_to: int | None = None) -> None:
    """Fold further facts into the records, to the end of the log or up to a fact. Raises Damaged."""
    await fold_log(log, runs.state.execution_id, runs.feed, runs.state.seq, up_to)


async def read_parent(log: ReadableLog, execution_id: str) -> str | None:
    """The parent of an execution, from its first fact. Raises NotFound."""
    for row in await log.read(execution_id, up_to=1):
        for fact in row.facts:
            if isinstance(fact, Requested):
                return None if fact.parent is None else fact.parent.partition("/")[0]
    raise NotFound(f"no execution {execution_id}")


async def read_iterations(
    log: ReadableLog, execution_id: str, run: str, only: range | None = None
) -> list[Output | None] | None:
    """The outputs of all or some iterations of a run; None: there is no such execution. Raises Damaged.

    A log is read again only if the run has inherited iterations from runs that it retries.
    """
    retries: list[StepScheduled] = []
    ancestry = frozenset({run})
    while True:
        reader = Iterations(run, ancestry, only)

        def feed(event: Event, reader: Iterations = reader) -> None:
            reader.feed(event.fact)
            if isinstance(event.fact, StepScheduled) and event.fact.retry_of is not None:
                retries.append(event.fact)

        if not await fold_log(log, execution_id, feed):
            return None
        if ancestry == (ancestry := lineage(retries, run)):
            return [output for _, output in reader.outputs()]
