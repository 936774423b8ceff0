"""What the seed documents tell a validator to reject and to warn of, each with its exact code and position.

000 §13, 002 §12, 004 §9, and related cases; the fixtures are otherwise clean.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.checks.checker import check
from tests.playbooks import kinds

REJECTS = Path(__file__).parents[2] / "fixtures" / "rejects"

EXPECTED = {
    "000_13_duplicate_steps": ("error", "duplicate-step", 17, 11),
    "000_13_loop_without_in": ("error", "missing-key", 9, 5),
    "000_13_loop_without_iterator": ("error", "missing-key", 11, 5),
    "000_13_no_start": ("error", "no-start", 7, 1),
    "000_13_root_vars": ("error", "old-dialect", 7, 1),
    "000_13_unknown_kind": ("error", "unknown-kind", 12, 13),
    "000_13_unknown_step": ("error", "unknown-step", 17, 17),
    "002_1.1_eval": ("error", "old-dialect", 16, 9),
    "002_1.1_other_condition": ("error", "unknown-key", 16, 11),
    "002_12_arc_without_step": ("error", "missing-key", 13, 11),
    "002_12_arcs_not_a_list": ("error", "wrong-type", 12, 7),
    "002_12_ctx_in_parallel_loop": ("warning", "parallel-ctx", 21, 11),
    "002_12_ctx_in_parallel_loop_rule": ("warning", "parallel-ctx", 27, 23),
    "002_12_duplicate_given_name": ("error", "duplicate-task", 11, 15),
    "002_12_duplicate_tasks": ("error", "duplicate-task", 12, 15),
    "002_12_else_without_then": ("error", "missing-then", 21, 25),
    "002_12_expr": ("error", "old-dialect", 19, 17),
    "002_12_jump_without_target": ("error", "missing-key", 20, 23),
    "002_12_missing_else": ("warning", "no-else", 18, 13),
    "002_12_neither_tool_nor_next": ("warning", "empty-step", 14, 5),
    "002_12_next_is_a_list": ("error", "old-dialect", 11, 5),
    "002_12_next_is_text": ("error", "bad-next", 11, 5),
    "002_12_next_without_arcs": ("error", "missing-key", 11, 5),
    "002_12_null_else": ("error", "missing-then", 21, 17),
    "002_12_policy_is_a_list": ("error", "bad-policy", 17, 11),
    "002_12_policy_is_text": ("error", "bad-policy", 13, 11),
    "002_12_policy_without_rules": ("error", "missing-key", 17, 11),
    "002_12_root_vars": ("error", "old-dialect", 7, 1),
    "002_12_rule_without_do": ("error", "missing-do", 20, 23),
    "002_12_rule_without_then": ("error", "missing-then", 19, 17),
    "002_12_rules_not_a_list": ("error", "wrong-type", 18, 13),
    "002_12_step_when": ("error", "old-dialect", 17, 5),
    "002_12_unknown_directive": ("error", "bad-value", 20, 29),
    "002_12_unknown_jump_target": ("error", "unknown-task", 20, 39),
    "002_12_unknown_next_mode": ("error", "bad-value", 13, 15),
    "002_2.A_keychain_under_executor": ("error", "unknown-key", 9, 3),
    "002_3.2_step_next_mode": ("error", "old-dialect", 10, 7),
    "002_4.2_do_in_admission": ("error", "control-outside-task", 14, 38),
    "002_4.2_do_in_step_policy": ("error", "control-outside-task", 11, 9),
    "003_7.4_task_label": ("error", "old-dialect", 10, 9),
    "004_2.5_set_ctx": ("error", "old-dialect", 25, 21),
    "004_2.5_set_iter": ("error", "old-dialect", 25, 21),
    "004_6.2_set_without_scope": ("error", "bad-set-target", 12, 7),
    "004_6.2_set_workload": ("error", "bad-set-target", 14, 7),
    "004_7.5_read_through_reference": ("error", "ref-read-through", 24, 23),
    "004_9.1_tool_is_text": ("error", "wrong-type", 9, 11),
    "004_9.2_arc_input": ("error", "payload-on-arc", 14, 11),
    "004_9.3_input_on_loop": ("error", "unknown-key", 14, 7),
    "004_9.3_set_on_next": ("error", "unknown-key", 12, 7),
    "004_9.4_set_in_step_spec": ("error", "set-under-spec", 10, 7),
    "004_9.4_set_in_task_spec": ("error", "set-under-spec", 13, 11),
    "004_9.5_ref_target_gets_constant": ("error", "ref-expected", 16, 23),
    "004_9.5_ref_target_gets_data": ("error", "ref-expected", 16, 23),
    "004_9.6_input_gets_ref": ("error", "ref-unexpected", 22, 7),
    "004_9.6_target_gets_ref": ("error", "ref-unexpected", 16, 7),
    "004_9.7_output_result": ("error", "old-dialect", 16, 22),
    "004_9.7_result": ("error", "old-dialect", 16, 22),
    "004_9.8_outcome": ("error", "old-dialect", 19, 27),
    "004_9.9_arc_args": ("error", "old-dialect", 16, 11),
    "004_9.9_args_read": ("error", "old-dialect", 16, 26),
    "004_9.9_step_args": ("error", "old-dialect", 11, 5),
    "004_9.9_task_args": ("error", "old-dialect", 14, 9),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_rule_of_the_seeds_is_told_at_its_place(name: str) -> None:
    found = check((REJECTS / f"{name}.yaml").read_bytes(), kinds(), name)
    told = [
        (each.severity, each.code, each.at.line, each.at.column) for each in found.problems if each.severity != "info"
    ]
    assert told == [EXPECTED[name]]


def test_every_fixture_is_expected_on_the_line_that_it_marks() -> None:
    marked = {}
    for path in REJECTS.glob("*.yaml"):
        lines = path.read_text().splitlines()
        marked[path.stem] = [number for number, line in enumerate(lines, 1) if "# <- wrong" in line]
    assert marked == {name: [line] for name, (_, _, line, _) in EXPECTED.items()}
