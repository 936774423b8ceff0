"""The parts of a playbook are found in any dialect; parts of an unexpected form are ignored."""

from __future__ import annotations

from noetl.playbook.dialects import parts
from noetl.playbook.dialects.layout.reader import read
from noetl.playbook.dialects.layout.tree import Map


def root(text: str) -> Map:
    layout = read(text, "t.yaml")
    assert layout is not None
    assert isinstance(layout.root, Map)
    return layout.root


def test_steps_and_blocks_are_found() -> None:
    found = parts.steps(root("workflow: [{step: a}, 5, {b: 1}]\nworkbook: {c: {tool: {}}, d: 1}\n"))
    assert [(step.name, step.block) for step in found] == [("a", False), ("", False), ("c", True)]


def test_tasks_are_found_in_all_their_forms() -> None:
    body = root("tool: [{kind: http, name: a}, {b: {kind: noop}}, {kind: noop}, text, {c: 1}]\n")
    assert [(task.name, task.kind, task.label is not None) for task in parts.tasks(body)] == [
        ("a", "http", False),
        ("b", "noop", True),
        (None, "noop", False),
        (None, None, False),
    ]
    assert [task.name for task in parts.tasks(root("tool: {kind: noop, name: x}\n"))] == ["x"]
    assert parts.tasks(root("tool: 5\n")) == parts.tasks(root("a: 1\n")) == []


def test_arcs_are_found_in_all_their_forms() -> None:
    for text in ("next: [{step: a}, b]", "next: {arcs: [{step: a}]}", "next: {step: a}"):
        assert [arc.text("step") for arc in parts.arcs(root(text))] == ["a"]
    assert parts.arcs(root("next: a")) == parts.arcs(root("next: {}")) == []


def test_rules_are_found_old_and_new() -> None:
    for text in ("eval: [{do: fail}]", "spec: {policy: {rules: [{do: fail}]}}"):
        policy = parts.policy(root(text))
        assert policy is not None
        assert [rule.text("do") for rule in policy.rules] == ["fail"]
    assert parts.policy(root("spec: {policy: []}")) is None


def test_the_entry_step_is_that_of_the_executor_or_start_d5() -> None:
    assert parts.entry_step(root("executor: {spec: {entry_step: a}}")) == "a"
    assert parts.entry_step(root("executor: {}")) == "start"


def test_iterators_of_one_loop_or_of_several() -> None:
    assert parts.StepPart("a", root("loop: {iterator: x}")).iterators == ("x",)
    assert parts.StepPart("a", root("loop: [{iterator: x}, {iterator: y}]")).iterators == ("x", "y")
    assert parts.StepPart("a", root("loop: 5")).iterators == ()


def test_code_of_python_and_names_of_steps_are_no_templates_d83() -> None:
    body = root("step: '{{ a }}'\ntool: [{kind: python, code: '{{ b }}', x: c}, {kind: shell, code: d}]\n")
    assert [leaf.text for _, leaf in parts.texts(body)] == ["python", "c", "shell", "d"]
