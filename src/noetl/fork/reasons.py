"""Why a fork does not keep the runs of the old execution."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from noetl.fork.recording import Recording
from noetl.ids import run_of_token

if TYPE_CHECKING:
    from noetl.fork.plan import Planner

PATHS_MAX = 5  # changed values and files that a reason names


class RepeatedRun(Struct, frozen=True):
    """A run of the old execution that is not kept, or only in part."""

    run: str
    why: str


class Reasons:
    """Why runs of the old execution are not kept."""

    def __init__(self, old: Recording, planner: Planner, kept: tuple[str, ...]) -> None:
        self._old, self._planner = old, planner
        followers = planner.kept_from()
        self._kept = {run for run, new in followers.items() if new in kept}
        self._kept |= {run for run in old.scheduled if run in kept and run not in followers}
        self._followers = followers

    def all(self) -> Iterable[RepeatedRun]:
        for run, fact in self._old.scheduled.items():
            if fact.parent is not None or fact.compensates is not None or run in self._old.superseded:
                continue
            if run not in self._kept and fact.step in self._planner.program.steps:
                yield RepeatedRun(run, self.why(run))

    def why(self, run: str) -> str:
        step = self._old.scheduled[run].step
        state, planner = self._old.state, self._planner
        if planner.options.from_step == step:
            return "requested"
        if not planner.has_same_text(step):
            return "its tasks have changed"
        if not planner.has_same_picks(step, block=False) and any(
            frame.is_stored for frame in self._old.frames.values() if frame.run == run
        ):
            return "the templates that read its large result have changed"
        if changed := planner.changed_files(self._followers.get(run, run)):
            return f"files that it uses have changed: {_some(changed)}"
        new = planner.state.runs.get(self._followers.get(run, run))
        if new is not None and new.loop is not None:
            rest = new.loop.count - new.loop.succeeded
            return f"{rest:,} of {new.loop.count:,} iterations are not done"
        if run in state.failed:
            failure = state.failed[run].failure
            return "it failed" + (f": {failure.message}" if failure is not None else "")
        if new is not None and run in state.runs and state.runs[run].output is None:
            return "it was not finished"
        if changed := planner.changed_values(run):
            return f"its input has changed: {_some(changed)}"
        for cause in self._causes(run):
            return f"depends on {cause}"
        return "no arc leads to it" if new is None else "it was not finished"

    def _causes(self, run: str) -> Iterable[str]:
        """The runs whose tokens have led to this one, and that are not kept; the nearest first."""
        seen, todo = {run}, [run]
        while todo:
            for token in self._old.scheduled[todo.pop(0)].tokens:
                before = run_of_token(token)
                if before and before not in seen and before in self._old.scheduled:
                    seen.add(before)
                    todo.append(before)
                    if before not in self._kept:
                        yield before


def _some(names: list[str]) -> str:
    return ", ".join(names[:PATHS_MAX]) + (", …" if len(names) > PATHS_MAX else "")
