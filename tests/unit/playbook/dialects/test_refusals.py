"""Constructs that cannot be migrated are rejected with advice; similar names are accepted (D61)."""

from __future__ import annotations

import pytest

from noetl.playbook.dialects.layout.reader import read
from noetl.playbook.dialects.layout.tree import Map
from noetl.playbook.dialects.notes import Findings
from noetl.playbook.dialects.v10 import refuse_reserved


def refused(step: str) -> list[str]:
    layout = read(f"workflow: [{step}]\n", "t.yaml")
    assert layout is not None
    assert isinstance(layout.root, Map)
    findings = Findings(layout)
    refuse_reserved(layout.root, findings)
    return [problem.message.split('"')[1] for problem in findings.problems]


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("{case: []}", ["case"]),
        ("{tool: {pipe: []}}", ["pipe"]),
        ("{tool: [{pipe: {kind: noop}}]}", []),
        ("{tool: [{pipe: {a: {kind: noop}}}]}", ["pipe"]),
        ("{tool: {kind: http, retry: 3, sink: {}}}", ["retry", "sink"]),
        ("{tool: {kind: sink}}", ["sink"]),
        ("{tool: {kind: http, spec: {retry: 3}}}", []),
        ("{tool: {kind: http, input: {retry: 3, case: 1}}}", []),
        ("{next: {arcs: [{step: a, sink: 1}]}}", ["sink"]),
    ],
)
def test_reserved_words_are_refused_where_they_are_keys_of_the_language_d61(step: str, words: list[str]) -> None:
    assert refused(step) == words
