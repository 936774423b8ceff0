"""Signals in a simulated cluster: each is sent until an answer is certain, and the log must agree with the answers."""

from __future__ import annotations

from typing import Literal, NamedTuple

from noetl.engine.commands import Signal
from noetl.engine.facts import Cancelled, Fact, ForSignal, FrameParked, FrameResumed, Retried
from noetl.errors import NotFound, Rejected, Unavailable
from noetl.output import JSON
from noetl.testing.simulator.loop import SimLoop
from noetl.testing.simulator.ports import SimClock, SimLink, SimStore

RIVALS = 2  # signals for one wait: one of them ends it
LATE_S = 3.0  # at most: from the beginning of a wait until its signals are sent
POLL_S = 0.1
AGAIN_S = 5.0

Answer = Literal["accepted", "refused", "unknown"]


class SimSignal(NamedTuple):
    """A signal for one wait of an execution. No other wait has its name."""

    execution_id: str
    name: str


class SimSignals:
    """Sends rival signals, also while their owner is killed."""

    def __init__(self, loop: SimLoop, link: SimLink, store: SimStore) -> None:
        self._loop, self._link, self._store = loop, link, store
        self._clock = SimClock(loop)
        self._refused: list[tuple[SimSignal, int]] = []  # at the first attempt
        self.repeated = 0  # attempts after one whose result is unknown

    def send(self, signal: SimSignal) -> None:
        self._loop.spawn("main", self._send(signal))

    async def _send(self, signal: SimSignal) -> None:
        random, number = self._loop.random, RIVALS
        if random.random() < 0.3:  # before it waits, or shortly after
            await self._clock.sleep(random.random() * LATE_S)
            await self._attempt(signal, 0, is_first=True)
        while not self._about(signal):
            await self._clock.sleep(POLL_S)
        await self._clock.sleep(random.random() * LATE_S)
        for rival in range(1, RIVALS + 1):
            self._loop.spawn("main", self._send_until_certain(signal, rival))
        while True:  # after a retry, the execution waits again
            await self._clock.sleep(AGAIN_S)
            if self._is_waiting(signal):
                number += 1
                await self._send_until_certain(signal, number)

    async def _send_until_certain(self, signal: SimSignal, number: int) -> None:
        answer = await self._attempt(signal, number, is_first=True)
        while answer == "unknown":
            await self._clock.sleep(self._loop.random.random())
            self.repeated += 1
            answer = await self._attempt(signal, number, is_first=False)

    async def _attempt(self, signal: SimSignal, number: int, *, is_first: bool) -> Answer:
        was_waiting = self._is_waiting(signal)
        try:
            await self._link.command(signal.execution_id, Signal(name=signal.name, data=number))
        except Rejected as error:
            if is_first:
                self._refused.append((signal, number))
            # The execution may have been cancelled meanwhile.
            if error.code == "nobody-waits" and was_waiting and self._is_waiting(signal):
                self._violation(signal, number, "was refused although it waits")
            return "refused"
        except NotFound:
            return "refused"
        except Unavailable:
            return "unknown"
        if number not in self.answers(signal):
            self._violation(signal, number, f"was accepted, and the log has {self.answers(signal)}")
        return "accepted"

    def check(self) -> None:
        """Raises AssertionError when the log has a signal that was refused. Called at the end."""
        for signal, number in self._refused:
            assert number not in self.answers(signal), f"signal {signal} {number} was refused, and it is in the log"

    def answers(self, signal: SimSignal) -> list[JSON]:
        """The data of the signals that have ended a wait; more than one after retries."""
        return [fact.output.data for fact in self._about(signal) if isinstance(fact, FrameResumed) and fact.output]

    def _is_waiting(self, signal: SimSignal) -> bool:
        about = self._about(signal)
        return bool(about) and isinstance(about[-1], FrameParked)

    def _about(self, signal: SimSignal) -> list[Fact]:
        """The begin and the end of each wait for it."""
        found, frames = list[Fact](), set[str]()
        for row in self._store.memory.rows.get(signal.execution_id, ()):
            for fact in row.facts:
                match fact:
                    case FrameParked(frame=frame, until=ForSignal(name=name)) if name == signal.name:
                        frames.add(frame)
                        found.append(fact)
                    case FrameResumed(frame=frame) if frame in frames:
                        found.append(fact)
                    case Cancelled() | Retried() if found:
                        found.append(fact)
        return found

    def _violation(self, signal: SimSignal, number: int, what: str) -> None:
        self._store.violations.append(f"{signal.execution_id}: signal {signal.name} {number} {what}")
