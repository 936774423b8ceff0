"""The scenarios of the engine in real deployments (embedded, one server, two servers) end as in their transcripts."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from noetl.client import Client
from noetl.output import JSON
from tests.distributed.cluster import NOETL, ClusterSize, open_cluster
from tests.distributed.processes import Process, Program
from tests.distributed.scenario_player import Play, Scenario, answering, scenario
from tests.playbooks import kinds
from tests.ports import free_port

SCENARIOS = [
    scenario(path.stem, path.read_text("utf-8"))
    for path in sorted((Path(__file__).parents[1] / "scenarios").glob("*.txt"))
]
AT_ONCE = 16
CLOSE_S = 10.0  # a server waits so long for the calls of a cancelled execution
# Scenarios that need more than API requests and HTTP answers; only the engine tests run them.
NOT_PLAYED = {
    "request_refused": "its playbook has no problems: the transcript itself contains the refusal",
    "pipeline_bad_delay": "the http tool does not return such a field",
    "pause_child_end_is_recorded": "a real child is paused with its parent, so its end does not come meanwhile",
    "limit_measured_by_control": "see tests/unit/control/test_state_limits.py",
    "frame_lost": "a worker must be killed: see tests/chaos/distributed/test_workers.py",
    "frame_lost_in_a_loop": "a worker must be killed: see tests/chaos/distributed/test_workers.py",
    "results_ref_names": "its Ref names the execution of the transcript; in another execution it is data",
    "templates_dates": "its values are dates of the clock",
    "pause_then_cancel": "a real child is cancelled with its parent, and ends before it",
    "input_refused": "the API refuses the request, and records nothing: see tests/api/test_inputs.py",
    "input_of_a_child": "its execution is started as a child: see tests/e2e/test_inputs.py",
    "breakpoint_for_a_child": "a real child is held: see test_debug.py",
    "breakpoint_of_a_parent": "its execution is started as a child: see test_debug.py",
    "breakpoint_of_a_parent_does_not_fit": "its execution is started as a child: see test_debug.py",
    "limit_of_a_task": "it reports single tries: see test_limits.py",
    "limit_of_a_loop_and_a_join": "a real permit is granted before the pause",
    "limit_of_executions": "another execution must hold the limit: see test_limits.py",
    "limit_of_executions_cancelled": "another execution must hold the limit: see test_limits.py",
    "pipeline_tries": "it reports single tries: see tests/e2e/test_tries.py",
    "retried_between_tries": "it reports single tries: see tests/e2e/test_tries.py",
}
# Two of its runs are concurrent, and the last one determines the output, which is random in a real deployment.
EITHER_ENDS_LAST = {"order_of_writes"}


class Played(NamedTuple):
    found: dict[str, JSON]
    expected: dict[str, JSON]
    beyond: dict[tuple[str, str], int]  # facts that are not in the transcript


async def _played(url: str, token: str | None) -> dict[str, Played | str]:
    """Play all scenarios. The value is a text for those that failed."""
    seats = asyncio.Semaphore(AT_ONCE)
    async with Client(url, token) as client, answering() as answers:

        async def one(scenario: Scenario) -> Played | str:
            async with seats:
                play = Play(scenario, client, answers, kinds())
                try:
                    return Played(await play.play(), play.expected(), dict(play.beyond()))
                except Exception as error:  # noqa: BLE001  # the test reports all failures
                    return f"{type(error).__name__}: {error}"

        chosen = sorted((each for each in SCENARIOS if each.name not in NOT_PLAYED), key=_waits, reverse=True)
        made = await asyncio.gather(*map(one, chosen))
    return {scenario.name: each for scenario, each in zip(chosen, made, strict=True)}


def _waits(scenario: Scenario) -> float:
    """The waiting time of a scenario, in seconds: scenarios that wait longest begin first."""
    words = [command.split() for command in scenario.commands]
    after = sum(float(rest[0]) for verb, *rest in words if verb == "after")
    return after + CLOSE_S * any(verb == "close" for verb, *_ in words)


def _wrong(played: dict[str, Played | str]) -> dict[str, object]:
    """The scenarios with other results, and these results."""
    wrong: dict[str, object] = {}
    for name, each in played.items():
        if isinstance(each, str):
            wrong[name] = each
            continue
        keys = {key for key in each.found if each.found[key] != each.expected[key]}
        if name in EITHER_ENDS_LAST:
            keys.discard("output")
        if keys or each.beyond:
            differs = {key: (each.found[key], each.expected[key]) for key in keys}
            wrong[name] = {**differs, "beyond": each.beyond}
    return wrong


@contextmanager
def _embedded(folder: Path) -> Iterator[str]:
    """An embedded runtime with the API."""
    port = free_port()
    command = [NOETL, "server", "--db", str(folder / "noetl.db"), "--port", str(port)]
    environment = {**os.environ, "NOETL_ALLOW_NETWORKS": "127.0.0.0/8"}
    server = Process(Program("embedded", command, environment, folder, "noetl: ready"))
    server.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.close()


def test_an_embedded_runtime_plays_every_scenario_as_in_its_transcript(tmp_path: Path) -> None:
    with _embedded(tmp_path) as url:
        played = asyncio.run(_played(url, None))
    assert _wrong(played) == {}
    assert len(played) == len(SCENARIOS) - len(NOT_PLAYED)


SIZES = [
    ClusterSize(servers=1, workers=2, slots=32),
    ClusterSize(servers=2, workers=2, slots=32),
    ClusterSize(servers=2, workers=0, server_slots=32),
]


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size.servers}-servers-{size.workers}-workers")
def test_a_cluster_plays_every_scenario_as_in_its_transcript(size: ClusterSize, tmp_path: Path) -> None:
    with open_cluster(tmp_path, size) as cluster:
        played = asyncio.run(_played(cluster.url(), cluster.token))
    assert _wrong(played) == {}
    assert len(played) == len(SCENARIOS) - len(NOT_PLAYED)
