"""The iterations of a loop: in pages, and one by one."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Final

from litestar.params import QueryParameter

from noetl.api.iterations import IterationDetails, IterationItem, IterationsPage
from noetl.engine import Event, facts
from noetl.engine.state import State
from noetl.errors import NoetlError, NotFound
from noetl.ids import call_id, frame_id
from noetl.output import JSON, Output
from noetl.server.log_readers import checked_id
from noetl.server.params import (
    PAGE,
    SEQ_MAX,
    TEXT_CHARS_MAX,
    AppContext,
    ContextParam,
    ExecutionId,
    Limit,
    read_execution,
)
from noetl.views.iterations import STATUSES, IterationStatus, LoopTable, text_of
from noetl.views.log import events_of, instant
from noetl.views.timeline import CallBar, Timeline

GAP_FACTS: Final = 500  # facts of other iterations that are read rather than asking the store again
FACTS_MAX: Final = 20_000  # that are searched for the calls of one iteration
CALLS_MAX: Final = 500

RunParam = Annotated[
    str, QueryParameter(name="run", description="a run of a step with a loop", max_length=TEXT_CHARS_MAX)
]


@read_execution("/iterations", "The iterations of a loop, in pages")
async def iterations(
    context: ContextParam,
    execution_id: ExecutionId,
    run: RunParam,
    *,
    status: Annotated[IterationStatus | None, QueryParameter(description="only with this status")] = None,
    text: Annotated[
        str,
        QueryParameter(description="only if the error, or the item in the log, contains it", max_length=TEXT_CHARS_MAX),
    ] = "",
    offset: Annotated[int, QueryParameter(description="iterations to skip", ge=0, le=SEQ_MAX)] = 0,
    limit: Limit = PAGE,
) -> IterationsPage:
    """By index. A page contains the beginning of each item and output."""
    timeline, table = await _table(context, execution_id, run)
    found = await context.cpu_pool.run(table.find, status, text)
    shown = found[offset : offset + limit]
    done = [table.done_seq[index] for index in shown if table.done_seq[index]]
    outputs = {event.seq: event.fact for event in await _events(context, execution_id, done)}
    items = [await _item(context, table, index, outputs.get(table.done_seq[index])) for index in shown]
    counts = table.counts()
    can_retry = counts["failed"] > 0 and _can_retry(timeline.state, run)
    return IterationsPage(
        run=run, count=table.count, counts=counts, found=len(found), can_retry=can_retry, items=tuple(items)
    )


@read_execution("/iterations/one", "One iteration of a loop, with its item and its calls")
async def iteration(
    context: ContextParam,
    execution_id: ExecutionId,
    run: RunParam,
    index: Annotated[int, QueryParameter(description="its number, from 0", ge=0, le=SEQ_MAX)],
) -> IterationDetails:
    timeline, table = await _table(context, execution_id, run)
    if index >= table.count:
        raise NotFound(f"{run} has {table.count:,} iterations, and no iteration {index}")
    first, last = table.first_seq[index], table.last_seq[index]
    frames = {frame_id(each, index) for each in (run, *table.retries)}
    rows = await context.services.store.read(execution_id, first - 1, min(last, first + FACTS_MAX)) if first else []
    events = list(events_of(rows, after=first - 1)) if rows else []
    calls = [bar for each in events if (bar := _call(each, frames)) is not None]
    done = next((each.fact for each in reversed(events) if each.seq == table.done_seq[index]), None)
    item = await _item(context, table, index, done)
    newer = (each.id for each in timeline.runs.steps.values() if each.retry_of == run)
    return IterationDetails(
        iteration=item,
        step=timeline.steps_of[run],
        can_retry=item.status == "failed" and _can_retry(timeline.state, run),
        retried_by=next(newer, None),
        value=await _value(context, table, index),
        calls=tuple(calls[-CALLS_MAX:]),
        calls_left_out=max(0, len(calls) - CALLS_MAX),
        complete=last <= first + FACTS_MAX,
    )


async def _table(context: AppContext, execution_id: str, run: str) -> tuple[Timeline, LoopTable]:
    timeline, tables = await context.timelines.loops(checked_id(execution_id))
    if run not in tables:
        raise NotFound(f'no step of {execution_id} has run a loop as "{run[:100]}"')
    return timeline, tables[run]


def _can_retry(state: State, run: str) -> bool:
    """Does the engine keep the failed iterations of this run for a retry?"""
    kept = run in state.failed or any(each.id == run for each in state.mended.values())
    return kept and not state.live and state.compensation is None


async def _events(context: AppContext, execution_id: str, seqs: list[int]) -> list[Event]:
    """These facts. Those that are near to each other are read together."""
    found: list[Event] = []
    wanted = sorted(seqs)
    while wanted:
        count = next((n for n in range(1, len(wanted)) if wanted[n] - wanted[n - 1] > GAP_FACTS), len(wanted))
        together, wanted = set(wanted[:count]), wanted[count:]
        first, last = min(together), max(together)
        rows = await context.services.store.read(execution_id, first - 1, last)
        found += [event for event in events_of(rows, after=first - 1) if event.seq in together]
    return found


async def _item(context: AppContext, table: LoopTable, index: int, done: object) -> IterationItem:
    status, started = STATUSES[table.status[index]], table.started[index]
    output = done.output if isinstance(done, facts.TaskDone) and status != "failed" else None
    ended = table.ended[index] if status in ("ok", "failed") else 0.0
    text = table.item_text(index)
    if not text and table.ref is not None:
        text = text_of(await _value(context, table, index))
    return IterationItem(
        index=index,
        status=status,
        attempts=table.attempts[index] + bool(table.done_seq[index]),
        started_at=instant(datetime.fromtimestamp(started, UTC)) if started else None,
        duration_s=max(0.0, ended - started) if started and ended else None,
        item=text,
        output=_output_text(output),
        error=table.errors.get(index),
        child=table.children.get(index),
        done_seq=table.done_seq[index] or None,
    )


async def _value(context: AppContext, table: LoopTable, index: int) -> JSON:
    if table.items is not None:
        return table.items[index] if index < len(table.items) else None
    if table.ref is None:
        return None
    with suppress(NoetlError, KeyError, IndexError, TypeError):  # it may be deleted, or another system's list
        return await context.loop_items.item(table.ref, index)
    return None


def _output_text(output: Output | None) -> str:
    if output is None or (output.data is None and output.ref is None):
        return ""
    return text_of(output.data) if output.ref is None else "(stored)"


def _call(event: Event, frames: set[str]) -> CallBar | None:
    fact = event.fact
    if not isinstance(fact, facts.TaskDone) or fact.frame not in frames:
        return None
    error = fact.error or (fact.output.error if fact.output is not None else None)
    return CallBar(
        seq=event.seq,
        id=call_id(fact.frame, fact.call),
        task=fact.task,
        attempt=fact.attempt,
        status=fact.status,
        directive=fact.directive,
        started_at=None if fact.started_at is None else instant(fact.started_at),
        ms=fact.ms,
        error=None if error is None else error.message,
    )


ROUTES = [iterations, iteration]
