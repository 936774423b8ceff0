"""SECURITY.md names tests: each of them exists, in the file that its link leads to."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "SECURITY.md").read_text()


def test_every_test_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", TEXT))
    contracts = (ROOT / "src/noetl/testing/contracts").glob("*.py")  # their tests are methods
    known = {
        name
        for file in (*(ROOT / "tests").rglob("test_*.py"), *contracts)
        for name in re.findall(r"^ *(?:async )?def (test_\w+)", file.read_text(), re.MULTILINE)
    }
    assert len(named) > 40
    assert named - known == set()


def test_every_finding_of_the_review_has_a_test() -> None:
    table = TEXT.partition("## Weaknesses of 0.1.0")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ") and not line.startswith("| weakness")]
    assert len(rows) >= 26
    assert [row for row in rows if not re.search(r"`test_\w+`", row)] == []
