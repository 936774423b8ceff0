"""Loops whose data Control never holds: large items are stored or read, large results evaluated (D44, D52).

The work that workers do for such loops is not in the log: it follows from the state, and the sweeper requests
it again after a failure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from noetl.control.live_execution import LiveExecution
from noetl.engine.commands import StartLoop
from noetl.engine.facts import Fact, HoldReleased, IterationDone, IterationFailed, PermitGranted, StepScheduled
from noetl.engine.limits import is_waiting
from noetl.engine.loops import ToRead, ToStore, awaits_reading, digest_of, loop_started, results_ref
from noetl.engine.moves import Work
from noetl.engine.settle import delegated
from noetl.engine.stored import NeedsValues, decision_id
from noetl.errors import Rejected, Unavailable
from noetl.failpoints import failpoint
from noetl.paging import put_pages

if TYPE_CHECKING:
    from noetl.control.executions import Control


# Facts after which a loop may start or end
LOOPING = frozenset({StepScheduled, PermitGranted, HoldReleased, IterationDone, IterationFailed})


class LoopData:
    """Starts and ends loops with large data."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def on_commit(self, live: LiveExecution, facts: Iterable[Fact]) -> None:
        """`facts`: of the commit, at least those in `LOOPING`."""
        scheduled: list[str] = []
        iterated: dict[str, None] = {}
        for fact in facts:
            if type(fact) not in LOOPING:
                continue
            match fact:  # the most frequent first
                case StepScheduled(run=run, loop=is_loop):
                    if is_loop:
                        scheduled.append(run)
                case PermitGranted(run=str(run)) | HoldReleased(at=run):
                    scheduled.append(run)
                case PermitGranted():
                    scheduled += live.state.runs
                case IterationDone(run=run) | IterationFailed(run=run):
                    iterated[run] = None
        if scheduled:
            for run in _unstarted(live, scheduled):
                self._control.spawn(self._start(live, run))
        if iterated:
            self._end(live, iterated)

    async def sweep(self, live: LiveExecution) -> None:
        """The same for all runs of an execution: lost work is requested again."""
        for run in list(_unstarted(live, list(live.state.runs))):
            await self._start(live, run)
        self._end(live, list(live.state.runs))

    def with_loop_work(self, live: LiveExecution, frame: str, work: Work) -> Work:
        """The work of a frame; for a loop that starts or ends, with the Ref that the worker reads."""
        if frame in live.opening:
            return replace(work, place=replace(work.place, opens=live.opening[frame]))
        if frame in live.closing:
            return replace(work, place=replace(work.place, closes=results_ref(live.state, frame)))
        return work

    async def _start(self, live: LiveExecution, name: str) -> None:
        """Store items that are too large for the log; let a worker read items behind a Ref."""
        control, start = self._control, None
        with suppress(Unavailable):  # the sweeper tries again
            start = await control.read(live, lambda: self._decided(live, name))
        match start:
            case ToStore(items):
                with suppress(Unavailable, Rejected):  # the sweeper tries again
                    ref = await put_pages(control.results, live.id, items)
                    command = StartLoop(run=name, ref=ref, count=len(items), digest=digest_of(items))
                    failpoint("control.before-start-loop")
                    await control.submit(live, command, lambda: None)
            case ToRead():
                await control.dispatch.pump()

    def _decided(self, live: LiveExecution, name: str) -> Fact | ToStore | ToRead | None:
        """How the loop starts, from the committed state. A worker that has to read its items is asked for it."""
        run = live.state.runs.get(name)
        if run is None or run.loop is not None or run.output is not None:
            return None
        try:
            start = loop_started(live.program, live.state, run, self._control.now())
        except NeedsValues:
            return None  # a worker decides
        if isinstance(start, ToRead):
            live.opening[name] = start.ref
            self._control.dispatch.enqueue(live, [name])
        return start

    def _end(self, live: LiveExecution, names: Iterable[str]) -> None:
        """Let a worker evaluate what `set` and arcs read from results that are too large."""
        for name in names:
            run = live.state.runs.get(name)
            if decision_id(name, "end") in delegated(live.agenda):
                continue
            if run is not None and run.output is None and awaits_reading(live.program, run):
                live.closing.add(name)
                self._control.dispatch.enqueue(live, [name])


def _unstarted(live: LiveExecution, names: Iterable[str]) -> Iterator[str]:
    """Runs whose loop has not started although everything else is decided."""
    for name in names:
        run = live.state.runs.get(name)
        if run is None or run.output is not None or run.loop is not None or is_waiting(run):
            continue
        if live.state.status != "running" or live.state.held is not None:
            continue
        if live.program.pipeline(run.step, block=run.block).loop is not None:
            yield name
