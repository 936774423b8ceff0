"""Names in a playbook: where they are defined and used, and what renaming refuses."""

from __future__ import annotations

import pytest

from noetl.editor.analysis import Analysis, Name
from noetl.editor.fixes import fix_edit
from noetl.editor.outline import folds
from noetl.tool import Tools
from tests.playbooks import HEAD

KINDS = Tools.installed().kinds()
TEXT = (
    HEAD
    + """\
workload: { a: 1 }
workflow:
  - step: start
    tool:
      - { name: load, kind: noop, input: { x: "{{ workload.a }} {{ 'load' }}" } }
      - name: use
        kind: noop
        input:
          x: |
            first
            {{ load.data.x }} {{ load["data"] }}
    set: { ctx.v.w: "{{ output.data }}" }
    next: { arcs: [{ step: "other", when: "{{ ctx.v.w }}" }, { step: "{{ ctx['v'] }}", to: [other, end] }] }
  - step: other
    tool: { kind: workbook, block: common }
workbook:
  common: { tool: [{ name: load, kind: noop }] }
"""
)
KNOWN = Analysis(TEXT, KINDS)


def places(name: Name) -> list[str]:
    """The text around each occurrence."""
    return [TEXT[each.start - 6 : each.end + 2] for each in KNOWN.of(name)]


def test_all_occurrences_of_names() -> None:
    assert [each.code for each in KNOWN.checked.errors] == []
    step = next(each.name for each in KNOWN.occurrences if each.name.kind == "task")
    assert places(step) == ["name: load, ", "   {{ load.d", '}} {{ load["']
    assert places(Name("step", "other")) == ['tep: "other",', " to: [other, ", "step: other\n "]
    assert places(Name("block", "common")) == ["lock: common }", "ok:\n  common: "]
    assert places(Name("ctx", "v")) == ["{ ctx.v.w", "{ ctx.v.w", " ctx['v']"]
    assert places(Name("workload", "a")) == ["ad: { a: ", "kload.a }"]


@pytest.mark.parametrize(
    ("kind", "old", "new", "reason"),
    [
        ("step", "other", "end", "not a name"),
        ("step", "other", "start", "already a step"),
        ("step", "start", "first", "execution begins"),
        ("task", "load", "output", "is a scope"),
        ("task", "load", "load-it", "cannot read"),
        ("step", "other", "fine-name", None),
    ],
)
def test_names_that_would_change_the_meaning_are_refused(kind: str, old: str, new: str, reason: str | None) -> None:
    name = next(each.name for each in KNOWN.occurrences if (each.name.kind, each.name.text) == (kind, old))
    refusal = KNOWN.refusal(name, new)
    assert refusal is None if reason is None else reason in (refusal or "")


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("step: otter", "step: other"),
        ("{ do: retry, delay: 1 }", "{ attempts: 3, do: retry, delay: 1 }"),
        ("{{ outptu.data }}", "{{ output.data }}"),
    ],
)
def test_fixes_are_edits(wrong: str, right: str) -> None:
    base = HEAD + (
        "workflow:\n  - step: start\n    tool:\n      kind: noop\n      spec:\n        policy:\n          rules:\n"
        '            - else: { then: { do: retry, attempts: 1, delay: 1 } }\n    set: { ctx.x: "{{ output.data }}" }\n'
        "    next: { arcs: [{ step: other }] }\n  - step: other\n"
    )
    text = (
        base.replace(right, wrong, 1) if right in base else base.replace("{ do: retry, attempts: 1, delay: 1 }", wrong)
    )
    found = Analysis(text, KINDS)
    edits = [
        edit
        for problem in found.checked.problems
        if (edit := fix_edit(text, problem, _offset(text, problem.line, problem.column))) is not None
    ]
    assert any(
        text[: edit.start] + edit.insert + text[edit.end :] in (base, text.replace(wrong, right)) for edit in edits
    )


def _offset(text: str, line: int, column: int) -> int:
    return sum(len(each) + 1 for each in text.split("\n")[: line - 1]) + column - 1


def test_lines_that_are_indented_deeper_can_be_folded() -> None:
    assert folds("a:\n  b:\n    c: 1\n\n  d: 2\ne: 3\n") == [(0, 4), (1, 2)]
