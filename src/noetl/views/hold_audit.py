"""The audit of breakpoints: only what is held is released, or changed by hand."""

from __future__ import annotations

from collections.abc import Callable

from noetl.engine import facts
from noetl.engine.scopes import split
from noetl.views.log import name_of


class HoldAudit:
    """Breakpoints, and the runs that are held before they begin. Frames that are held are parked."""

    def __init__(self, report: Callable[[str, str], None]) -> None:
        self.report = report
        self.runs: set[str] = set()
        self._places: set[str] = set()  # that had a breakpoint; one that holds once goes without a fact

    def breakpoint_set(self, fact: facts.BreakpointSet) -> None:
        self._places.add(fact.place)

    def breakpoint_cleared(self, fact: facts.BreakpointCleared) -> None:
        if fact.place not in self._places:
            self.report("breakpoint", f"the breakpoint at {fact.place} is cleared, but was not set")
        self._places.discard(fact.place)

    def released(self, fact: facts.HoldReleased, *, is_frame_held: bool) -> None:
        self._check_held(fact, is_frame_held=is_frame_held)
        self.runs.discard(fact.at)

    def changed(self, fact: facts.ScopeChanged, *, is_frame_held: bool) -> None:
        self._check_held(fact, is_frame_held=is_frame_held)
        for target in fact.set:
            if split(target)[0] not in ("ctx", "step", "iter"):
                self.report("scope", f"{target} is changed by hand, but only ctx, step and iter can be")

    def _check_held(self, fact: facts.HoldReleased | facts.ScopeChanged, *, is_frame_held: bool) -> None:
        if fact.at not in self.runs and not is_frame_held:
            self.report("held", f"{name_of(fact)} of {fact.at}, which is not held")
