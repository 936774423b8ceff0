"""The dialect of a document is detected from its markers."""

from __future__ import annotations

from textwrap import dedent

import pytest

from noetl.playbook.dialects.detect import DetectedDialect, detect
from noetl.playbook.dialects.layout.reader import read

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nworkload: {url: x}\nworkflow:\n- step: start\n"


def detected(lines: str, head: str = HEAD) -> DetectedDialect:
    body = "".join(f"  {line}\n" for line in dedent(lines).strip().split("\n"))
    layout = read(head + body, "t.yaml")
    assert layout is not None
    return detect(layout)


RULES = "tool: {kind: noop, spec: {policy: {rules: [{when: '{{ %s }}', then: {do: fail}}]}}}"


@pytest.mark.parametrize(
    ("lines", "dialect"),
    [
        ("when: '{{ true }}'", "v2"),
        ("tool: [{while: {when: '{{ ctx.x }}', tool: {kind: noop}}}]", "canonical"),
        ("tool: [{while: {kind: noop}}]", "v10"),
        ("spec: {next_mode: inclusive}", "v2"),
        ("tool: [{a: {kind: noop, eval: []}}]", "v2"),
        ("tool: {kind: noop, command: '{{ vars.x }}'}", "v2"),
        ("tool: {kind: noop, set_vars: {}}", "v2"),
        ("tool: [{a: {kind: noop}}]\nnext: [{step: end}]", "v2"),
        ("next: [{step: a, when: \"{{ outcome.status == 'success' }}\"}]", "v2"),
        ("next: [{step: a, when: \"{{ outcome.status == 'ok' }}\"}]", "v10"),
        (RULES % 'outcome.status == "success"', "v10"),
        (RULES % "outcome.status", "v10"),
        ("tool: {kind: noop, set_ctx: {}}", "v10"),
        ("tool: {kind: noop, args: {}}", "v10"),
        ("tool: [{a: {kind: noop}}]", "v10"),
        ("args: {}", "v10"),
        ("next: end", "v10"),
        ("next: {step: end}", "v10"),
        ("next: {arcs: [{step: end, args: {}}]}", "v10"),
        ("tool: {kind: http, url: '{{ url }}'}", "v10"),
        ("tool: {kind: http, url: '{{ token.args.x }}'}", "v10"),
        ("tool: {kind: noop, set: {}}", "canonical"),
        ("input: {}\ntool: {kind: http, url: '{{ url }}'}", "canonical"),
        (RULES % "output.status", "canonical"),
        ("tool: {kind: noop}\nnext: {arcs: [{step: end}]}", "canonical"),
        ("tool: [{kind: noop}]", "canonical"),
        ("tool: {kind: python, code: 'f\"{{args}}\"'}", "canonical"),
        ("tool: {kind: shell, sh: '{% for args in ctx.x %}{{ args }}{% endfor %}'}", "canonical"),
    ],
)
def test_a_dialect_is_known_by_its_signs_d1(lines: str, dialect: str) -> None:
    found = detected(lines)
    assert (found.dialect, found.mixed) == (dialect, None)


@pytest.mark.parametrize(
    ("lines", "old", "new"),
    [
        ("when: '{{ true }}'\ninput: {}", "step.when", "step.input"),
        ("when: '{{ true }}'\nnext: {arcs: []}", "step.when", "next.arcs"),
        ("when: '{{ true }}'\nspec: {policy: {admit: {rules: []}}}", "step.when", "step.spec.policy.admit"),
        (
            "tool: [{kind: noop, eval: []}, {kind: noop, spec: {policy: {rules: []}}}]",
            "eval",
            "spec.policy.rules",
        ),
        (RULES % "output.status == outcome.status", "outcome in a template", "output in a template"),
        ("tool: {kind: noop, set_ctx: {}}\nset: {}", "set_ctx", "set"),
        ("next: {arcs: [{step: a, args: {}, set: {}}]}", "arc.args", "set"),
    ],
)
def test_markers_of_two_dialects_are_reported_with_both_positions_d1(lines: str, old: str, new: str) -> None:
    mixed = detected(lines).mixed
    assert mixed is not None
    assert (mixed[0].what, mixed[1].what) == (old, new)


@pytest.mark.parametrize(
    "head",
    ["workflow:\n- step: start\n", "apiVersion: noetl.io/v1\nkind: Playbook\nworkflow:\n- step: start\n"],
)
def test_a_document_without_its_version_is_old_unless_something_in_it_is_canonical(head: str) -> None:
    assert detected("tool: {kind: noop}", head).dialect == "v10"
    assert detected("tool: {kind: noop, set: {}}", head).dialect == "canonical"


@pytest.mark.parametrize(
    ("rule", "broken"),
    [
        ("{else: {do: fail}}", True),
        ("{else: , then: {do: fail}}", True),
        ("{else: {then: {do: fail}}}", False),
        ("{else: }", False),
        ("{when: '{{ true }}', else: , then: {do: fail}}", False),
    ],
)
def test_an_else_that_can_be_repaired_is_seen_in_every_dialect_d11_d89(rule: str, broken: bool) -> None:
    found = detected(f"tool: {{kind: noop, set: {{}}, spec: {{policy: {{rules: [{rule}]}}}}}}")
    assert (found.dialect, found.has("repair")) == ("canonical", broken)


def test_a_document_that_is_no_mapping_has_no_signs() -> None:
    layout = read("- a\n", "t.yaml")
    assert layout is not None
    assert detect(layout) == DetectedDialect("canonical", ())
