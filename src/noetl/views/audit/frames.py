"""The auditor's books of frames: every call has its own place, none is left out, and no older hand writes."""

from __future__ import annotations

from collections.abc import Callable

from noetl.engine import facts
from noetl.engine.facts import ForBlock, Until
from noetl.ids import frame_id, frame_parts

Epoch = tuple[int, int]


class _Frame:
    def __init__(self) -> None:
        self.calls = 0
        self.attempt = 1
        self.over = False
        self.parked: Until | None = None
        self.epoch: Epoch | None = None


class FrameAudit:
    """Frames of runs that have not ended; `runs` are the ids of all that were ever scheduled."""

    def __init__(self, say: Callable[[str, str], None]) -> None:
        self.say = say
        self.runs: set[str] = set()
        self._frames: dict[str, dict[str, _Frame]] = {}

    def begin(self, run: str) -> None:
        self.runs.add(run)
        self._frames[run] = {}

    def end(self, run: str) -> None:
        self._frames.pop(run, None)

    def landed(self, run: str, index: int) -> None:
        """An iteration is over: nothing more is expected of its frame."""
        id = frame_id(run, index)
        frame = self._frames.get(run, {}).pop(id, None)
        if frame is not None and not frame.over:
            self.say("position", f"{id} has landed, and its last task was not done")

    def called(self, id: str) -> str | None:
        """The block that a frame waits for; None: it waits for none."""
        frame = self._frames.get(frame_parts(id)[0], {}).get(id)
        return frame.parked.block if frame is not None and isinstance(frame.parked, ForBlock) else None

    def called_task(self, fact: facts.TaskDone) -> None:
        frame = self._frame(fact.frame)
        self._position(frame, fact.frame, fact.call)
        if frame.parked is not None:
            self.say("parked", f"{fact.frame} makes call {fact.call} while it is parked")
        if fact.attempt != frame.attempt:
            self.say("attempt", f"{fact.frame}: attempt {fact.attempt} where {frame.attempt} is next")
        if fact.epoch is not None:
            self._epoch(frame, fact.frame, fact.epoch)
        again = fact.directive == "retry" and fact.next >= 0
        frame.calls, frame.attempt = fact.call, fact.attempt + 1 if again else 1
        frame.over, frame.parked = fact.next < 0, None

    def parked(self, fact: facts.FrameParked) -> None:
        frame = self._frame(fact.frame)
        self._position(frame, fact.frame, fact.call)
        if frame.parked is not None:
            self.say("parked", f"{fact.frame} is parked twice")
        if fact.epoch is not None:
            self._epoch(frame, fact.frame, fact.epoch)
        frame.parked = fact.until

    def resumed(self, fact: facts.FrameResumed) -> None:
        frame = self._frame(fact.frame)
        if frame.parked is None:
            self.say("parked", f"{fact.frame} is resumed, and was not parked")
        frame.parked = None

    def _frame(self, id: str) -> _Frame:
        frames = self._frames.setdefault(frame_parts(id)[0], {})
        if id not in frames:
            frames[id] = _Frame()
        return frames[id]

    def _position(self, frame: _Frame, id: str, call: int) -> None:
        if call <= frame.calls:
            self.say("call-twice", f"{id}: call {call} is on record already")
        elif call > frame.calls + 1:
            self.say("call-gap", f"{id}: call {call} after {frame.calls}")
        if frame.over:
            self.say("position", f"{id}: call {call}, and its last task is done")

    def _epoch(self, frame: _Frame, id: str, epoch: Epoch) -> None:
        if frame.epoch is not None and epoch < frame.epoch:
            self.say("stale-epoch", f"{id}: epoch {epoch} after {frame.epoch}")
        frame.epoch = epoch
