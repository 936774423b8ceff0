"""Liveness of a simulated cluster: after the end of all faults, all work that is due continues within a bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from noetl.control.live_execution import fold
from noetl.engine.facts import ForChild, ForTime
from noetl.engine.limits import is_waiting
from noetl.engine.moves import due_of
from noetl.engine.state import LIVE, Run, State
from noetl.ids import frame_parts
from noetl.ports import LogRow


class Liveness:
    """Follows the logs, and knows since when each piece of due work has not changed."""

    def __init__(self, rows: Mapping[str, Sequence[LogRow]], bound_s: float) -> None:
        self._rows = rows
        self._bound_s = bound_s
        self._states: dict[str, State] = {}
        self._since: dict[tuple[str, str], tuple[object, float]] = {}  # work → its progress, and since when
        self.longest_s = 0.0  # that work has waited for

    def check(self, now: float, at: datetime) -> None:
        """Call this from the end of all faults on. `at`: the time of the store. Raises AssertionError."""
        found: dict[tuple[str, str], object] = {}
        for execution_id, rows in self._rows.items():
            state = self._states.setdefault(execution_id, State(execution_id=execution_id))
            try:
                fold(state, rows)
            except KeyError as error:
                raise AssertionError(f"the log of {execution_id} cannot be applied: {error!r}") from error
        for execution_id, state in self._states.items():
            for name, progress in due_work(state, at, self._states).items():
                found[execution_id, name] = progress
        self._since = {
            work: before if (before := self._since.get(work, (None, now)))[0] == progress else (progress, now)
            for work, progress in found.items()
        }
        for (execution_id, name), (_, since) in self._since.items():
            self.longest_s = max(self.longest_s, now - since)
            message = f"liveness: {name} of {execution_id} has been due for {now - since:.1f} s after the faults"
            assert now - since <= self._bound_s, message


def due_work(state: State, at: datetime, states: Mapping[str, State]) -> dict[str, object]:
    """What a cluster must continue on its own, each with a value that changes when it does.

    `states`: of all executions.
    """
    found: dict[str, object] = {}
    if state.status != "running" or state.held is not None:
        return found
    waits = False
    for run in state.runs.values():
        if run.output is not None:
            continue
        if is_waiting(run):
            waits = True
            continue
        if run.looped and run.loop is None:
            found[f"the loop {run.id}"] = None
        for name in due_of(run):
            found[name] = _progress(run, name)
        for frame in run.frames.values():
            match frame.parked:
                case ForTime(at=instant) if instant <= at:
                    found[f"the timer of {frame.id}"] = frame.calls
                case ForChild(execution_id=child) if child not in states or states[child].status not in LIVE:
                    found[f"the child of {frame.id}"] = child in states
                case None:
                    pass
                case _:
                    waits = True
    if not found and not waits:
        found["a decision"] = state.seq
    return found


def _progress(run: Run, frame: str) -> tuple[bool, int, bool]:
    """Whether its start is recorded, its finished calls, and whether a running one is recorded."""
    known = run.frames.get(frame_parts(frame)[1])
    return (run.started, 0, False) if known is None else (run.started, known.calls, known.running is not None)
