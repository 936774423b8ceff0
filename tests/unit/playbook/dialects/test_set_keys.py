"""`set_…` become one `set` (004 §6, D53, D54, D72)."""

from __future__ import annotations

import pytest

from noetl.playbook.dialects.layout.reader import read
from noetl.playbook.dialects.layout.tree import Map
from noetl.playbook.dialects.layout.writer import write
from noetl.playbook.dialects.notes import Findings
from noetl.playbook.dialects.set_keys import SetRewriter, is_reference


def gathered(text: str, inbox: str | None = None) -> tuple[str, list[str]]:
    layout = read(text, "t.yaml")
    assert layout is not None
    assert isinstance(layout.root, Map)
    findings = Findings(layout)
    SetRewriter(findings, layout.root.map("loop")).gather(layout.root, inbox)
    return write(layout), [note.code for note in findings.notes]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("set_ctx: {a: 1}\n", "set: {ctx.a: 1}\n"),
        ("set_iter: { 'a': 1 }  # why\n", "set: { 'iter.a': 1 }  # why\n"),
        ("set_vars:\n  # one\n  a: 1\n", "set:\n  # one\n  step.a: 1\n"),
        ("set_ctx: {a: 1}\nset_iter: {b: 2}\n", "set: {ctx.a: 1, iter.b: 2}\n"),
        ("set_ctx: {a: 1}  # x\nset_iter: {b: 2}  # y\n", "set:\n  ctx.a: 1  # x\n  iter.b: 2  # y\n"),
        (
            "set_ctx:\n  a: 1\n# x\nset_iter: {b: 2, c: 3}\n",
            "set:\n  ctx.a: 1\n  # x\n  iter.b: 2\n  iter.c: 3\n",
        ),
        ("set_ctx: {a: 1}\nset_iter:  # x\n  b: |\n    y\n", "set:\n  ctx.a: 1\n  # x\n  iter.b: |\n    y\n"),
        ("do: x\nset_ctx: {}  # gone\nto: y\n", "do: x\n# gone\nto: y\n"),
        ("do: x\nset_ctx:\n", "do: x\n"),
        ("{do: x, # a\n set_ctx: {}, # b\n to: y}\n", "{do: x, # a\n  # b\n to: y}\n"),
        ("{do: x, # a\n set_ctx: {} # b\n}\n", "{do: x # a\n  # b\n}\n"),
        ("{set_ctx: {a: 1}, # a\n set_iter: {b: 2}}\n", "{set: {ctx.a: 1, iter.b: 2} # a\n }\n"),
        ("set_ctx: {a: {b: [1]}}\n", "set: {ctx.a: {b: [1]}}\n"),
    ],
)
def test_old_writes_become_one_set_with_their_comments(before: str, after: str) -> None:
    assert gathered(before) == (after, [])


def test_prev_is_kept_in_the_step_and_noted_d72() -> None:
    assert gathered("set_prev: '{{ x }}'  # why\n") == ("set:\n  step.prev: '{{ x }}'  # why\n", ["set-prev"])
    assert gathered("{do: x, set_prev: 1}\n") == ("{do: x, set: {step.prev: 1}}\n", ["set-prev"])
    assert gathered("set_prev:\n  a: 1\n") == ("set:\n  step.prev:\n    a: 1\n", ["set-prev"])


@pytest.mark.parametrize(
    "value", ["{sum: '{{ x }}'}", "{op: sum, value: '{{ x }}'}", "{value: '{{ x }}', reducer: sum}"]
)
def test_a_shared_write_with_a_reducer_declares_it_at_the_loop_d72(value: str) -> None:
    assert gathered(f"loop:\n  in: []\nset_shared:\n  t: {value}\n") == (
        "loop:\n  in: []\n  spec:\n    policy:\n      reduce:\n        ctx.t: sum\nset:\n  ctx.t: '{{ x }}'\n",
        ["set-shared"],
    )


def test_a_shared_write_without_a_reducer_is_noted_d72() -> None:
    assert gathered("set_shared: {t: {other: 1}}\n") == ("set: {ctx.t: {other: 1}}\n", ["set-shared"])
    assert gathered("set_shared: {t: {sum: 1}}\n") == ("set: {ctx.t: 1}\n", ["set-shared"])


def test_a_declared_reducer_stays() -> None:
    text = "loop: {spec: {policy: {reduce: {ctx.t: max}}}}\nset_shared: {t: {sum: 1}}\n"
    assert gathered(text)[0] == "loop: {spec: {policy: {reduce: {ctx.t: max}}}}\nset: {ctx.t: 1}\n"


def test_the_payload_of_an_arc_is_written_to_the_inbox_of_its_target() -> None:
    assert gathered("args: {a: 1}\nset_ctx: {b: 2}\n", "ctx.t_input") == (
        "set: {ctx.t_input.a: 1, ctx.b: 2}\n",
        [],
    )
    assert gathered("args: '{{ x }}'\n", "ctx.t_input") == (
        "set:\n  ctx.t_input: '{{ x }}'\n",
        ["payload-whole"],
    )
    assert gathered("args: {a: 1}\n") == ("args: {a: 1}\n", [])


def test_a_reference_needs_a_name_that_ends_in_ref_d54() -> None:
    assert gathered("set_ctx: {a: '{{ output.ref }}', b_ref: '{{ output.ref }}'}\n")[1] == ["reference-name"]


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("{{ output.ref }}", True),
        (" {{output.ref}} ", True),
        ("{{ output.ref.x }}", False),
        ("{{ (output.ref) }}", False),
        ("x", False),
    ],
)
def test_a_reference_is_seen_where_a_template_is_nothing_else_d54(text: str, reference: bool) -> None:
    assert is_reference(text) is reference


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "{store: postgres.table, key: t, range: 'id:1-5', size: 9, checksum: c, schema_hint: s}",
            "{type: relational, locator: {store: postgres.table, key: t, range: 'id:1-5', schema_hint: s},"
            " meta: {bytes: 9, sha256: c}}",
        ),
        (
            "{store: nats_object, key: k, schema_hint: s}",
            "{type: nats, locator: {store: nats_object, key: k, schema_hint: s}}",
        ),
        (
            "{store: s3, key: k, size: 1}",
            "{type: object_store, locator: {store: s3, key: k}, meta: {bytes: 1}}",
        ),
    ],
)
def test_a_reference_of_the_old_shape_gets_the_new_one_d53(before: str, after: str) -> None:
    assert gathered(f"set_ctx: {{a_ref: {before}}}\n") == (f"set: {{ctx.a_ref: {after}}}\n", ["old-ref"])


@pytest.mark.parametrize(
    "value", ["{store: a, key: b}", "{store: a, key: b, size: 1, mine: 2}", "{key: a, size: 1, checksum: 2}"]
)
def test_a_mapping_that_only_resembles_a_reference_is_unchanged_d53(value: str) -> None:
    assert gathered(f"set_ctx: {{a: {value}}}\n") == (f"set: {{ctx.a: {value}}}\n", [])
