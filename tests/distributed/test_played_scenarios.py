"""The engine's scenarios in real houses: embedded, on one server and on two, each comes to what its transcript says."""

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
from tests.distributed.plays import Play, Scenario, answering, scenario
from tests.distributed.processes import Process, Program
from tests.playbooks import kinds
from tests.ports import free_port

SCENARIOS = [
    scenario(path.stem, path.read_text("utf-8"))
    for path in sorted((Path(__file__).parents[1] / "scenarios").glob("*.txt"))
]
AT_ONCE = 16
CLOSE_S = 10.0  # so long a house waits for calls of an execution that is cancelled
# What the API and a server's answers can not bring about; their transcripts are all that there is to them.
NOT_PLAYED = {
    "request_refused": "its playbook has no problems: the transcript itself says that it is refused",
    "pipeline_bad_delay": "the tool http gives back no such part of its own",
    "pause_child_end_is_recorded": "a real child is paused with its parent, so its end does not come meanwhile",
    "pause_then_cancel": "a real child is cancelled with its parent, and its end is on record before the parent's",
}
# Two of its runs go on side by side, and the one that ends last gives the output: in a real house that is chance.
EITHER_ENDS_LAST = {"order_of_writes"}


class Played(NamedTuple):
    found: dict[str, JSON]
    expected: dict[str, JSON]
    beyond: dict[tuple[str, str], int]  # facts that the transcript has not


async def _played(url: str, token: str | None) -> dict[str, Played | str]:
    """All that can be played; a text: what went wrong."""
    seats = asyncio.Semaphore(AT_ONCE)
    async with Client(url, token) as client, answering() as answers:

        async def one(told: Scenario) -> Played | str:
            async with seats:
                play = Play(told, client, answers, kinds())
                try:
                    return Played(await play.play(), play.expected(), dict(play.beyond()))
                except Exception as error:  # noqa: BLE001  # the others are to be told of, too
                    return f"{type(error).__name__}: {error}"

        chosen = sorted((told for told in SCENARIOS if told.name not in NOT_PLAYED), key=_waits, reverse=True)
        made = await asyncio.gather(*map(one, chosen))
    return {told.name: each for told, each in zip(chosen, made, strict=True)}


def _waits(told: Scenario) -> float:
    """The seconds that pass of themselves in it: whoever waits longest begins first, and the others play meanwhile."""
    words = [command.split() for command in told.commands]
    after = sum(float(rest[0]) for verb, *rest in words if verb == "after")
    return after + CLOSE_S * any(verb == "close" for verb, *_ in words)


def _wrong(played: dict[str, Played | str]) -> dict[str, object]:
    """Scenarios that came to something else, and what."""
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
    """The embedded house with the API in front."""
    port = free_port()
    command = [NOETL, "server", "--db", str(folder / "noetl.db"), "--port", str(port)]
    environment = {**os.environ, "NOETL_ALLOW_NETWORKS": "127.0.0.0/8"}
    server = Process(Program("embedded", command, environment, folder, "noetl: ready"))
    server.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.close()


def test_the_embedded_house_plays_every_scenario_as_it_is_told(tmp_path: Path) -> None:
    with _embedded(tmp_path) as url:
        played = asyncio.run(_played(url, None))
    assert _wrong(played) == {}
    assert len(played) == len(SCENARIOS) - len(NOT_PLAYED)


@pytest.mark.parametrize("servers", [1, 2])
def test_a_distributed_house_plays_every_scenario_as_it_is_told(servers: int, tmp_path: Path) -> None:
    with open_cluster(tmp_path, ClusterSize(servers=servers, workers=2, slots=32)) as cluster:
        played = asyncio.run(_played(cluster.url(), cluster.token))
    assert _wrong(played) == {}
    assert len(played) == len(SCENARIOS) - len(NOT_PLAYED)
