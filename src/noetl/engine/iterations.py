"""The outputs of the iterations of a loop, read from the log: the target of a Ref to its results (D30, D69).

The log is folded again, so that the output of an iteration has only one definition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from noetl.engine import facts
from noetl.engine.apply import apply, ok
from noetl.engine.facts import Fact
from noetl.engine.state import State
from noetl.output import Output

_SOME_TIME = datetime(1970, 1, 1, tzinfo=UTC)  # no output depends on the time of recording


def lineage(log: Iterable[Fact], run: str) -> frozenset[str]:
    """The run and the runs that it retries, newest first: it has inherited iterations from them."""
    before = {
        fact.run: fact.retry_of
        for fact in log
        if isinstance(fact, facts.StepScheduled) and fact.retry_of is not None
    }
    found = [run]
    while found[-1] in before:
        found.append(before[found[-1]])
    return frozenset(found)


class Iterations:
    """Reads the facts of a log in order and holds the output of each iteration of one run."""

    def __init__(self, run: str, ancestry: frozenset[str], only: range | None = None) -> None:
        self.run = run
        self.count = 0
        self._only = only  # the requested indexes; None: all
        self._ancestry = ancestry
        self._state = State(execution_id="")
        self._done: dict[int, Output] = {}

    def feed(self, fact: Fact) -> None:
        match fact:
            case facts.IterationDone(run=run, index=index) if run in self._ancestry and self._asks(index):
                frame = self._state.runs[run].frames.get(index)
                self._done[index] = ok(frame.last) if frame is not None and frame.last else Output()
            case facts.LoopStarted(run=run, count=count) if run in self._ancestry:
                self._done, self.count = {}, count  # Earlier iterations were not inherited.
        apply(self._state, fact, _SOME_TIME)

    def outputs(self) -> Iterator[tuple[int, Output | None]]:
        """By index.

        None: it failed, or is not done. The data of an output with a Ref and no data is in a result
        store.
        """
        for index in range(self.count):
            if self._asks(index):
                yield index, self._done.get(index)

    def _asks(self, index: int) -> bool:
        return self._only is None or index in self._only


def iteration_outputs(
    log: Iterable[Fact], run: str, only: range | None = None
) -> Iterator[tuple[int, Output | None]]:
    """The outputs of all or some iterations of a run. The log is read twice."""
    reader = Iterations(run, lineage(log, run), only)
    for fact in log:
        reader.feed(fact)
    return reader.outputs()
