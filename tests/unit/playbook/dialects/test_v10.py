"""v10 to the canonical form: arcs, inputs, repairs."""

from __future__ import annotations

import pytest

from noetl.playbook.migrate import Migration, migrate

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nworkflow:\n"


def arc(text: str, *, exact: bool = False) -> Migration:
    return migrate(f"{HEAD}- step: start\n  args: {{}}\n  next:\n    arcs:\n    - {text}\n", exact=exact)


def written(migration: Migration) -> str:
    return migration.text.split("    - ")[1].removesuffix("\n")


@pytest.mark.parametrize(
    "text",
    [
        "step: end",
        "{step: end, when: true}",
        "{step: end, when: '{{ ctx.x }}'}",
        "{step: end, when: '{{ iter.x }}'}",
    ],
)
def test_an_arc_that_does_not_ask_how_the_step_ended_is_left_and_noted_d80(text: str) -> None:
    migration = arc(text)
    assert written(migration) == text
    assert [note.code for note in migration.notes] == ["arc-on-failure"]


@pytest.mark.parametrize(
    ("guard", "after"),
    [
        ("{{ event.name == 'step.failed' }}", "{{ event.name == 'step.failed' }}"),
        ("{{ outcome.status == 'error' }}", "{{ output.status == 'error' }}"),
        ("{{ outcome.error.kind == 'x' }}", "{{ output.error.kind == 'x' }}"),
    ],
)
def test_an_arc_that_asks_is_the_same_in_both_dialects_d80(guard: str, after: str) -> None:
    for exact in (False, True):
        migration = arc(f'{{step: end, when: "{guard}"}}', exact=exact)
        assert (written(migration), migration.notes) == (f'{{step: end, when: "{after}"}}', ())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{step: end}", "{step: end, when: \"{{ event.name in ['step.done','step.failed','loop.done'] }}\"}"),
        (
            "{step: end, when: true}",
            "{step: end, when: \"{{ event.name in ['step.done','step.failed','loop.done'] }}\"}",
        ),
        (
            "{step: end, when: '{{ ctx.a or ctx.b }}'}",
            "{step: end, when: \"{{ event.name in ['step.done','step.failed','loop.done'] and (ctx.a or ctx.b) }}\"}",
        ),
    ],
)
def test_exactly_migrated_arcs_are_taken_after_failures_too_d80(before: str, after: str) -> None:
    migration = arc(before, exact=True)
    assert (written(migration), migration.notes) == (after, ())


def test_a_guard_that_is_no_single_expression_can_only_be_noted_d80() -> None:
    migration = arc("{step: end, when: '{{ ctx.a }}{{ ctx.b }}'}", exact=True)
    assert [note.code for note in migration.notes] == ["arc-on-failure"]


def test_args_of_tasks_and_blocks_are_input() -> None:
    text = (
        f"{HEAD}- step: start\n  tool: {{kind: workbook, block: b, args: {{x: 1}}}}\n"
        "workbook:\n  b:\n    args: {x: 2}\n    tool: [{t: {kind: noop, args: {y: '{{ args.x }}'}}}]\n"
    )
    assert migrate(text).text == (
        f"{HEAD}- step: start\n  tool: {{kind: workbook, block: b, input: {{x: 1}}}}\n"
        "workbook:\n  b:\n    input: {x: 2}\n    tool: [{name: t, kind: noop, input: {y: '{{ input.x }}'}}]\n"
    )


def test_old_words_in_the_data_of_workload_stay() -> None:
    step = "- step: start\n  tool: {kind: noop, set_ctx: {}}\n"
    text = "workload: {a: '{{ outcome.x }}'}\nkeychain: []\n" + HEAD + step
    assert migrate(text).text == text.replace(", set_ctx: {}", "")
