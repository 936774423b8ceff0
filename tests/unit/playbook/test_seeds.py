"""Every example of the five seed documents migrates from its own dialect, and the result has no errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.checks.checker import check
from noetl.playbook.migrate import migrate
from tests.playbooks import kinds

SEEDS = sorted((Path(__file__).parents[2] / "fixtures" / "seeds").glob("*.yaml"))
DIALECTS = {
    "000": {"v2"},
    "001": {"v2"},
    "002": {"v10", "canonical"},
    "003": {"v10", "canonical"},
    "004": {"canonical"},
}

# The warnings that the examples of the documents are expected to have.
WARNED = {"reserved", "no-effect", "retry-without-delay", "no-else"}


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.stem)
def test_an_example_migrates_and_checks_clean(path: Path) -> None:
    migrated = migrate(path.read_text(), path.name)
    assert migrated.dialect in DIALECTS[path.name[:3]]
    checked = check(migrated.text, kinds(), path.name)
    assert [str(problem) for problem in checked.errors] == []
    assert {problem.code for problem in checked.problems if problem.severity == "warning"} <= WARNED
    assert checked.verdict == "sound"


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.stem)
def test_migrating_twice_changes_nothing_more(path: Path) -> None:
    once = migrate(path.read_text(), path.name)
    again = migrate(once.text, path.name)
    assert (again.text, again.dialect, again.changed) == (once.text, "canonical", False)


def test_all_five_documents_are_there() -> None:
    assert {path.name[:3] for path in SEEDS} == set(DIALECTS)
