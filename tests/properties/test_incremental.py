"""An analysis that keeps the unchanged steps of an earlier text equals one of the whole text, after any edits."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.editor.analysis import Analysis
from noetl.playbook.incremental import reread
from noetl.playbook.reader import read
from noetl.playbook.source import Mapping, Scalar, Sequence, Tree
from noetl.tool import Tools
from tests.sizes import examples

KINDS = Tools.installed().kinds()
EXAMPLES = Path(__file__).parents[2] / "examples"
TEXTS = [each.read_text() for each in sorted(EXAMPLES.glob("*.yaml"))]
PIECES = st.sampled_from(
    ["x", " ", "\n", "  ", "- ", ":", '"', "'", "{", "}", "{{ ctx.a }}", "#", "\n\n", "|", "&a ", "*a", "0", "null", "step: x",
     "\n  - step: new\n", "\n    desc: y", "\n# c\n", "[", "]", ",", "é", "\t", "---\n", "\nworkload: {}\n", "tool:", "\n      "]
)  # fmt: skip
EDITS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), PIECES | st.just("")), min_size=1, max_size=6)


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


@given(st.sampled_from(TEXTS), EDITS)
@settings(max_examples=examples(400), deadline=None)
def test_an_edited_text_has_the_same_trees_playbook_and_problems(
    text: str, edits: list[tuple[float, int, str]]
) -> None:
    known = Analysis(text, KINDS)
    for where, removed, inserted in edits:
        at = int(where * len(text))
        text = text[:at] + inserted + text[at + removed :]
        known = Analysis(text, KINDS, before=known)
        whole = Analysis(text, KINDS)
        assert offsets(known.document.root) == offsets(whole.document.root)
        assert known.document.values == whole.document.values
        assert known.checked.playbook == whole.checked.playbook
        assert known.checked.problems == whole.checked.problems
        assert known.occurrences == whole.occurrences


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
