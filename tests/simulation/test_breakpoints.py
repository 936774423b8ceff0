"""Executions that are debugged in clusters with faults end like those that are not, and nothing stays held."""

from __future__ import annotations

import pytest

from noetl.engine.breakpoints import ANYWHERE, holds_of
from noetl.engine.commands import ClearBreakpoint, Release, SetBreakpoint, Start
from noetl.engine.facts import HoldReleased
from noetl.engine.state import State
from noetl.errors import Unavailable
from noetl.testing.simulator.loop import SimLoop
from noetl.testing.simulator.ports import SimClock
from noetl.views.log import events_of, folded
from tests.simulation.playbooks import EDITS
from tests.simulation.test_forks import InputCluster, ends, fresh
from tests.simulation.test_simulation import programs
from tests.sizes import seeds

SEEDS = seeds(400)
DEBUGGED_S = 40.0  # of virtual time; then breakpoints are cleared


class DebuggedCluster(InputCluster):
    """Everything is held before each step and task, or some of it, and a debugger steps and continues at random."""

    async def _start(self, execution_id: str, path: str, workload: dict[str, object]) -> None:
        clock, random = SimClock(self.loop), self.loop.random
        when = random.choice((None, None, "ctx.n | default(0) != 3"))
        points = tuple(
            SetBreakpoint(place=place, when=when, once=random.random() < 0.3)
            for place in (ANYWHERE, f"side/{ANYWHERE}")  # the second one is in a child
        )
        while execution_id not in self.store.memory.rows:
            try:
                await self.link.start(execution_id, path, Start(workload=workload, breakpoints=points))
            except Unavailable:
                await clock.sleep(0.5)
        await self._debug(execution_id)

    async def _debug(self, execution_id: str) -> None:
        clock, random = SimClock(self.loop), self.loop.random
        until = self.loop.time() + DEBUGGED_S
        while not self._ended(execution_id):
            await clock.sleep(random.random())
            for id in [each for each in self.store.memory.rows if not self._ended(each)]:  # also of children
                held = list(holds_of(self._state(id)))
                if self.loop.time() >= until:
                    await self._send(id, ClearBreakpoint())
                    await self._send(id, Release())
                elif held:
                    at = random.choice([*(each.at for each in held), None])
                    await self._send(id, Release(at=at, step=at is not None and random.random() < 0.5))
                elif random.random() < 0.1:
                    await self._send(id, SetBreakpoint(place=ANYWHERE, once=True))

    def _state(self, execution_id: str) -> State:
        return folded(execution_id, events_of(self.store.memory.rows[execution_id]))


@pytest.mark.parametrize("block", range(2))
def test_a_debugged_execution_ends_like_one_that_is_not(block: int) -> None:
    released = in_children = 0
    for seed in range(SEEDS * block // 2, SEEDS * (block + 1) // 2):
        random = SimLoop(seed).random  # type: ignore[abstract]  # only its random numbers are used
        path = random.choice([*EDITS, "pages"])
        try:
            cluster = DebuggedCluster(seed, programs())
            result = cluster.run({"e": (path, {})})
            assert ends(result, "e") == fresh(path), path
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        for id, rows in cluster.store.memory.rows.items():
            count = sum(isinstance(fact, HoldReleased) for row in rows for fact in row.facts)
            released, in_children = released + count, in_children + count * (id != "e")
    assert released > SEEDS, "the debugger has held almost nothing"
    assert in_children > SEEDS // 4, "the debugger has held almost nothing in children"
