"""An analysis that keeps the unchanged steps of an earlier text equals one of the whole text, after any edits."""

from __future__ import annotations

from collections.abc import Mapping as MappingType
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.editor.analysis import Analysis
from noetl.net.program import Program
from noetl.playbook.incremental import reread
from noetl.playbook.reader import read
from noetl.playbook.source import Mapping, Scalar, Sequence, Tree
from noetl.template.compile import Template, Value
from noetl.tool import Tools
from tests.sizes import examples

KINDS = Tools.installed().kinds()
EXAMPLES = Path(__file__).parents[2] / "examples"
# What steps share with each other and with the rest of the playbook: limits, references, loops in loops, blocks.
SHARED = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: t, path: t }
executor:
  spec: { policy: { concurrency: { key: "{{ workload.tenant }}", limit: 2 } } }
workload: { tenant: a, rows: [[1, 2], [3]] }
workflow:
  - step: start
    loop:
      - { in: "{{ workload.rows }}", iterator: row }
      - { in: "{{ iter.row }}", iterator: cell }
    tool:
      - name: first
        kind: http
        url: "http://127.0.0.1/{{ iter.cell }}"
        set: { ctx.page_ref: "{{ output.ref }}" }
        spec: { policy: { limit: { key: "{{ workload.tenant }}", in_flight: 3 } } }
      - { name: call, kind: workbook, block: add, input: { page_ref: "{{ ctx.page_ref }}" } }
    set: { ctx.failed: "{{ output.failed }}" }
    next: { arcs: [{ step: second }] }
  - step: second
    tool: { kind: resolve, ref: "{{ ctx.page_ref }}" }
    set: { ctx.page: "{{ output.data }}" }
    compensate: { tool: { kind: http, url: "http://127.0.0.1/{{ ctx.page.id }}" } }
    next: { arcs: [{ step: third, set: { ctx.page.next_ref: "{{ output.ref }}" } }] }
  - step: third
    input: { last_ref: "{{ ctx.page.next_ref }}", failed: "{{ ctx.failed }}" }
    tool: { kind: noop, input: { last_ref: "{{ input.last_ref }}" } }
workbook:
  add:
    tool: { kind: noop, input: { x_ref: "{{ input.page_ref }}" } }
