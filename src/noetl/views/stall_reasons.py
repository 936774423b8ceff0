"""Why an execution does not advance, as far as its log does not say so: pauses, missing processes, missing slots."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from noetl.engine.state import LIVE
from noetl.net.program import Program
from noetl.views.pools import PoolLoad, ShareWait, busy_pool, no_worker, share_reasons
from noetl.views.timeline import RunBar, StepLine, TimelineDocument
from noetl.views.why import Why

INTERRUPTED = "interrupted: no process runs it"


def stall_of(document: TimelineDocument, *, owner_alive: bool) -> str | None:
    """Why the whole execution does not advance; None: it advances, or it has ended."""
    if document.status in LIVE and not owner_alive:
        return INTERRUPTED
    if document.status == "paused":
        return " ".join(filter(None, ("paused", _last_words(document, "execution.paused"))))
    if document.status == "cancelling":
        return "cancelling: running calls have 10 s to stop"
    return document.why


def with_stalls(
    document: TimelineDocument,
    program: Program | None,
    load_of: Callable[[str], PoolLoad],
    *,
    owner_alive: bool,
    share_waits: Iterable[ShareWait] = (),
) -> TimelineDocument:
    """The same document, where unfinished runs say why they, or some of their frames, do not advance.

    `program`: None if it is not readable. `share_waits`: of the execution, as its owner knows them.
    """
    stall = stall_of(document, owner_alive=owner_alive)
    shares = share_reasons(share_waits, load_of)

    def explained(run: RunBar) -> RunBar:
        run = replace(run, blocks=tuple(map(explained, run.blocks))) if run.blocks else run
        if run.ended_at is not None or run.why is not None:
            return run
        if stall is None and run.id in shares:
            return replace(run, why=shares[run.id])
        if run.running and owner_alive:
            return run
        if stall is not None:
            return replace(run, why=stall)
        pool = _pool_of(program, run)
        return run if pool is None else replace(run, why=_pool_words(pool, load_of(pool), run))

    def line(step: StepLine) -> StepLine:
        return replace(step, runs=tuple(map(explained, step.runs)))

    if document.status not in LIVE:
        return document
    return replace(document, why=stall, steps=tuple(map(line, document.steps)))


def with_reasons(why: Why, document: TimelineDocument) -> Why:
    """The same reasons, with those that the log does not contain."""
    bars = {run.id: run.why for line in document.steps for run in line.runs}
    for run in why.runs:
        known = bars.get(run.id)
        if run.ended is None and run.waits_for is None and known is not None and known.startswith("waits "):
            run.waits_for = known.removeprefix("waits ")
    return replace(why, now=document.why)


def _pool_of(program: Program | None, run: RunBar) -> str | None:
    """None: it is not known, or the run has no frame of its own at the moment."""
    if program is None or (run.step not in program.steps and run.step not in program.blocks):
        return None
    return program.pipeline(run.step, block=run.step not in program.steps).pool


def _pool_words(pool: str, load: PoolLoad, run: RunBar) -> str | None:
    if not load.workers:
        return no_worker(pool)
    return busy_pool(pool, load) if run.status == "scheduled" and load.busy >= load.slots else None


def _last_words(document: TimelineDocument, name: str) -> str:
    return next((mark.words for mark in reversed(document.marks) if mark.name == name), "")
