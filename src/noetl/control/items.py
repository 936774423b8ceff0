"""The items of large loops: in the result store, in the log by reference, here while they are needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from msgspec.json import decode

from noetl.control.live import Live
from noetl.engine.commands import Command, StartLoop
from noetl.engine.loops import loop_started, to_be_stored
from noetl.engine.state import Loop, Run, State
from noetl.output import JSON
from noetl.ports import ResultStore


def unstarted(live: Live, runs: Iterable[str]) -> Iterator[str]:
    """Runs whose loop has not started though everything else has been decided: their items must be stored."""
    for name in runs:
        run = live.state.runs.get(name)
        if run is None or run.output is not None or run.loop is not None or live.state.status != "running":
            continue
        if live.program.pipeline(run.step, block=run.block).loop is not None:
            yield name


def items_of(live: Live, name: str, at: datetime) -> list[JSON] | None:
    """None: there is nothing to store."""
    run = live.state.runs.get(name)
    if live.busy or run is None or run.loop is not None or run.output is not None:
        return None
    return to_be_stored(live.program, loop_started(live.program, live.state, run, at))


def hand_over(live: Live, command: Command | None) -> None:
    """A loop has started whose items we have in hand."""
    if isinstance(command, StartLoop) and (items := live.items.pop(command.run, None)) is not None:
        run = live.state.runs.get(command.run)
        if run is not None and run.loop is not None:
            run.loop.fetched = items


async def fetch_items(state: State, results: ResultStore) -> None:
    """After a fold the state knows only where they lie; also for what a retry may take up."""
    for run in (*state.runs.values(), *state.failed.values(), *state.mended.values()):
        for loop in _loops(run):
            if loop.ref is not None and loop.fetched is None:
                loop.fetched = decode(await results.get(loop.ref))


def _loops(run: Run) -> Iterator[Loop]:
    """The run's own loop, and those of blocks that its frames had called when it failed."""
    if run.loop is not None:
        yield run.loop
    for frame in (*run.frames.values(), *(run.loop.lost.values() if run.loop else ())):
        if frame.block is not None:
            yield from _loops(frame.block)
