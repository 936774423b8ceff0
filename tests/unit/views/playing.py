"""Short ways to come by logs: playbooks played by hand, and every scenario that we have."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from noetl.engine import Event
from noetl.engine.facts import Fact
from noetl.testing.scenario import START, Player
from noetl.testing.scenario import played as replayed
from tests.playbooks import kinds

SCENARIOS = sorted((Path(__file__).parents[2] / "scenarios").glob("*.txt"))
NAMES = [path.stem for path in SCENARIOS]  # to choose by: playing them all takes a while


def played(body: str, *commands: str) -> Player:
    player = Player(body, kinds())
    for command in ("start", *commands):
        player.play(command)
    return player


@cache
def scenarios() -> dict[str, Player]:
    return {path.stem: replayed(path.read_text(), kinds()) for path in SCENARIOS}


def logged(*facts: Fact) -> list[Event]:
    """Facts as a log, all of one moment."""
    return [Event(seq, START, fact) for seq, fact in enumerate(facts, 1)]
