"""Any document: it survives writing and reading, dialects agree, no text crashes the check, problems have places."""

from __future__ import annotations

import random  # noqa: TID251  # seeded by Hypothesis: selects the damaged part of a text
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from noetl.checks.checker import check
from noetl.output import JSON
from noetl.playbook.migrate import migrate
from noetl.playbook.reader import read
from noetl.playbook.write import document, emit, write
from tests.playbooks import kinds
from tests.properties.documents import as_v10, canonical
from tests.sizes import examples

ROOT = Path(__file__).parents[2]
TEXTS = [path.read_text() for path in sorted([*ROOT.glob("examples/*.yaml"), *ROOT.glob("tests/fixtures/*/*.yaml")])]
PIECES = [
    "{{ ctx.x }}", "{{", "}}", "{% if x %}", "&a", "*a", "!!x", "<<: *a", "- ", ": ", "\t", "when:", "then:", "else:",
    "step: start", "next:", "arcs:", "tool:", "kind: http", "set:", "[", "]", "{", "}", "'", '"', "|", ">", "#", "\x00",
    "\ufeff", "null", "3", "~", "loop:", "in:", "ctx.a.b:", "_ref", "workbook", "block: b", "entry_step: x", "1e999",
]  # fmt: skip


def means(text: str) -> JSON:
    reading = read(text, kinds())
    assert [problem for problem in reading.problems if problem.severity == "error"] == []
    assert reading.playbook is not None
    return document(reading.playbook)


@given(canonical())
@settings(max_examples=examples(150), deadline=None)
def test_a_canonical_playbook_survives_read_write_read(made: dict[str, JSON]) -> None:
    first = read(emit(made), kinds()).playbook
    assert first is not None
    assert means(write(first)) == document(first) == means(emit(made))


@given(canonical())
@settings(max_examples=examples(150), deadline=None)
def test_a_canonical_playbook_has_no_errors_and_is_sound(made: dict[str, JSON]) -> None:
    checked = check(emit(made), kinds())
    assert [str(problem) for problem in checked.errors if problem.code != "endless-jump"] == []


@given(canonical())
@settings(max_examples=examples(100), deadline=None)
def test_a_v10_playbook_and_its_migration_mean_the_same(made: dict[str, JSON]) -> None:
    old = emit(as_v10(made))
    assert means(migrate(old).text) == means(emit(made))


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A real document with parts removed, doubled, moved or inserted."""
    text = draw(st.sampled_from(TEXTS))
    dice = random.Random(draw(st.integers(0, 2**32)))
    for _ in range(draw(st.integers(1, 6))):
        place, length = dice.randrange(len(text) + 1), dice.choice([1, 2, 5, 20, 80])
        piece = dice.choice([*PIECES, text[place : place + length]])
        cut = dice.choice([0, 0, length])
        text = text[:place] + piece + text[place + cut :]
    return text


@given(st.one_of(damaged(), st.text(max_size=200), st.lists(st.sampled_from(PIECES), max_size=40).map("\n".join)))
@settings(max_examples=examples(2000), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_document_crashes_the_check_and_every_problem_has_a_place(text: str) -> None:
    checked = check(text, kinds(), "random.yaml")
    lines = text.count("\n") + text.count("\r") + text.count("\x85") + text.count("\u2028") + text.count("\u2029") + 1
    for problem in checked.problems:
        assert problem.at.file == "random.yaml"
        assert 1 <= problem.at.line <= lines + 1
        assert problem.at.column >= 1
        assert problem.message
    assert checked.playbook is not None or checked.problems
