"""Which lines that tasks have printed a reader wants: those of a step, or of failed calls."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from noetl.engine import Event
from noetl.engine.facts import FrameLost, StepScheduled, TaskDone
from noetl.ids import call_id, names_in_call


class LineFilter(NamedTuple):
    """Selects lines by their call."""

    step: str | None = None  # a step, a run, a frame or a call; None: all of them
    calls: Collection[str] | None = None  # None: all of them

    def accepts(self, call: str) -> bool:
        return (self.calls is None or call in self.calls) and (self.step is None or self.step in names_in_call(call))


class CallFold:
    """Reads a log event by event: the calls that failed, the steps that have run, and whether a name is among them."""

    def __init__(self, name: str | None = None) -> None:
        self._name = name  # of a step, a run, a frame or a call
        self.failed: set[str] = set()  # also calls whose worker was lost
        self.steps: dict[str, None] = {}  # and blocks, in order
        self.has_run = False

    def feed(self, event: Event) -> None:
        match event.fact:
            case StepScheduled(run=run, step=step):
                self.steps[step] = None
                self.has_run = self.has_run or self._name in (run, step)
            case FrameLost(frame=frame, call=call):
                self.failed.add(call_id(frame, call))
            case TaskDone(frame=frame, call=call) as fact:
                id = call_id(frame, call)
                self.has_run = self.has_run or self._name in (frame, id)
                if fact.status == "error" or fact.directive == "fail":
                    self.failed.add(id)
