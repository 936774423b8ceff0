"""The mutation gate: tests plant one bug at a time, and the simulator must find it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest
from msgspec.structs import replace

from noetl.adapters.memory import MemoryStore
from noetl.clock import Clock
from noetl.control.children import Children
from noetl.control.deps import ControlPorts, ControlSettings
from noetl.control.executions import Control
from noetl.control.live_execution import LiveExecution, PendingCommand
from noetl.control.sweeper import sweep
from noetl.engine import Event
from noetl.engine.commands import Report
from noetl.engine.state import State
from noetl.errors import Conflict, Fenced
from noetl.ids import frame_parts
from noetl.ports import Append, Claim, Grant
from noetl.testing.simulator.cluster import TTL_S, SimComponents
from noetl.testing.simulator.loop import SimLoop, SimulationStuck
from noetl.testing.simulator.network import SimNetwork
from noetl.testing.simulator.ports import FaultRates, SimStore
from noetl.worker.worker import Worker
from tests.simulation.test_simulation import disturb

SEEDS_MAX = 2_000  # until a bug is found


class NoPositionCheck(Control):
    """Control accepts a report at any position, as if it continued the frame."""

    async def _decide(self, live: LiveExecution, asked: list[PendingCommand]):  # type: ignore[no-untyped-def]  # as in Control
        moved = [replace(item, command=_moved(live, item.command)) for item in asked]
        return await super()._decide(live, moved)


def _moved(live: LiveExecution, command: object):  # type: ignore[no-untyped-def]  # a Command in, a Command out
    if not isinstance(command, Report):
        return command
    owner, index = frame_parts(command.frame)
    run = live.state.runs.get(owner)
    frame = run.frames.get(index) if run else None
    position = frame.calls if frame else 0
    facts = tuple(replace(fact, call=position + place) for place, fact in enumerate(command.facts, 1))
    return replace(command, position=position, facts=facts)


class NoOwnerEpoch(MemoryStore):
    def _append(self, each: Append) -> Conflict | Fenced | None:
        return super()._append(replace(each, owner=self.epoch(each.execution_id)))


class NoCompareAndSet(MemoryStore):
    def _append(self, each: Append) -> Conflict | Fenced | None:
        return super()._append(replace(each, first_seq=self._heads.get(each.execution_id, 0) + 1))


class TornBatch(MemoryStore):
    """The store may keep only a part of an append."""

    def _append(self, each: Append) -> Conflict | Fenced | None:
        torn = len(each.facts) > 3 and len(self.rows.get(each.execution_id, ())) == 4
        return super()._append(replace(each, facts=each.facts[:-1]) if torn else each)


def store_of(memory: type[MemoryStore]) -> type[SimStore]:
    class Store(SimStore):
        def __init__(self, loop: SimLoop, rates: FaultRates, partitions: int, network: SimNetwork) -> None:
            super().__init__(loop, rates, partitions, network)
            self.memory = memory(self._clock, partitions)

    return Store


class PublishesFirst(Control):
    async def _record(self, live: LiveExecution, events: list[Event], *, is_part: bool = False) -> None:
        self.dispatch.enqueue_all(live)
        await self.dispatch.pump()
        await super()._record(live, events, is_part=is_part)


class AnswersFirst(Control):
    async def _record(self, live: LiveExecution, events: list[Event], *, is_part: bool = False) -> None:
        for item in self.drained:
            if not item.answer.done():
                item.answer.set_result(item.then())
        live.busy = False
        await super()._record(live, events, is_part=is_part)
        live.busy = True

    drained: Sequence[PendingCommand] = ()

    async def _decide(self, live: LiveExecution, asked: list[PendingCommand]):  # type: ignore[no-untyped-def]  # as in Control
        self.drained = list(asked)
        return await super()._decide(live, asked)


class AcknowledgesFirst(Worker):
    async def _run_claim(self, claim: Claim) -> None:
        self.claims = [claim]
        await super()._run_claim(claim)

    claims: Sequence[Claim] = ()

    async def _run_frame(self, execution_id: str, grant: Grant) -> tuple[bool, tuple[Grant, ...]]:
        for claim in self.claims:
            await self.queue.done(claim)
        return await super()._run_frame(execution_id, grant)


class LosesWakes(Control):
    def __init__(self, ports: ControlPorts, *given: Any, **hooks: Any) -> None:
        super().__init__(ports, *given, **hooks)
        self.children = Childless(self, ports.link or self)


class Childless(Children):
    async def wake_parent(self, state: State) -> None:
        del state


class ReusesGrants(Control):
    def _grant(self, live: LiveExecution, frame: str, worker: str) -> Grant | None:
        grant = super()._grant(live, frame, worker)
        if grant is None:
            return None
        epoch = (0, grant.epoch[1])
        live.in_flight[frame] = replace(live.in_flight[frame], epoch=epoch)
        return replace(grant, epoch=epoch)


class ResendsLate(Control):
    """A pointer that no worker claims is sent again much later than the lease of a worker ends."""

    def __init__(
        self, ports: ControlPorts, programs: Any, owners: Any, clock: Clock, settings: ControlSettings, **hooks: Any
    ) -> None:
        super().__init__(ports, programs, owners, clock, settings._replace(resend_s=6 * TTL_S), **hooks)


class LocalTime(Control):
    """Control uses the clock of its server, which is wrong, instead of the time of the store."""

    def now(self) -> datetime:
        return self.clock.now()


async def sweep_nothing(control: Control) -> None:
    del control


async def sweep_without_children(control: Control) -> None:
    for live in list(control.executions.values()):
        if not live.busy:
            control.dispatch.enqueue_all(live)
    await control.dispatch.pump()


async def sweep_without_instants(control: Control) -> None:
    await sweep(control)
    control.idle = {id: idle._replace(due=None) for id, idle in control.idle.items()}


BUGS = {
    "no position check, so no dedup": SimComponents(control=NoPositionCheck),
    "no epoch of the owner": SimComponents(store=store_of(NoOwnerEpoch)),
    "no compare-and-set": SimComponents(store=store_of(NoCompareAndSet)),
    "a batch applied in part": SimComponents(store=store_of(TornBatch)),
    "publish before commit": SimComponents(control=PublishesFirst),
    "answer before commit": SimComponents(control=AnswersFirst),
    "acknowledge before commit": SimComponents(worker=AcknowledgesFirst),
    "no sweep": SimComponents(sweep=sweep_nothing),
    "a wake is lost": SimComponents(control=LosesWakes, sweep=sweep_without_children),
    "a grant is used again after failover": SimComponents(control=ReusesGrants),
    "a wait that is not in memory has no end": SimComponents(sweep=sweep_without_instants),
    "time by a skewed clock": SimComponents(control=LocalTime),
    "a lost pointer is sent again late": SimComponents(control=ResendsLate),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str) -> None:
    for seed in range(SEEDS_MAX):
        try:
            disturb(seed, BUGS[bug])
        except (AssertionError, SimulationStuck):
            return
    pytest.fail(f"{bug}: not found in {SEEDS_MAX} seeds")


def test_the_sweep_that_is_tested_is_the_real_one() -> None:
    assert SimComponents().sweep is sweep
