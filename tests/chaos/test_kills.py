"""kill -9 at random moments of a run: no committed fact is lost, no effect counts twice (P1, P2, P3)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from noetl.clock import SystemClock
from noetl.control.deps import ControlSettings
from tests.chaos.crash_workspace import KILLED, CrashWorkspace
from tests.chaos.journey import IN_FLIGHT, Api, serving

COUNT = 500
KILLS = 10  # for each seed
START_S = 0.25  # a process does no work before
EXECUTIONS_MAX = 30  # an upper limit: a run without progress would pass all other checks


class Undisturbed(NamedTuple):
    """The output, the requests and the duration of an execution without kills."""

    output: dict[str, Any]
    paths: frozenset[str]
    seconds: float


def chance(seed: int, turn: int) -> float:
    """A reproducible number from 0 up to 1."""
    digest = hashlib.sha256(f"{seed}/{turn}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


@pytest.fixture
def api() -> Iterator[Api]:
    with serving() as made:
        yield made


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    with serving() as api:
        workspace = CrashWorkspace(tmp_path_factory.mktemp("undisturbed"), api, COUNT)
        clock = SystemClock()
        started = clock.monotonic()
        code, document = workspace.json(*workspace.start)
        seconds = clock.monotonic() - started
        assert (code, document["status"], len(document["steps"])) == (0, "ok", 20), document
        workspace.check_sound("last")
        assert api.repeated() == 0
        return Undisturbed(document["output"], frozenset(api.seen[document["execution_id"]]), seconds)


@pytest.mark.parametrize("seed", range(5))
def test_every_execution_that_is_killed_at_random_moments_ends_as_without_kills(
    seed: int, api: Api, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    workspace = CrashWorkspace(tmp_path, api, COUNT)
    ended: list[str] = []
    kills = turn = retries = 0
    verb = "resume"
    clock, whole_s = SystemClock(), undisturbed.seconds
    while kills < KILLS:
        going_on = workspace.before.last is not None and workspace.before.last not in ended
        moment = START_S + chance(seed, turn) * max(0.0, whole_s - START_S) * 0.8
        arguments = (verb, "last") if going_on else workspace.start
        turn += 1
        begun = clock.monotonic()
        done = workspace.killed_after(moment, *arguments)
        workspace.look()
        verb = "resume"
        if done.returncode == KILLED:
            kills += 1
            continue
        if is_quarantined(done.stdout):
            assert kills >= ControlSettings().lost_max
            verb, retries = "retry", retries + 1
            continue
        ended.append(check_end(done.returncode, done.stdout, api, undisturbed, retries))
        retries = 0
        if not going_on:  # The machine was busier before: at the former pace, most kills would come too late.
            whole_s = clock.monotonic() - begun
        assert len(ended) < EXECUTIONS_MAX
    if workspace.before.last is not None and workspace.before.last not in ended:
        done = workspace.call(verb, "last", "--format", "json")
        while is_quarantined(done.stdout) and retries < KILLS:
            done = workspace.call("retry", "last", "--format", "json")
            retries += 1
        ended.append(check_end(done.returncode, done.stdout, api, undisturbed, retries))
    workspace.check_sound(*ended)
    assert [workspace.call(*words).returncode for words in (("audit",), ("replay", "last"))] == [0, 0]
    assert ended == sorted(id for id, of in workspace.before.parents.items() if of is None)
    assert api.repeated() <= KILLS * IN_FLIGHT


def is_quarantined(stdout: str) -> bool:
    """Whether a call was blamed for the kills: on a busy machine, three may hit the same call before its end."""
    error = json.loads(stdout)["error"]
    return error is not None and error["kind"] == "poison"


def check_end(code: int, stdout: str, api: Api, undisturbed: Undisturbed, retries: int) -> str:
    """Expect the status ok, the right output, and one idempotency key for each effect; `retry` makes new ones."""
    document = json.loads(stdout)
    id: str = document["execution_id"]
    assert (code, document["status"]) == (0, "ok"), document
    assert document["output"] == undisturbed.output
    assert frozenset(api.seen[id]) == undisturbed.paths
    extra = len(api.keys[id]) - len(undisturbed.paths)
    assert 0 <= extra <= retries * IN_FLIGHT, "an effect was repeated with another idempotency key"
    return id
