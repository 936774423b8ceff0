"""The action of a rule is moved under `then` (D11, D89)."""

from __future__ import annotations

import pytest

from noetl.playbook.dialects.layout.reader import read
from noetl.playbook.dialects.layout.tree import List, Map
from noetl.playbook.dialects.layout.writer import write
from noetl.playbook.dialects.notes import Findings
from noetl.playbook.dialects.rules import rewrite_rule


def rewritten(rule: str, *, v2: bool = False) -> tuple[str, list[str]]:
    layout = read(rule, "t.yaml")
    assert layout is not None
    assert isinstance(layout.root, List)
    body = layout.root.entries[0].value
    assert isinstance(body, Map)
    findings = Findings(layout)
    rewrite_rule(body, findings, v2=v2)
    return write(layout), [note.code for note in findings.notes]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("- else: {do: fail}\n", "- else: {then: {do: fail}}\n"),
        ("- else: { do: fail }\n", "- else: { then: { do: fail } }\n"),
        (
            "- else:  # why\n    # so\n    do: fail\n",
            "- else:  # why\n    then:\n      # so\n      do: fail\n",
        ),
        ("- else:  # why\n  then: {do: fail}\n", "- else:  # why\n    then: {do: fail}\n"),
        ("- else: null\n  # so\n  then:\n    do: fail\n", "- else:\n    # so\n    then:\n      do: fail\n"),
        ("- {else: , then: {do: fail}}\n", "- {else: {then: {do: fail}}}\n"),
        ("- else:\n  do: fail\n", "- else:\n    then:\n      do: fail\n"),
        ("- when: x\n  do: fail  # why\n", "- when: x\n  then:\n    do: fail  # why\n"),
        ("- {when: x, do: retry, attempts: 2}\n", "- {when: x, then: {do: retry, attempts: 2}}\n"),
        ("- when: x\n  to: a\n  then: {do: jump}\n", "- when: x\n  then: {do: jump, to: a}\n"),
    ],
)
def test_keys_beside_then_are_moved_into_it_d11_d89(before: str, after: str) -> None:
    assert rewritten(before) == (after, ["else-repaired"])
    assert rewritten(before, v2=True) == (after, [])


@pytest.mark.parametrize(
    "rule",
    [
        "- else: {then: {do: fail}}\n",
        "- when: x\n  then: {do: fail}\n",
        "- when: x\n  do: fail\n  then: {do: retry}\n",
        "- when: x\n  do: fail\n  then: 5\n",
        "- when: x\n  else:\n  then: {do: fail}\n",
        "- else:\n",
        "- else: continue\n",
        "- else: {}\n",
    ],
)
def test_correct_rules_and_rules_that_cannot_be_repaired_are_unchanged(rule: str) -> None:
    assert rewritten(rule) == (rule, [])


def test_a_rule_without_a_condition_always_matches() -> None:
    assert rewritten("- do: fail\n", v2=True) == ("- when: true\n  then:\n    do: fail\n", ["constant-rule"])


def test_expr_is_when() -> None:
    assert rewritten("- expr: x  # why\n  do: fail\n", v2=True)[0] == "- when: x  # why\n  then:\n    do: fail\n"
