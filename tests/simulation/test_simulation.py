"""Clusters with injected faults: no work is lost, no result counts twice, every execution ends."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from noetl.testing.memory_runtime import MemoryPrograms
from noetl.testing.simulator.cluster import SimCluster, SimComponents, SimResult
from tests.playbooks import kinds
from tests.simulation.playbooks import TEXTS
from tests.sizes import seeds

SEEDS = seeds(2_000)
FEWER = seeds(250, least=12)  # of the other playbooks
BLOCKS = 8  # tests that share the seeds, so that they can run in parallel


@cache
def programs() -> MemoryPrograms:
    return MemoryPrograms(TEXTS, kinds())


def starts(seed: int) -> dict[str, tuple[str, dict[str, object]]]:
    """One execution, or two that compete for the workers."""
    return {f"e{number}": ("mix", {}) for number in range(1 + seed % 2)}


def final_states(result: SimResult) -> dict[str, object]:
    return {
        name: (state.status, state.ctx, state.end_output and state.end_output.data)
        for name, state in result.states.items()
    }


@cache
def undisturbed(seed: int) -> dict[str, object]:
    result = SimCluster(seed, programs(), calm=True).run(starts(seed))
    assert {state.status for state in result.states.values()} == {"ok"}
    return final_states(result)


def disturb(seed: int, components: SimComponents | None = None) -> SimCluster:
    """Run a cluster with faults. Raises AssertionError or SimulationStuck if it ends differently than without."""
    cluster = SimCluster(seed, programs(), components=components)
    assert final_states(cluster.run(starts(seed))) == undisturbed(seed % 2)
    return cluster


@pytest.mark.parametrize("block", range(BLOCKS))
def test_a_cluster_with_faults_ends_like_one_without(block: int) -> None:
    for seed in range(SEEDS * block // BLOCKS, SEEDS * (block + 1) // BLOCKS):
        try:
            disturb(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def test_the_same_seed_gives_the_same_history() -> None:
    for seed in range(0, SEEDS, 101):  # an odd step selects seeds with one execution and with two
        assert disturb(seed).history() == disturb(seed).history(), f"seed {seed}"


@pytest.mark.parametrize("block", range(2))
def test_executions_that_are_paused_resumed_and_cancelled_end(block: int) -> None:
    """D67, D68: after any command at any moment, every execution ends and the log stays valid."""
    for seed in range(FEWER * block // 2, FEWER * (block + 1) // 2):
        try:
            result = SimCluster(seed, programs()).run(starts(seed), commands=True)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        assert {state.status for state in result.states.values()} <= {"ok", "cancelled"}, f"seed {seed}"


def test_a_cluster_with_faults_undoes_every_completed_step_once() -> None:
    """D116: after a failure, compensations are done one after the other, through all faults."""
    for seed in range(FEWER):
        try:
            state = SimCluster(seed, programs()).run({"e": ("undo", {})}).states["e"]
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        assert (state.status, state.ctx["undone"]) == ("error", ["call", "fan", "start"]), f"seed {seed}"
        assert state.compensation is not None
        assert (state.completed, state.compensation.failed) == ({}, {}), f"seed {seed}"


def test_a_cluster_with_faults_ends_when_it_is_cancelled_during_compensations() -> None:
    """D67, D68, D116: after any command at any moment, every execution ends and the log stays valid."""
    for seed in range(FEWER):
        try:
            result = SimCluster(seed, programs()).run({"e": ("undo", {})}, commands=True)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        assert result.states["e"].status in ("error", "cancelled"), f"seed {seed}"


def test_a_cluster_with_faults_tells_every_end_once() -> None:
    """Each end has one execution for each notification, although servers die between the end and the start."""
    for seed in range(FEWER):
        cluster = SimCluster(seed, programs())
        try:
            states = cluster.run({"e": ("tell", {}), "f": ("tell", {"breaks": True})}).states
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        told = Counter(state.parent for state in states.values() if "notify[" in (state.parent or ""))
        assert set(told.values()) == {1}, f"seed {seed}"
        ends = {each for each in told if each is not None and not each.endswith("@late")}
        assert ends == {"e/notify[0]@finished", "f/notify[0]@failed", "f/notify[1]@failed"}, f"seed {seed}"
        assert (states["e"].status, states["f"].status) == ("ok", "error"), f"seed {seed}"
