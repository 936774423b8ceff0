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

# The keys of the examples that have no effect, in their order: placeholders of the documents, alternatives of which
# another one was chosen, and settings that another key makes useless.
NO_EFFECT = {
    "000_6.2_eval_structure": ["attempts", "backoff", "delay", "to"],
    "001_2.1_step": ["spec"],  # of an arc
    "001_6.1_eval_syntax": ["attempts", "backoff", "delay", "to"],
    "002_2.2_executor": ["profile"],
    "002_2.A_executor_short": ["profile"],
    "002_3.2_next_router": ["policy"],
    "002_8_loop": ["max_in_flight"],
    "003_5.1_executor_policy": ["profile", "resources"],
    "003_5.2.1_admission": ["mode"],
    "003_5.2.2_lifecycle": ["events"],
    "003_5.3_loop_policy": ["max_in_flight"],
    "003_5.4_each_directive": ["mode", "on_unmatched", "before", "after", "finally"],
    "003_5.4_task_policy": ["mode", "on_unmatched", "before", "after", "finally", "to"],
    "003_5.5_next_router": ["policy"],
}


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.stem)
def test_the_check_reports_every_key_that_has_no_effect_d100_d101(path: Path) -> None:
    text = migrate(path.read_text(), path.name).text
    found = [each for each in check(text, kinds(), path.name).problems if each.code in ("reserved", "no-effect")]
    lines = text.splitlines()
    keys = [lines[each.at.line - 1][each.at.column - 1 :].partition(":")[0] for each in found]
    assert keys == NO_EFFECT.get(path.stem, [])


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
