"""Forms of `wait` tasks: a wrong declaration is found before it runs."""

from __future__ import annotations

from tests.playbooks import checked, problem_places

FORM = """\
workflow:
- step: start
  tool:
    kind: wait
    signal: go
    form:
      amount: {type: number, max: 5, desc: how much}
      kind: {type: string, enum: [a, b], default: c}
      approved: {type: boolean}
      days: {type: date, pattern: x}
      limit: {type: number, max: "{{ workload.max }}"}
"""


def test_a_wrong_field_of_a_form_is_reported_at_its_name() -> None:
    found = checked(FORM + "workload: {max: 1}\n").problems
    assert problem_places(found) == [("bad-value", 11, 7), ("bad-value", 12, 7), ("bad-value", 13, 7)]
    assert [each.message for each in found] == [
        'expected one of "a", "b"',
        '"approved" is part of every answer: choose another name',
        '"pattern" is not valid with type: date; it belongs to string',
    ]