"""
TEXTS = [SHARED, *(each.read_text() for each in sorted(EXAMPLES.glob("*.yaml")))]
PIECES = st.sampled_from(
    ["x", " ", "\n", "  ", "- ", ":", '"', "'", "{", "}", "{{ ctx.a }}", "#", "\n\n", "|", "&a ", "*a", "0", "null", "step: x",
     "\n  - step: new\n", "\n    desc: y", "\n# c\n", "[", "]", ",", "é", "\t", "---\n", "\nworkload: {}\n", "tool:", "\n      ", "_ref", "failed", "spec:",
     "limit", "...\n", "  - step: made\n    tool: { kind: noop }\n", "- ", "keychain: [{ name: key, kind: env }]\n", "executor:\n", "metadata:",
     "workload: { tenant: b }\n", "triggers:\n  - { name: nightly, kind: cron, cron: '0 3 * * *' }\n", "|+\n\n"]
)  # fmt: skip
SIZES = st.integers(0, 12) | st.integers(0, 400)  # some edits remove several steps
EDITS = st.lists(st.tuples(st.floats(0, 1), SIZES, PIECES | st.just("")), min_size=1, max_size=6)


def offsets(tree: Tree | None) -> object:
    """All values with their offsets."""
    match tree:
        case Scalar(value, start, end):
            return value, start, end
        case Sequence(items, start):
            return start, [offsets(each) for each in items]
        case Mapping(entries, keys, start):
            return start, keys, {key: offsets(each) for key, each in entries.items()}
    return None


UNCOMPARED = {
    "playbook",
    "origins",
    "identity",
    "same",
}  # objects of each program, and the playbook, which is compared itself


def compiled(part: object) -> object:
    """Everything that a program consists of, in a form that can be compared."""
    match part:
        case Template():
            return part.source, part.reads, part.compared, part.typed
        case Value():
            return part._value, [compiled(each) for each in part.templates]
        case msgspec.Struct():
            return [compiled(getattr(part, name)) for name in part.__struct_fields__ if name not in UNCOMPARED]
        case Program():
            return {name: compiled(getattr(part, name)) for name in part._fields if name not in UNCOMPARED}
        case MappingType():
            return [(key, compiled(each)) for key, each in part.items()]
        case list() | tuple():
            return [compiled(each) for each in part]
        case bool() | int() | float() | str() | frozenset() | None:
            return part
    return type(part)


@given(st.just(SHARED) | st.sampled_from(TEXTS), EDITS)
@settings(max_examples=examples(400), deadline=None)
def test_an_edited_text_has_the_same_trees_playbook_and_problems(
    text: str, edits: list[tuple[float, int, str]]
) -> None:
    known = Analysis(text, KINDS)
    for where, removed, inserted in edits:
        at = int(where * len(text))
        if inserted.strip() and inserted.endswith("\n"):  # lines are inserted between lines
            at = text.rfind("\n", 0, at) + 1
        text = text[:at] + inserted + text[at + removed :]
        known = Analysis(text, KINDS, before=known)
        assert_same(known)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("output.failed", "output.status"),
        ("ctx.page_ref: ", "ctx.page_id: "),
        ("{ ctx.page: ", "{ ctx.other: "),
        ("{ ctx.failed: ", "{ ctx.lost: "),
        ("in_flight: 3", "in_flight: 4"),
        ("step: third\n", "step: fourth\n"),
    ],
)
def test_a_change_in_one_step_that_others_depend_on(old: str, new: str) -> None:
    edited = SHARED.replace(old, new)
    assert edited != SHARED
    there = Analysis(edited, KINDS, before=Analysis(SHARED, KINDS))
    assert_same(there)
    assert_same(Analysis(SHARED, KINDS, before=there))


def assert_same(known: Analysis) -> None:
    """The analysis is that of the whole text."""
    whole = Analysis(known.text, KINDS)
    assert offsets(known.document.root) == offsets(whole.document.root)
    assert known.document.values == whole.document.values
    assert known.checked.playbook == whole.checked.playbook
    assert known.checked.problems == whole.checked.problems
    assert known.occurrences == whole.occurrences
    assert compiled(known.checked.program) == compiled(whole.checked.program)


def test_a_text_that_was_invalid_for_a_moment_keeps_the_steps_of_the_text_before() -> None:
    before = Analysis(SHARED, KINDS)
    at = SHARED.index("    next: { arcs: [{ step: third")
    broken = Analysis(SHARED[:at] + "    x: [\n" + SHARED[at:], KINDS, before=before)
    assert broken.checked.playbook is None
    after = Analysis(SHARED[:at] + "    desc: x\n" + SHARED[at:], KINDS, before=broken)
    assert before.checked.program is not None
    assert after.checked.program is not None
    steps = zip(before.checked.program.steps.values(), after.checked.program.steps.values(), strict=True)
    assert [one is other for one, other in steps] == [True, False, True]
    assert_same(after)


def test_most_edits_inside_a_step_keep_the_others() -> None:
    text = (EXAMPLES / "approval.yaml").read_text()
    at = text.index("desc:") + 6
    old = read(text, KINDS)
    again = reread(old, text[:at] + "x" + text[at:], KINDS)
    assert again is not None
    assert old.playbook is not None
    assert again.playbook is not None
    kept = [one is other for one, other in zip(old.playbook.steps, again.playbook.steps, strict=True)]
    assert kept.count(False) == 1


def test_an_edit_inside_a_step_compiles_no_other_step() -> None:
    text = (EXAMPLES / "approval.yaml").read_text()
    at = text.index("desc:") + 6
    before = Analysis(text, KINDS)
    after = Analysis(text[:at] + "x" + text[at:], KINDS, before=before)
    assert before.checked.program is not None
    assert after.checked.program is not None
    steps = zip(before.checked.program.steps.values(), after.checked.program.steps.values(), strict=True)
    assert [one is other for one, other in steps].count(False) == 1


NOOP = "  - step: made\n    tool: { kind: noop }\n"
SECOND, THIRD = SHARED.index("  - step: second"), SHARED.index("  - step: third")


@pytest.mark.parametrize(
    ("edited", "same"),
    [
        (SHARED.replace("metadata: { name: t", "metadata: { name: other"), {"start", "second", "third"}),
        (SHARED.replace("rows: [[1, 2]", "lines: [[1, 2]"), {"start", "second", "third"}),
        (SHARED.replace("limit: 2 }", "limit: 3 }"), {"start", "second", "third"}),
        (SHARED.replace("workload:", "keychain: [{ name: k, kind: env }]\nworkload:"), {"start", "second", "third"}),
        (SHARED.replace('x_ref: "{{ input.page_ref', 'y_ref: "{{ input.page_ref'), {"second", "third"}),
        (SHARED[:SECOND] + NOOP + SHARED[SECOND:], {"start", "second", "third"}),
        (SHARED[:THIRD] + "  - \n" + SHARED[THIRD:], {"start", "second", "third"}),
        (SHARED.replace("workbook:", NOOP + "workbook:"), {"start", "second"}),
        (SHARED.replace("  - step: third", "  - step: second"), {"start", "second"}),
        (SHARED.replace("add:\n    tool:", "add:\n    input: { page_ref: null }\n    tool:"), {"second", "third"}),
    ],
)  # fmt: skip
def test_edits_outside_of_steps_and_new_steps_keep_the_others(edited: str, same: set[str]) -> None:
    assert edited != SHARED
    there = Analysis(edited, KINDS, before=Analysis(SHARED, KINDS))
    assert there.checked.program is not None
    assert there.checked.program.same == same
    assert_same(there)
    assert_same(Analysis(SHARED, KINDS, before=there))


def test_removed_steps_leave_the_others_as_they_are() -> None:
    before = Analysis(SHARED[:SECOND] + NOOP + NOOP.replace("made", "more") + SHARED[SECOND:], KINDS)
    after = Analysis(SHARED, KINDS, before=before)
    assert after.checked.program is not None
    assert after.checked.program.same >= {"start", "third"}
    assert_same(after)


def test_a_problem_in_another_step_is_kept_and_moves_with_its_line() -> None:
    broken = SHARED.replace("    input: { last_ref", "    inputs: { last_ref")
    before = Analysis(broken, KINDS)
    assert {each.code for each in before.read.problems} == {"unknown-key"}
    for old, new in (("rows: [[1, 2]", "\n  rows: [[1, 2]"), ("kind: resolve,", "kind: resolve,\n     ")):
        text = broken.replace(old, new)
        assert reread(before.read, text, KINDS) is not None
        assert_same(Analysis(text, KINDS, before=before))


def test_fields_of_a_task_that_move_into_input_are_not_kept() -> None:
    text = SHARED.replace("kind: resolve, ref: ", "kind: resolve, input: { ref: ").replace(
        '_ref }}" }\n    set', '_ref }}" } }\n    set'
    )
    edited = "# &a\n" + SHARED[:SECOND] + NOOP + SHARED[SECOND:]
    assert_same(Analysis(edited, KINDS, before=Analysis(text, KINDS)))


@pytest.mark.parametrize(
    "inserted",
    ["  - step: x\n    desc: |+\n\n", "...\n", "---\n", "  \n  - step: x\n", "   - step: x\n", "- step: x\n"],
)
def test_lines_that_change_the_meaning_of_the_lines_around_them(inserted: str) -> None:
    text = SHARED.replace("    compensate:", "    desc: |+\n      text\n    compensate:")
    for at in (SECOND, THIRD, text.index("workbook:")):
        assert_same(Analysis(text[:at] + inserted + text[at:], KINDS, before=Analysis(text, KINDS)))
