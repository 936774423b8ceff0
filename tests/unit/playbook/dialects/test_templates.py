"""The meaning of a name in a template depends on the step and the task around it."""

from __future__ import annotations

import pytest

from noetl.playbook.migrate import migrate

HEAD = (
    "apiVersion: noetl.io/v2\nkind: Playbook\nworkload: {url: x, city: y, ctx: z}\n"
    "workflow:\n- step: start\n  args: {}\n"
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("tool: {kind: http, url: '{{ url }}'}", "tool: {kind: http, url: '{{ workload.url }}'}"),
        (
            "loop: {in: '{{ city }}', iterator: city}\n  tool: {kind: http, url: '{{ city }}'}",
            "loop: {in: '{{ workload.city }}', iterator: city}\n  tool: {kind: http, url: '{{ iter.city }}'}",
        ),
        (
            "tool: [{kind: noop, name: url}, {kind: http, name: b, x: '{{ url.data }}'}]",
            "tool: [{kind: noop, name: url}, {kind: http, name: b, x: '{{ url.data }}'}]",
        ),
        (
            "tool: {kind: noop, x: '{{ ctx.a }} {{ unknown }}'}",
            "tool: {kind: noop, x: '{{ ctx.a }} {{ unknown }}'}",
        ),
        (
            "tool: {kind: python, code: 'print(f\"{{url}}\")'}",
            "tool: {kind: python, code: 'print(f\"{{url}}\")'}",
        ),
        ("tool: '{{ url }}'", "tool: '{{ workload.url }}'"),
    ],
)
def test_names_get_the_scope_that_they_have_in_their_place_d81(before: str, after: str) -> None:
    assert migrate(f"{HEAD}  {before}\n").text == f"{HEAD}  {after}\n".replace("args: {}", "input: {}")


def test_an_arc_reads_the_outcome_of_the_last_task_d82() -> None:
    text = (
        f"{HEAD}  tool: [{{name: a, kind: noop}}, {{name: b, kind: http}}]\n"
        "  next: {arcs: [{step: end, when: '{{ outcome.result.data.x and event.name }}'}]}\n"
    )
    assert "{{ output.data.x and event.name }}" in migrate(text).text


def test_a_template_over_several_lines_keeps_them() -> None:
    task = "  tool:\n    kind: http\n    body: |\n      a {{ outcome.result\n        .data }}\n\n      b\n"
    text = HEAD + task
    assert migrate(text).text == text.replace("outcome.result\n        .data", "output\n        .data").replace(
        "args: {}", "input: {}"
    )
