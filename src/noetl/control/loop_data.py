"""Loops whose data control never holds: items to be stored or read, results to be looked through (D44, D52).

What a worker is to do for them is not on record: it follows from the state, and the sweeper orders it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from noetl.control.live_execution import LiveExecution
from noetl.engine import Event
from noetl.engine.commands import StartLoop
from noetl.engine.facts import IterationDone, IterationFailed, StepScheduled
from noetl.engine.loops import ToRead, ToStore, awaits_reading, digest_of, loop_started, results_ref
from noetl.engine.moves import Work
from noetl.errors import Rejected, Unavailable
from noetl.failpoints import failpoint
from noetl.paging import put_pages

if TYPE_CHECKING:
    from noetl.control.executions import Control


class LoopData:
    """The beginnings and ends of loops that do not come by themselves."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def see(self, live: LiveExecution, events: Iterable[Event]) -> None:
        """After a commit: what of it needs a hand."""
        scheduled: list[str] = []
        landed: dict[str, None] = {}
        for event in events:
            match event.fact:
                case StepScheduled(run=run, loop=True):
                    scheduled.append(run)
                case IterationDone(run=run) | IterationFailed(run=run):
                    landed[run] = None
        for run in _unstarted(live, scheduled):
            self._control.spawn(self._start(live, run))
        self._end(live, landed)

    async def sweep(self, live: LiveExecution) -> None:
        """The same for all of an execution: what was lost is ordered again."""
        for run in list(_unstarted(live, list(live.state.runs))):
            await self._start(live, run)
        self._end(live, list(live.state.runs))

    def ordered(self, live: LiveExecution, frame: str, work: Work) -> Work:
        """The work of a frame; or that of a worker who serves a loop."""
        if frame in live.opening:
            return work._replace(place=work.place._replace(opens=live.opening[frame]))
        if frame in live.closing:
            return work._replace(place=work.place._replace(closes=results_ref(live.state, frame)))
        return work

    async def _start(self, live: LiveExecution, name: str) -> None:
        """Items that are too many for the log are stored; those behind a Ref are a worker's to read."""
        run = live.state.runs.get(name)
        if live.busy or live.given_up or run is None or run.loop is not None or run.output is not None:
            return
        control = self._control
        match loop_started(live.program, live.state, run, control.now()):
            case ToStore(items):
                with suppress(Unavailable, Rejected):  # the sweeper tries again
                    ref = await put_pages(control.results, live.id, items)
                    start = StartLoop(run=name, ref=ref, count=len(items), digest=digest_of(items))
                    failpoint("control.before-start-loop")
                    await control.ask(live, start, lambda: None)
            case ToRead(ref):
                live.opening[name] = ref
                control.dispatch.add(live, [name])
                await control.dispatch.pump()

    def _end(self, live: LiveExecution, names: Iterable[str]) -> None:
        """What `set` and arcs read of results that are too large is a worker's to evaluate."""
        for name in names:
            run = live.state.runs.get(name)
            if run is not None and run.output is None and awaits_reading(live.program, run):
                live.closing.add(name)
                self._control.dispatch.add(live, [name])


def _unstarted(live: LiveExecution, names: Iterable[str]) -> Iterator[str]:
    """Runs whose loop has not started though everything else has been decided."""
    for name in names:
        run = live.state.runs.get(name)
        if run is None or run.output is not None or run.loop is not None or live.state.status != "running":
            continue
        if live.program.pipeline(run.step, block=run.block).loop is not None:
            yield name
