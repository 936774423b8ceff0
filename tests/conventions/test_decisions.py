"""A test names each implemented decision of the language."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]

# Not implemented or not testable: later syntax, envelopes and documents of commands, overrides, the network of tools.
NOT_BUILT = {62}


def test_a_test_names_every_implemented_decision() -> None:
    files = [*TESTS.rglob("*.py"), *TESTS.rglob("*.txt")]
    text = "\n".join(path.read_text() for path in files if path != Path(__file__))
    named = {int(number) for number in re.findall(r"(?:\b|_)[dD](\d{1,2})(?!\d)", text)}
    assert sorted(set(range(1, 91)) - NOT_BUILT - named) == []
