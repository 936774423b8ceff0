"""Facts are permanent: each can be written and read again, and has the name that the language defines."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import msgspec

from noetl.engine.facts import Fact
from noetl.testing.scenario import Player, _parts
from tests.playbooks import kinds

SCENARIOS = sorted((Path(__file__).parents[2] / "scenarios").glob("*.txt"))


def test_every_fact_of_every_scenario_is_read_as_it_was_written() -> None:
    seen = set()
    for path in SCENARIOS:
        _, body, commands = _parts(path.read_text())
        player = Player(body, kinds())
        for _, command in commands:
            player.play(command)
        for event in player.log:
            seen.add(type(event.fact))
            assert msgspec.json.decode(msgspec.json.encode(event.fact), type=Fact) == event.fact
    assert seen == set(get_args(Fact))
