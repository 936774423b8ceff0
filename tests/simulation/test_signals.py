"""Signals to clusters with injected faults: each is in the log, or it was refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from noetl.control.executions import Control
from noetl.control.live_execution import LiveExecution, PendingCommand
from noetl.engine import Event
from noetl.errors import Rejected
from noetl.testing.simulator.cluster import SimCluster, SimComponents
from noetl.testing.simulator.loop import SimulationStuck
from noetl.testing.simulator.signals import SimSignal
from tests.simulation.playbooks import ASKED
from tests.simulation.test_simulation import programs
from tests.sizes import seeds

SEEDS = seeds(1_000)
BLOCKS = 4  # tests that share the seeds, so that they can run in parallel


def signalled(
    seed: int, *, commands: bool = False, components: SimComponents | None = None, late: float | None = None
) -> SimCluster:
    """Run two executions that wait for signals. Raises AssertionError or SimulationStuck if an answer was wrong.

    `late`: the part of the requests to the store that take effect late, in a cluster without outages.
    """
    cluster = SimCluster(seed, programs(), components=components, outages=None if late is None else ())
    if late is not None:
        cluster.store.rates = cluster.rates._replace(store_late=late)
    signals = [SimSignal(execution, name) for execution in ("e0", "e1") for name in ASKED]
    states = cluster.run({"e0": ("ask", {}), "e1": ("ask", {})}, commands, signals=signals).states
    ends = {state.status for state in states.values()}
    assert ends <= ({"ok", "cancelled"} if commands else {"ok"}), ends
    return cluster


def find(seeds: range, run: Callable[[int], SimCluster]) -> int:
    """The number of signals that were sent again."""
    repeated = 0
    for seed in seeds:
        try:
            repeated += run(seed).signals.repeated
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    return repeated


@pytest.mark.parametrize("block", range(BLOCKS))
def test_a_signal_to_a_cluster_with_faults_is_in_the_log_or_refused(block: int) -> None:
    assert find(range(SEEDS * block // BLOCKS, SEEDS * (block + 1) // BLOCKS), signalled) > 0


def test_a_signal_to_an_execution_that_is_paused_or_cancelled_is_in_the_log_or_refused() -> None:
    assert find(range(seeds(250, least=12)), lambda seed: signalled(seed, commands=True)) > 0


def test_the_same_seed_gives_the_same_answers_to_signals() -> None:
    for seed in range(0, SEEDS, 101):
        assert signalled(seed).history() == signalled(seed).history(), f"seed {seed}"


class RefusesFirst(Control):
    """Control refuses a command before the commands that it was compared with are committed."""

    async def _decide(
        self, live: LiveExecution, commands: list[PendingCommand]
    ) -> tuple[list[Event], dict[asyncio.Future[object], Rejected]]:
        events, refused = await super()._decide(live, commands)
        for answer, error in refused.items():
            if not answer.done():
                answer.set_exception(error)
        return events, refused


class TrustsItsState(Control):
    """Control refuses a command although the log may have more facts than its state."""

    async def _ensure_current(self, live: LiveExecution) -> None:
        del live


BUGS = {"refuse before commit": RefusesFirst, "refuse from an old state": TrustsItsState}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str) -> None:
    for seed in range(2_000):
        try:
            signalled(seed, commands=seed % 2 == 0, components=SimComponents(control=BUGS[bug]), late=0.3)
        except (AssertionError, SimulationStuck):
            return
    pytest.fail(f"{bug}: not found")
