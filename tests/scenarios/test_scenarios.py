"""The engine makes the decisions of every scenario, fact by fact."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.testing.scenario import replay
from tests.playbooks import kinds

SCENARIOS = sorted(Path(__file__).parent.rglob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_engine_follows_a_scenario(path: Path, request: pytest.FixtureRequest) -> None:
    told = path.read_text()
    now = replay(told, kinds())
    if request.config.getoption("--rewrite", default=False):
        path.write_text(now)
    assert now == told
