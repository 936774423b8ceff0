"""The auditor's books of loops: each iteration lands once, no more fly than may, and the counts are true."""

from __future__ import annotations

from collections.abc import Callable

from noetl.engine import facts
from noetl.ids import frame_id


class _Loop:
    def __init__(self, count: int, width: int) -> None:
        self.count = count
        self.width = width
        self.succeeded: set[int] = set()
        self.failed: set[int] = set()
        self.touched: set[int] = set()  # something is on record of them, and they have not landed
        self.inherited = False


class LoopAudit:
    """Loops of all runs that may be taken up again."""

    def __init__(self, say: Callable[[str, str], None]) -> None:
        self.say = say
        self._loops: dict[str, _Loop] = {}

    def inherit(self, run: str, of: str | None) -> None:
        """A retry goes on with the loop of the run that it takes up: what went well stays done (D69)."""
        old = self._loops.pop(of, None) if of is not None else None
        if old is None:
            return
        loop = self._loops[run] = _Loop(old.count, old.width)
        loop.succeeded, loop.inherited = old.succeeded, True

    def started(self, fact: facts.LoopStarted) -> None:
        known = self._loops.get(fact.run)
        if known is not None and not known.inherited:
            self.say("loop-twice", f"the loop of {fact.run} is started twice")
        self._loops[fact.run] = _Loop(fact.count, fact.width)

    def touched(self, run: str, index: int | None) -> None:
        """Something of an iteration is on record: it must be one that was handed out."""
        loop = self._loops.get(run)
        if loop is None:
            if index is not None:
                self.say("iteration", f"{frame_id(run, index)} is on record, and there is no loop")
            return
        if index is None:
            self.say("iteration", f"{run} has a loop, and a call of its own")
            return
        self._handed_out(loop, run, index)
        loop.touched.add(index)
        if len(loop.touched) > loop.width:
            said = f"{len(loop.touched)} iterations of {run} are in flight; max_in_flight is {loop.width}"
            self.say("width", said)

    def landed(self, fact: facts.IterationDone | facts.IterationFailed) -> None:
        loop = self._loops.get(fact.run)
        if loop is None:
            self.say("iteration", f"{frame_id(fact.run, fact.index)} has landed, and there is no loop")
            return
        self._handed_out(loop, fact.run, fact.index)
        loop.touched.discard(fact.index)
        (loop.succeeded if isinstance(fact, facts.IterationDone) else loop.failed).add(fact.index)

    def done(self, fact: facts.LoopDone) -> None:
        loop = self._loops.get(fact.run)
        if loop is None:
            self.say("iteration", f"the loop of {fact.run} is done, and was not started")
            return
        counts = {"count": loop.count, "succeeded": len(loop.succeeded), "failed": len(loop.failed)}
        told = {key: fact.output.meta.get(key) for key in counts}
        if told != counts:
            self.say("loop-count", f"the loop of {fact.run} says {told}, and the log has {counts}")
        if len(loop.succeeded) + len(loop.failed) != loop.count:
            self.say("loop-count", f"the loop of {fact.run} is done before all its iterations have landed")
        if not loop.failed:
            del self._loops[fact.run]  # There is nothing to take up again.

    def _handed_out(self, loop: _Loop, run: str, index: int) -> None:
        """The lowest are handed out first, so none can be further ahead than the window is wide (D49)."""
        frame = frame_id(run, index)
        if not 0 <= index < loop.count:
            self.say("iteration", f"{frame} is on record, and the loop has {loop.count} items")
        elif index in loop.succeeded or index in loop.failed:
            self.say("iteration-twice", f"{frame} has landed already")
        elif not loop.inherited and index >= len(loop.succeeded) + len(loop.failed) + loop.width:
            self.say("width", f"{frame} is on record before it can have been handed out")
