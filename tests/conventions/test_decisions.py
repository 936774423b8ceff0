"""Every decision of the language that is built so far has a test that names it."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]

# Sugar that may come later, the envelopes and documents of commands, overrides, and the network of tools.
NOT_BUILT = {62}


def test_every_decision_that_is_built_is_named_by_a_test() -> None:
    files = [*TESTS.rglob("*.py"), *TESTS.rglob("*.txt")]
    text = "\n".join(path.read_text() for path in files if path != Path(__file__))
    named = {int(number) for number in re.findall(r"(?:\b|_)[dD](\d{1,2})(?!\d)", text)}
    assert sorted(set(range(1, 91)) - NOT_BUILT - named) == []
