"""What the iterations of a loop gave back, read from the log: what a Ref to its results means (D30, D69).

The log is folded once more, so that there is one answer to what the output of an iteration is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from noetl.engine import facts
from noetl.engine.apply import apply, ok
from noetl.engine.facts import Fact
from noetl.engine.state import State
from noetl.output import Output

_SOME_TIME = datetime(1970, 1, 1, tzinfo=UTC)  # no output depends on when something was recorded


def lineage(log: Iterable[Fact], run: str) -> frozenset[str]:
    """The run, and those that it takes up, one behind the other: it has inherited iterations from them."""
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
    """Fed the facts of a log in their order, it holds what each iteration of one run gave back."""

    def __init__(self, run: str, ancestry: frozenset[str], only: range | None = None) -> None:
        self.run = run
        self.count = 0
        self._only = only  # indexes that are asked for; None: all
        self._ancestry = ancestry
        self._state = State(execution_id="")
        self._done: dict[int, Output] = {}

    def feed(self, fact: Fact) -> None:
        match fact:
            case facts.IterationDone(run=run, index=index) if run in self._ancestry and self._asks(index):
                frame = self._state.runs[run].frames.get(index)
                self._done[index] = ok(frame.last) if frame is not None and frame.last else Output()
            case facts.LoopStarted(run=run, count=count) if run in self._ancestry:
                self._done, self.count = {}, count  # What went before it was not inherited.
        apply(self._state, fact, _SOME_TIME)

    def outputs(self) -> Iterator[tuple[int, Output | None]]:
        """By index. None: it failed, or is not done. One with a Ref and no data lies in a result store."""
        for index in range(self.count):
            if self._asks(index):
                yield index, self._done.get(index)

    def _asks(self, index: int) -> bool:
        return self._only is None or index in self._only


def iteration_outputs(
    log: Iterable[Fact], run: str, only: range | None = None
) -> Iterator[tuple[int, Output | None]]:
    """What each iteration of a run gave back, or some of them. The log is read twice."""
    reader = Iterations(run, lineage(log, run), only)
    for fact in log:
        reader.feed(fact)
    return reader.outputs()
