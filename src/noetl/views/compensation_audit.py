"""The part of the audit that is about compensations (D116)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from noetl.engine import facts


class CompensationAudit:
    """Compensations: completed runs only, one after the other in the recorded order, and none is forgotten (D116)."""

    def __init__(self, report: Callable[[str, str], None]) -> None:
        self.report = report
        self.compensable: set[str] = set()  # runs that can be undone
        self.status: str | None = None  # how the execution ends afterwards; None: it does not compensate
        self._rest: list[str] = []  # runs to be undone, in order
        self._running: dict[str, str] = {}  # compensation → the run that it undoes
        self._failed: dict[str, str] = {}
        self._again: dict[str, str] = {}

    def begin(self, fact: facts.Compensating) -> None:
        if self.status is not None:
            self.report("compensation", "execution.compensating for the second time")
        for run in fact.runs:
            if run not in self.compensable:
                self.report("compensation", f"{run} is to be undone, but has no compensation")
        self.status, self._rest = fact.status, list(fact.runs)

    def scheduled(self, fact: facts.StepScheduled) -> None:
        run = fact.compensates or ""
        if self._running:
            self.report("compensation", f"{fact.run} is scheduled while {', '.join(self._running)} runs")
        if fact.retry_of is not None:
            if self._again.pop(fact.retry_of, None) != run:
                self.report("retry", f"{fact.run} retries {fact.retry_of}, but no command requested it")
        elif not self._rest or self._rest.pop(0) != run:
            self.report("compensation", f"{fact.run} undoes {run}, which is not the next one")
        self._running[fact.run] = run

    def ended(self, id: str, *, failed: bool) -> None:
        run = self._running.pop(id, None)
        if failed and run is not None:
            self._failed[id] = run

    def retried(self, fact: facts.Retried) -> None:
        for id in fact.compensations:
            if id not in self._failed:
                self.report("retry", f"{id} is to be retried, but is not a failed compensation")
            else:
                self._again[id] = self._failed.pop(id)

    def finished(self, fact: facts.Finished, *, limited: bool) -> None:
        left = {
            *self._failed.values(),
            *self._again.values(),
            *self._rest,
            *(self._running.values() if limited else ()),
        }
        if left != set(fact.uncompensated):
            self.report(
                "compensation", f"not compensated: {listed(left)}, but the end lists {listed(fact.uncompensated)}"
            )
        for id, run in self._running.items():  # A limit has stopped them.
            self._failed[id] = run
        self._running = {}


def listed(tokens: Iterable[str]) -> str:
    return ", ".join(sorted(tokens)) or "none"
