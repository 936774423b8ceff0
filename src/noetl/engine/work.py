"""Frames that are due, and what a worker needs to run them.

The queue is a copy of this and can be rebuilt.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from msgspec.structs import replace

from noetl.engine.apply import frame_of
from noetl.engine.loops import iteration
from noetl.engine.moves import FramePlace, Work
from noetl.engine.state import Run, State
from noetl.ids import frame_id, frame_parts
from noetl.net.program import Program


def due(state: State, *, at_most: int | None = None) -> Iterator[str]:
    """Every frame that a worker could run now, in the order of scheduling.

    `at_most` is limits.in_flight: the number of frames of one execution that may run at once (D45).
    """
    runs = state.runs.values() if state.status == "running" else ()
    return islice((frame for run in runs for frame in due_of(run)), at_most)


def due_of(run: Run) -> Iterator[str]:
    if run.output is not None or (run.looped and run.loop is None):
        return
    indexes: list[int | None] = [None]
    if run.loop is not None:
        indexes = list(run.loop.flying)
    for index in indexes:
        frame = run.frames.get(index)
        if frame is None or (frame.parked is None and frame.pc >= 0):
            yield frame_id(run.id, index)


def work_of(program: Program, state: State, frame: str) -> Work:
    owner, index = frame_parts(frame)
    run = state.runs[owner]
    pipeline = program.pipeline(run.step, block=run.block)
    around = iteration(program, state, run, index)
    stored = run.loop.ref if run.loop is not None and run.loop.items is None else None
    place = FramePlace(
        execution_id=state.execution_id,
        workload=state.workload,
        input=run.input,
        iter=around,
        folder=program.folder,
        items=stored,
        keychain=program.playbook.keychain,
    )
    return Work(pipeline, replace(frame_of(run, index)), place)
