"""Run one execution in memory, under a virtual clock, with the answers of a replay adapter."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache
from typing import Final, NamedTuple, TypeAlias

from noetl.control.deps import ControlHooks
from noetl.control.live_execution import LiveExecution
from noetl.engine import Event
from noetl.engine.commands import Signal, Start
from noetl.engine.facts import ForSignal, FrameParked, Requested
from noetl.engine.loops import iteration_outputs
from noetl.engine.stored import filled, key_of, marks_on
from noetl.errors import Rejected
from noetl.output import JSON, Failure, Output
from noetl.replay.adapter import ReplayAdapter
from noetl.replay.programs import ReplayPrograms
from noetl.replay.recording import Recordings
from noetl.runtime.fake_clock import FakeClock
from noetl.runtime.memory import CommittedEvent, MemoryRuntime, MemoryState, RuntimeParts, runtime
from noetl.tool import Tools
from noetl.views.documents import load_output
from noetl.views.log import folded
from noetl.worker.keychain import Keychain

TIMEOUT_S: Final = 60.0  # of real time
WAITING: Final = "waiting"  # the status of an execution that waits for a signal that is not sent


class ReplayedExecution(NamedTuple):
    """How it ended, and everything that was committed."""

    id: str
    status: str  # ok, error, cancelled or waiting
    output: JSON
    ctx: dict[str, JSON]
    error: Failure | None
    events: Sequence[CommittedEvent]  # also of its children
    waits_for: tuple[str, ...] = ()  # signals

    def log(self, execution_id: str | None = None) -> list[Event]:
        """The events of one execution; None: of this one."""
        wanted = execution_id or self.id
        return [Event(each.seq, each.at, each.fact) for each in self.events if each.execution_id == wanted]

    @property
    def duration_s(self) -> float:
        """Of virtual time."""
        return (self.events[-1].at - self.events[0].at).total_seconds() if self.events else 0.0


@cache
def installed_tools() -> Tools:
    return Tools.installed()


# (execution, name) → the data of a signal, in a tuple; None: it is not sent.
SignalSource: TypeAlias = Callable[[str, str], tuple[JSON] | None]


class Replay:
    """One execution, over as many processes as it takes: a process that dies is replaced."""

    def __init__(
        self,
        programs: ReplayPrograms,
        adapter: ReplayAdapter,
        memory: MemoryState,
        signals: SignalSource,
        recordings: Recordings | None = None,
    ) -> None:
        self._adapter = adapter
        self._clock = clock = memory.clock
        self._signals = signals
        self._recordings = recordings
        self._events: list[CommittedEvent] = []
        self._unsent: dict[tuple[str, str], str] = {}  # (execution, frame) → the signal that it waits for
        self._asked = asyncio.Event()  # a frame waits for a signal that is not given
        self._sending: set[asyncio.Task[None]] = set()
        self._parts = RuntimeParts(
            store=memory.store,
            results=memory.results,
            programs=programs,
            tools=installed_tools(),
            around=adapter.around,
            keychain=Keychain(programs, clock),
            hooks=ControlHooks(on_commit=(self._on_commit,)),
        )
        self._memory: MemoryRuntime | None = None

    async def run(self, execution_id: str, digest: str, start: Start) -> ReplayedExecution:
        """Raises TimeoutError after TIMEOUT_S of real time, and NotFound for an unknown playbook."""
        async with asyncio.timeout(TIMEOUT_S):
            begun = False
            while True:
                async with runtime(clock=self._clock, parts=self._parts) as memory:
                    self._memory = memory
                    if begun:
                        await memory.sweep()
                    else:
                        await memory.link.start(execution_id, digest, start)
                        begun = True
                    await self._until_rest(memory, execution_id)
                    self._events += memory.events
                    if not self._adapter.killed.is_set():
                        return await self._result(memory, execution_id)
                await memory.owners.leave()
                self._adapter.restart()

    async def _until_rest(self, memory: MemoryRuntime, execution_id: str) -> None:
        """Until it has ended, waits for a signal that is not given, or its process dies."""
        waiting = [
            asyncio.ensure_future(each)
            for each in (memory.end(execution_id), self._adapter.killed.wait(), self._stuck(memory))
        ]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for each in waiting:
                if each.done():
                    each.result()
        finally:
            for each in (*waiting, *self._sending):
                each.cancel()
            await asyncio.gather(*waiting, *self._sending, return_exceptions=True)

    async def _stuck(self, memory: MemoryRuntime) -> None:
        """Return when nothing more can happen. Only a wait for a signal can cause that."""
        await self._asked.wait()
        while True:
            known = len(memory.events)
            await self._clock.settle()
            if known == len(memory.events) and not self._clock.sleepers and not self._adapter.running:
                return

    def _on_commit(self, live: LiveExecution, events: list[Event]) -> None:
        for event in events:
            match event.fact:
                case Requested(path=path, workload=workload) if self._recordings is not None:
                    self._recordings.adopt(live.id, path, workload)
                case FrameParked(frame=frame, until=ForSignal(name=name)):
                    if (found := self._signals(live.id, name)) is None:
                        self._unsent[live.id, frame] = name
                        self._asked.set()
                        continue
                    task = asyncio.get_running_loop().create_task(self._send(live.id, name, found[0]))
                    self._sending.add(task)
                    task.add_done_callback(self._sending.discard)

    async def _send(self, execution_id: str, name: str, data: JSON) -> None:
        assert self._memory is not None
        with suppress(Rejected):  # another frame has received it
            await self._memory.command(execution_id, Signal(name=name, data=data))

    async def _result(self, memory: MemoryRuntime, execution_id: str) -> ReplayedExecution:
        state = folded(execution_id, [Event(each.seq, each.at, each.fact) for each in self._of(execution_id)])
        status = WAITING if state.live else state.status

        async def iterations(id: str, run: str) -> list[Output | None] | None:
            facts = [each.fact for each in self._of(id)]
            return [each for _, each in iteration_outputs(facts, run)] if facts else None

        async def load(output: Output) -> JSON:
            return await load_output(output, iterations, memory.results.get)

        stored = {key_of(ref): await load(Output(ref=ref)) for ref in marks_on(state.ctx, ())}
        return ReplayedExecution(
            execution_id,
            status,
            None if state.end_output is None else await load(state.end_output),
            filled(state.ctx, stored),
            state.failure,
            self._events,
            tuple(dict.fromkeys(self._unsent.values())) if status == WAITING else (),
        )

    def _of(self, execution_id: str) -> list[CommittedEvent]:
        return [each for each in self._events if each.execution_id == execution_id]


def virtual_clock(start: datetime | None) -> FakeClock:
    return FakeClock(auto_advance=True) if start is None else FakeClock(start, auto_advance=True)
