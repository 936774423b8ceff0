"""What an execution asks people: its waits for signals, and who has answered them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct, structs

from noetl.engine import Event
from noetl.engine.facts import Finished, ForSignal, FrameParked, FrameResumed, StepFailed
from noetl.ids import frame_parts
from noetl.output import JSON


class PersonDecision(Struct, frozen=True, kw_only=True):
    """A `wait` for a signal: the question, and the answer."""

    frame: str  # "ask#1"
    signal: str
    status: Literal["open", "decided", "expired"] = "open"  # expired: its step ended without an answer
    title: str = ""
    text: str = ""
    data: JSON = None
    form: dict[str, dict[str, JSON]] = {}
    since: datetime
    decided_at: datetime | None = None
    by: str | None = None  # who decided; None: unknown
    answer: JSON = None


class DecisionFold:
    """The decisions of a log, fed with its events in order."""

    def __init__(self) -> None:
        self.seq = 0  # of the last event
        self.decisions: list[PersonDecision] = []
        self._waiting: dict[str, int] = {}  # frame → its place in `decisions`

    def feed(self, event: Event) -> None:
        self.seq = event.seq
        match event.fact:
            case FrameParked(frame=frame, until=ForSignal() as asked):
                self._waiting[frame] = len(self.decisions)
                question = structs.asdict(asked)
                question["signal"] = question.pop("name")
                self.decisions.append(PersonDecision(frame=frame, since=event.at, **question))
            case FrameResumed(frame=frame) if frame in self._waiting:
                fact = event.fact
                answer = None if fact.output is None else fact.output.data
                self._close(frame, status="decided", decided_at=event.at, by=fact.by, answer=answer)
            case StepFailed(run=str(run)):
                for frame in [each for each in self._waiting if frame_parts(each)[0] == run]:
                    self._close(frame, status="expired", decided_at=event.at)
            case Finished():
                for frame in list(self._waiting):
                    self._close(frame, status="expired", decided_at=event.at)

    def _close(self, frame: str, **changes: Any) -> None:
        place = self._waiting.pop(frame)
        self.decisions[place] = structs.replace(self.decisions[place], **changes)
