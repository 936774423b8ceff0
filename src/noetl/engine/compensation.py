"""Compensation: before a failed or cancelled execution ends, its completed runs are undone (D116).

One after the other, the last to complete first. A compensation that fails does not stop the others; it is listed
at the end, and a retry of the execution repeats it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from msgspec.structs import replace

from noetl.engine import facts
from noetl.engine.facts import Fact
from noetl.engine.scopes import deadline
from noetl.engine.state import Run, State
from noetl.ids import block_run_id
from noetl.net.program import Program
from noetl.output import Output
from noetl.playbook.model import COMPENSATE


def ending(state: State, end: facts.Finished, *, stopped: Iterable[str] = ()) -> Fact:
    """The end of the execution, or the compensations that come first.

    `stopped`: loops that end with it, of which some iterations have succeeded.
    """
    if state.compensation is not None:
        return replace(end, uncompensated=uncompensated(state))
    completed = (*state.completed, *stopped)
    wanted = end.status == "error" or (end.status == "cancelled" and state.compensate)
    if not completed or not wanted:
        return end
    assert end.status != "ok"
    assert end.error is not None
    return facts.Compensating(status=end.status, error=end.error, runs=completed[::-1])


def next_compensation(program: Program, state: State, at: datetime) -> Fact | None:
    """The next compensation, or the end; None: one is running."""
    compensation = state.compensation
    assert compensation is not None
    if state.runs:
        return None
    for id, run in compensation.again.items():
        assert run.compensates is not None
        step = run.step.removesuffix(f"/{COMPENSATE}")
        fact = _scheduled(program, state, run.compensates, step, at)
        return replace(fact, input=run.input, retry_of=id)
    for name in reversed(state.completed):
        done = state.completed[name]
        return replace(_scheduled(program, state, name, done.step, at), input=done.input)
    waiting = (*state.waiting, *(token for tokens in state.joins.values() for token in tokens))
    output = None
    if compensation.status == "error":
        output = replace(state.reached_end or state.last_output or Output(), status="error", error=compensation.error)
    return facts.Finished(
        status=compensation.status,
        output=output,
        error=compensation.error,
        waiting=waiting,
        uncompensated=uncompensated(state),
    )


def _scheduled(program: Program, state: State, name: str, step: str, at: datetime) -> facts.StepScheduled:
    assert state.compensation is not None
    pipeline = program.compensation(step)
    return facts.StepScheduled(
        run=block_run_id(name, COMPENSATE, state.compensation.tries.get(name, 0) + 1),
        step=pipeline.name,
        deadline_at=deadline(pipeline, at),
        compensates=name,
    )


def uncompensated(state: State) -> tuple[str, ...]:
    """The completed runs that are not undone, in the order in which they should have been."""
    compensation = state.compensation
    assert compensation is not None
    tried: list[Run] = [*compensation.failed.values(), *compensation.again.values()]
    tried += [run for run in state.runs.values() if run.compensates is not None]
    return (*(run.compensates for run in tried if run.compensates is not None), *reversed(state.completed))
