"""The examples are what we would write ourselves: no errors, no warnings, sound."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.checks.checker import check
from tests.playbooks import kinds

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_sound_and_gives_no_warning(path: Path) -> None:
    checked = check(path.read_bytes(), kinds(), path.name)
    assert [str(problem) for problem in checked.problems if problem.severity != "info"] == []
    assert checked.verdict == "sound"
