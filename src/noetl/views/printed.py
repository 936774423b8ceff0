"""Which lines that tasks have printed a reader wants: those of a step, or of failed calls."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from noetl.engine.facts import Fact, FrameLost, StepScheduled, TaskDone
from noetl.ids import call_id, names_in_call


class LineFilter(NamedTuple):
    """Selects lines by their call."""

    step: str | None = None  # a step, a run, a frame or a call; None: all of them
    calls: Collection[str] | None = None  # None: all of them

    def accepts(self, call: str) -> bool:
        return (self.calls is None or call in self.calls) and (self.step is None or self.step in names_in_call(call))


def failed_calls(facts: Iterable[Fact]) -> frozenset[str]:
    """The calls that failed, and those whose worker was lost."""
    return frozenset(
        call_id(fact.frame, fact.call)
        for fact in facts
        if isinstance(fact, FrameLost)
        or (isinstance(fact, TaskDone) and (fact.status == "error" or fact.directive == "fail"))
    )


def steps_run(facts: Iterable[Fact]) -> list[str]:
    """The steps and blocks that have run, in order."""
    return list(dict.fromkeys(fact.step for fact in facts if isinstance(fact, StepScheduled)))


def has_run(step: str, facts: Iterable[Fact]) -> bool:
    """Whether the name of a step, a run, a frame or a call is in the log."""
    for fact in facts:
        match fact:
            case StepScheduled(run=run, step=name) if step in (run, name):
                return True
            case TaskDone(frame=frame, call=call) if step in (frame, call_id(frame, call)):
                return True
    return False
