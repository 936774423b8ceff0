"""Every decision of the language that is built so far has a test that names it."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]

# Documents, templates, scopes, shapes and migration; the others join as the engine, control and tools are built.
BUILT = [
    *range(1, 16), 17, 18, 19, 20, 21, 23, 24, 25, 26, 28, 29, 36, 37, 38, 39, 40, 41, 45, 47, 53, 54, 57, 59, 60, 61,
    63, 64, 72, 73, 78, 79, 80, 81, 82, 83, 84, 85, 87, 89, 90,
]  # fmt: skip


def test_every_decision_that_is_built_is_named_by_a_test() -> None:
    text = "\n".join(path.read_text() for path in TESTS.rglob("*.py") if path != Path(__file__))
    named = {int(number) for number in re.findall(r"(?:\b|_)[dD](\d{1,2})(?!\d)", text)}
    assert sorted(set(BUILT) - named) == []
