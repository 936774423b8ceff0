"""Whole houses under every fault we can think of: nothing is lost, nothing is done twice, everything ends."""

from __future__ import annotations

import os
from functools import cache

import pytest

from noetl.testing.simulator.cluster import Build, Cluster, Library, Told
from tests.playbooks import kinds
from tests.simulation.playbooks import TEXTS
from tests.sizes import seeds

SEEDS = int(os.environ.get("SEEDS", seeds(2_000)))
BLOCKS = 8  # tests that share the seeds, so that they can run beside each other


@cache
def library() -> Library:
    return Library(TEXTS, kinds())


def starts(seed: int) -> dict[str, tuple[str, dict[str, object]]]:
    """One execution alone, and then two that get in each other's way."""
    return {f"e{number}": ("mix", {}) for number in range(1 + seed % 2)}


def outcome(told: Told) -> dict[str, object]:
    return {
        name: (state.status, state.ctx, state.end_output and state.end_output.data)
        for name, state in told.states.items()
    }


@cache
def undisturbed(seed: int) -> dict[str, object]:
    told = Cluster(seed, library(), calm=True).run(starts(seed))
    assert {state.status for state in told.states.values()} == {"ok"}
    return outcome(told)


def disturb(seed: int, build: Build | None = None) -> Cluster:
    """A world of faults; AssertionError or Stuck when it does not end as one without."""
    cluster = Cluster(seed, library(), build=build)
    assert outcome(cluster.run(starts(seed))) == undisturbed(seed % 2)
    return cluster


@pytest.mark.parametrize("block", range(BLOCKS))
def test_a_disturbed_house_ends_like_an_undisturbed_one(block: int) -> None:
    for seed in range(SEEDS * block // BLOCKS, SEEDS * (block + 1) // BLOCKS):
        try:
            disturb(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def test_the_same_seed_gives_the_same_history() -> None:
    for seed in range(0, SEEDS, 101):  # an odd step: with one execution, and with two
        assert disturb(seed).history() == disturb(seed).history(), f"seed {seed}"


@pytest.mark.parametrize("block", range(2))
def test_a_house_that_is_paused_resumed_and_cancelled_comes_to_an_end(block: int) -> None:
    """D67, D68: whatever is asked for at whatever moment, nothing hangs and the log stays whole."""
    for seed in range(SEEDS * block // 8, SEEDS * (block + 1) // 8):
        try:
            told = Cluster(seed, library()).run(starts(seed), commands=True)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        assert {state.status for state in told.states.values()} <= {"ok", "cancelled"}, f"seed {seed}"
