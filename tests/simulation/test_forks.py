"""Forks of executions in clusters with faults end like fresh runs, and what they keep is in the log that they refer to."""

from __future__ import annotations

import hashlib
import json
from functools import cache

import pytest

from noetl.control.executions import Control
from noetl.control.forks import ForkPlanner
from noetl.engine.moves import RunTask
from noetl.engine.state import Run
from noetl.fork.plan import Planner
from noetl.fork.recording import RecordedFrame
from noetl.output import Output, failed
from noetl.testing.simulator.cluster import SimCluster, SimComponents, SimFork, SimResult
from noetl.testing.simulator.loop import SimLoop
from noetl.testing.simulator.ports import SimClock
from tests.simulation.playbooks import EDITS
from tests.simulation.test_simulation import programs
from tests.sizes import FULL, seeds

SEEDS = seeds(1_000)
BLOCKS = 4


class InputCluster(SimCluster):
    """Its tools answer by their input, so that a fork and a fresh run are comparable."""

    async def _tool(self, called: RunTask) -> Output:
        await SimClock(self.loop).sleep(self.loop.random.random() * 2)
        key = json.dumps([called.task.name, called.fields, called.input, called.attempt], sort_keys=True)
        number = int(hashlib.sha256(key.encode()).hexdigest()[:6], 16)
        return failed("http", "random failure", retryable=True) if number % 5 == 0 else Output(data=number % 100)


def ends(result: SimResult, id: str) -> object:
    state = result.states[id]
    return state.status, state.ctx, state.end_output and state.end_output.data


@cache
def fresh(path: str) -> object:
    return ends(InputCluster(0, programs(), calm=True).run({"e": (path, {})}), "e")


def disturb(seed: int, components: SimComponents | None = None) -> SimResult:
    """Raises AssertionError if the fork, or the fork of the fork, is wrong."""
    random = SimLoop(seed).random  # type: ignore[abstract]  # only its random numbers are used
    path, again = random.choice([*EDITS, "pages"]), random.choice(list(EDITS))
    forks = {
        "f": SimFork("e", path, random.random() * 30),
        "g": SimFork("f", again, random.random() * 20),
    }
    result = InputCluster(seed, programs(), components=components).run({"e": ("pages", {})}, forks=forks)
    assert ends(result, "e") == fresh("pages")
    assert ends(result, "f") == fresh(path), f"fork to {path}"
    assert ends(result, "g") == fresh(again), f"fork of a fork to {again}"
    return result


@pytest.mark.parametrize("block", range(BLOCKS))
def test_forks_in_a_cluster_with_faults_end_like_fresh_runs(block: int) -> None:
    for seed in range(SEEDS * block // BLOCKS, SEEDS * (block + 1) // BLOCKS):
        try:
            disturb(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error


class KeepsChangedInput(Planner):
    """A frame is kept although it reads other values."""

    def _find(self, run: Run, frame: str, entry: dict[str, str]) -> RecordedFrame | None:
        return super()._find(run, frame, entry) or self._old.frames.get(frame)


class ConeTooSmall(Planner):
    """What depends on a repeated run through `ctx` is kept."""

    def _first_entry(self, frame: RecordedFrame) -> dict[str, str]:
        return _without_ctx(super()._first_entry(frame))

    def _find(self, run: Run, frame: str, entry: dict[str, str]) -> RecordedFrame | None:
        return super()._find(run, frame, _without_ctx(entry))


def _without_ctx(entry: dict[str, str]) -> dict[str, str]:
    return {path: value for path, value in entry.items() if not path.startswith("ctx")}


class KeepsTwice(Planner):
    """A recorded frame answers for two frames."""

    def _find(self, run: Run, frame: str, entry: dict[str, str]) -> RecordedFrame | None:
        self._used.clear()
        return super()._find(run, frame, entry) or next(
            (each for each in self._old.frames.values() if each.pipeline == run.step and each.over), None
        )


class KeepsChangedText(Planner):
    """Frames are kept although their tasks have changed."""

    def _same_text(self, name: str, *, block: bool, over: bool = False) -> bool:
        super()._same_text(name, block=block, over=over)
        return name in (self._program.blocks if block else self._program.steps)


@pytest.mark.skipif(not FULL, reason="it takes a minute")
@pytest.mark.parametrize("bug", [KeepsChangedInput, ConeTooSmall, KeepsTwice, KeepsChangedText])
def test_a_planted_bug_is_found(bug: type[Planner]) -> None:
    class Planted(Control):
        def fork_planner(self) -> ForkPlanner:
            return ForkPlanner(self.store, self.programs, planner=bug)

    assert any(_fails(seed, SimComponents(control=Planted)) for seed in range(100))


def _fails(seed: int, components: SimComponents) -> bool:
    try:
        disturb(seed, components)
    except AssertionError:
        return True
    return False
