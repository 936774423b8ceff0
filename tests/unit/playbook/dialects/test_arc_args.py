"""The payload of tokens is stored in `ctx` and bound as `input` (004 §10)."""

from __future__ import annotations

import pytest

from noetl.playbook.dialects.arc_args import Inbox, identifier, inboxes, passed_on
from noetl.playbook.dialects.layout.reader import read
from noetl.playbook.dialects.layout.tree import Map


def found(workflow: str, executor: str = "{}") -> dict[str, Inbox]:
    layout = read(f"executor: {executor}\nworkflow: {workflow}\n", "t.yaml")
    assert layout is not None
    assert isinstance(layout.root, Map)
    return inboxes(layout.root)


@pytest.mark.parametrize(("name", "made"), [("a-b", "a_b"), ("1st", "_1st"), ("a b.é", "a_b__"), ("", "step")])
def test_a_name_of_a_step_becomes_a_part_of_a_path(name: str, made: str) -> None:
    assert identifier(name) == made


def test_two_steps_never_share_a_place_in_ctx() -> None:
    assert [inbox.path for inbox in found("[{step: a-b}, {step: a_b}, {step: a.b}]").values()][:3] == [
        "ctx.a_b_input",
        "ctx.a_b_2_input",
        "ctx.a_b_3_input",
    ]


def test_a_key_is_sure_when_every_arc_brings_it_and_no_request_starts_the_step() -> None:
    known = found(
        "[{step: start, next: [{step: a, args: {x: 1, y: 2}}, {step: b, args: {x: 1}}]},"
        " {step: a, next: [{step: b, args: {x: 1}}, c, {step: start, args: {x: 1}}]},"
        " {step: b, next: {arcs: [{step: a, args: {x: 1}}]}}, {step: c}]"
    )
    assert {name: inbox.sure for name, inbox in known.items()} == {
        "start": frozenset(),
        "a": {"x"},
        "b": {"x"},
        "c": frozenset(),
    }


def test_a_computed_target_makes_every_key_unsure_d41() -> None:
    known = found("[{step: start, next: [{step: a, args: {x: 1}}, {step: '{{ ctx.x }}'}]}, {step: a}]")
    assert known["a"].sure == frozenset()


def test_the_entry_step_is_started_by_the_request_d5() -> None:
    known = found("[{step: a}, {step: start}]", "{spec: {entry_step: a}}")
    assert [known["a"].starts, known["start"].starts] == [True, False]


def test_reads_are_those_of_the_step_outside_its_own_args() -> None:
    known = found(
        "[{step: start, args: {a: '{{ args.own }}'},"
        " tool: {kind: noop, input: ['{{ args.x }}', '{{ token.args.y }}']},"
        " next: [{step: end, when: '{{ args.z }}'}]}]"
    )
    assert list(known["start"].reads) == ["x", "y", "z"]


def test_in_v10_an_arc_passes_on_what_a_later_step_reads_d96() -> None:
    """The payload of an arc is merged over that of the token before it."""
    workflow = (
        "[{step: start, next: {arcs: [{step: a, args: {x: 1, y: 2}}, {step: c, args: {y: 1}}]}},"
        " {step: a, next: {arcs: [{step: b, args: {y: 3}}]}},"
        " {step: b, tool: {kind: noop, input: ['{{ args.x }}', '{{ args.z }}']}, next: {arcs: [{step: c}]}},"
        " {step: c, tool: {kind: noop, input: '{{ args.y }} {{ args.x | default(1) }}'}}]"
    )
    layout = read(f"workflow: {workflow}\n", "t.yaml")
    assert layout is not None
    assert isinstance(layout.root, Map)
    known = inboxes(layout.root, merges=True)
    assert {name: list(inbox.needs) for name, inbox in known.items()} == {
        "start": [],
        "a": ["x"],
        "b": ["x", "z", "y"],
        "c": ["y", "x"],
    }
    assert {name: sorted(inbox.sure) for name, inbox in known.items()} == {
        "start": [],
        "a": ["x", "y"],
        "b": ["x", "y"],
        "c": ["y"],
    }
    assert passed_on(known["a"], known["b"], frozenset({"y"})) == ["x"]
    assert passed_on(known["b"], known["c"], frozenset()) == ["y", "x"]
    assert [name for name, inbox in known.items() if inbox.resets] == ["c"]


def test_in_v2_a_payload_is_not_passed_on_d96() -> None:
    known = found(
        "[{step: start, next: [{step: a, args: {x: 1}}]}, {step: a, next: [b]},"
        " {step: b, tool: {kind: noop, input: '{{ args.x | default(0) }}'}}]"
    )
    assert passed_on(known["a"], known["b"], frozenset()) == []
    assert (list(known["b"].delivered), known["b"].resets) == ([], False)
