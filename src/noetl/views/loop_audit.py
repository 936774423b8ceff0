"""The audit of loops: their iterations, windows and counts."""

from __future__ import annotations

from collections.abc import Callable

from noetl.engine import facts
from noetl.ids import frame_id


class _IndexSet:
    """Indexes of iterations: a bit for each, so that a loop of a million takes little memory."""

    def __init__(self) -> None:
        self._words: dict[int, int] = {}
        self._count = 0

    def add(self, index: int) -> None:
        if index not in self:
            self._words[index >> 10] = self._words.get(index >> 10, 0) | 1 << (index & 1023)
            self._count += 1

    def __contains__(self, index: int) -> bool:
        return bool(self._words.get(index >> 10, 0) >> (index & 1023) & 1)

    def __len__(self) -> int:
        return self._count


class _Loop:
    def __init__(self, count: int, width: int) -> None:
        self.count = count
        self.width = width
        self.succeeded = _IndexSet()
        self.failed: set[int] = set()
        self.failed_before: set[int] = set()  # in runs that this one retries, and not since
        self.touched: set[int] = set()  # iterations with facts in the log that have not ended
        self.inherited = False


class LoopAudit:
    """Loops: each iteration ends once, the window is kept, and counts are true.

    Of all runs that may be retried.
    """

    def __init__(self, report: Callable[[str, str], None]) -> None:
        self.report = report
        self._loops: dict[str, _Loop] = {}

    def inherit(self, run: str, of: str | None, named: tuple[int, ...]) -> None:
        """A retry continues the loop of the failed run: successful iterations stay done (D69).

        If it names iterations, the others that failed stay failed.
        """
        old = self._loops.pop(of, None) if of is not None else None
        if old is None:
            return
        loop = self._loops[run] = _Loop(old.count, old.width)
        loop.succeeded, loop.inherited = old.succeeded, True
        loop.failed_before = {each for each in old.failed | old.failed_before if each not in old.succeeded}
        if named:
            loop.failed = loop.failed_before - {*named}

    def started(self, fact: facts.LoopStarted) -> None:
        known = self._loops.get(fact.run)
        if known is not None and not known.inherited:
            self.report("loop-twice", f"the loop of {fact.run} is started twice")
        self._loops[fact.run] = _Loop(fact.count, fact.width)

    def touched(self, run: str, index: int | None) -> None:
        """A fact about an iteration is in the log: it must be one that can have been scheduled."""
        loop = self._loops.get(run)
        if loop is None:
            if index is not None:
                self.report("iteration", f"{frame_id(run, index)} is in the log, but there is no loop")
            return
        if index is None:
            self.report("iteration", f"{run} has a loop, but also a call of its own")
            return
        self._check_scheduled(loop, run, index)
        loop.touched.add(index)
        if len(loop.touched) > loop.width:
            message = f"{len(loop.touched)} iterations of {run} are in flight; max_in_flight is {loop.width}"
            self.report("width", message)

    def landed(self, fact: facts.IterationDone | facts.IterationFailed) -> None:
        loop = self._loops.get(fact.run)
        if loop is None:
            self.report("iteration", f"{frame_id(fact.run, fact.index)} has ended, but there is no loop")
            return
        self._check_scheduled(loop, fact.run, fact.index)
        loop.touched.discard(fact.index)
        (loop.succeeded if isinstance(fact, facts.IterationDone) else loop.failed).add(fact.index)

    def done(self, fact: facts.LoopDone) -> None:
        loop = self._loops.get(fact.run)
        if loop is None:
            self.report("iteration", f"the loop of {fact.run} is done, but was not started")
            return
        counts = {"count": loop.count, "succeeded": len(loop.succeeded), "failed": len(loop.failed)}
        reported = {key: fact.output.meta.get(key) for key in counts}
        if reported != counts:
            self.report("loop-count", f"the loop of {fact.run} says {reported}, but the log has {counts}")
        if len(loop.succeeded) + len(loop.failed) != loop.count:
            self.report("loop-count", f"the loop of {fact.run} is done before all its iterations have ended")
        if not loop.failed:
            del self._loops[fact.run]  # There is nothing to retry.

    def _check_scheduled(self, loop: _Loop, run: str, index: int) -> None:
        """Iterations are scheduled in order, so none can be ahead of the window (D49)."""
        frame = frame_id(run, index)
        if not 0 <= index < loop.count:
            self.report("iteration", f"{frame} is in the log, but the loop has {loop.count} items")
        elif index in loop.succeeded or index in loop.failed:
            self.report("iteration-twice", f"{frame} has already ended")
        elif not loop.inherited and index >= len(loop.succeeded) + len(loop.failed) + loop.width:
            self.report("width", f"{frame} is in the log before it can have been scheduled")
