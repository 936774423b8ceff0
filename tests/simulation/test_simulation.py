"""Whole houses under every fault we can think of: nothing is lost, nothing is done twice, everything ends."""

from __future__ import annotations

import os
from functools import cache

import pytest

from noetl.engine.state import State
from noetl.testing.cluster import Cluster, Library
from tests.playbooks import kinds
from tests.simulation.playbooks import TEXTS

SEEDS = int(os.environ.get("SEEDS", "2000"))
STARTS: dict[str, tuple[str, dict[str, object]]] = {f"e{number}": ("mix", {}) for number in range(2)}


@cache
def library() -> Library:
    return Library(TEXTS, kinds())


def outcome(states: dict[str, State]) -> dict[str, object]:
    return {
        name: (state.status, state.ctx, state.end_output and state.end_output.data)
        for name, state in states.items()
    }


@cache
def undisturbed() -> dict[str, object]:
    told = Cluster(0, library(), calm=True).run(STARTS)
    assert {state.status for state in told.states.values()} == {"ok"}
    return outcome(told.states)


@pytest.mark.parametrize("block", range(8))
def test_a_disturbed_house_ends_like_an_undisturbed_one(block: int) -> None:
    for seed in range(block, SEEDS, 8):
        cluster = Cluster(seed, library())
        try:
            told = cluster.run(STARTS)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        assert outcome(told.states) == undisturbed(), f"seed {seed}"


def test_the_same_seed_gives_the_same_history() -> None:
    for seed in range(5):
        assert Cluster(seed, library()).run(STARTS).digest == Cluster(seed, library()).run(STARTS).digest


@pytest.mark.parametrize("block", range(2))
def test_a_house_that_is_paused_resumed_and_cancelled_comes_to_an_end(block: int) -> None:
    """D67, D68: whatever is asked for at whatever moment, nothing hangs and the log stays whole."""
    for seed in range(block, SEEDS // 4, 2):
        try:
            told = Cluster(seed, library()).run(STARTS, commands=True)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        assert {state.status for state in told.states.values()} <= {"ok", "cancelled"}, f"seed {seed}"
