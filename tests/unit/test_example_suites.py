"""The test files of the examples pass, and run every step of their playbooks."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.testing import run_tests

SUITES = sorted((Path(__file__).parents[2] / "examples" / "tests").glob("*.test.yaml"))


def test_there_are_suites() -> None:
    assert len(SUITES) >= 3


@pytest.mark.parametrize("file", SUITES, ids=lambda file: file.name)
def test_the_tests_of_an_example_pass(file: Path) -> None:
    found = run_tests(file)
    assert found
    assert {each.name: [str(mismatch) for mismatch in each.mismatches] for each in found if not each.passed} == {}
