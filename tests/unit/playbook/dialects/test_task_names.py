"""Tasks get a `name:` (D8, D73)."""

from __future__ import annotations

import re

import pytest

from noetl.playbook.migrate import migrate

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nworkflow:\n- step: start\n  args: {}\n  tool:\n"
JUMP = "{kind: noop, spec: {policy: {rules: [{else: {then: {do: jump, to: %s}}}]}}}"


def names(tasks: list[str]) -> list[str]:
    text = migrate(HEAD + "".join(f"  - {task}\n" for task in tasks)).text
    return re.findall(r"name: (\w+)", text)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("task_0", ["task_0", "named", "task_2"]),
        ("task_1", ["task_0", "named", "task_2"]),
        ("task_2", ["task_0", "named", "task_2"]),
        ("task_3", ["task_1", "named", "task_3"]),
        ("named", ["task_0", "named", "task_2"]),
        ("nowhere", ["task_0", "named", "task_2"]),
    ],
)
def test_nameless_tasks_are_numbered_as_their_jumps_need_it_d73(target: str, expected: list[str]) -> None:
    assert names([JUMP % target, "{kind: noop, name: named}", "{kind: noop}"]) == expected


def test_a_note_names_the_numbering_d73() -> None:
    migration = migrate(HEAD + "  - kind: noop\n")
    assert [(note.code, note.message) for note in migration.notes] == [
        ("task-names", 'a task without a name has been named "task_0"; tasks are numbered from 0')
    ]


def test_a_single_tool_keeps_the_name_derived_from_its_step_d8() -> None:
    assert (
        "name"
        not in migrate(
            "apiVersion: noetl.io/v2\nkind: Playbook\nworkflow:\n- {step: a, args: {}, tool: {kind: noop}}\n"
        ).text
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("  - a:  # why\n      kind: noop\n", "  - name: a   # why\n    kind: noop\n"),
        ("  - 'a':\n      # first\n      kind: noop\n", "  - name: 'a'\n    # first\n    kind: noop\n"),
        ("  - a: {kind: noop}  # why\n", "  - {name: a, kind: noop}  # why\n"),
        ("  - a: {name: a, kind: noop}\n", "  - {name: a, kind: noop}\n"),
        ("  -\n    a:\n        kind: noop\n    # below\n", "  -\n    name: a\n    kind: noop\n    # below\n"),
        ("  - 'a: b':\n      kind: noop\n", "  - name: 'a: b'\n    kind: noop\n"),
        ("  - true-ish:\n     kind: |\n       x\n", "  - name: true-ish\n    kind: |\n      x\n"),
    ],
)
def test_a_label_becomes_a_name_and_the_body_moves_up_d8(before: str, after: str) -> None:
    assert migrate(HEAD + before).text.split("  tool:\n")[1] == after


def test_the_label_of_a_tool_without_a_list_becomes_its_name_d8() -> None:
    text = migrate(HEAD.removesuffix("\n") + "\n    fetch:\n      kind: noop\n").text
    assert text.split("  tool:\n")[1] == "    name: fetch\n    kind: noop\n"
