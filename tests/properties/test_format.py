"""The canonical layout changes no meaning, loses no comment, and is stable."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.checks.checker import Checked, check
from noetl.editor.formatting import format_checked
from noetl.errors import PlaybookError
from noetl.output import JSON
from noetl.playbook.source import parse, plain
from noetl.playbook.write import emit
from noetl.tool import Tools
from tests.properties.documents import canonical
from tests.properties.test_migrate import EDITS, OLD, Edit, commented, damaged
from tests.sizes import examples

ROOT = Path(__file__).parents[2]
KINDS = Tools.installed().kinds()
FILES = sorted([*ROOT.glob("examples/**/*.yaml"), *ROOT.glob("tests/**/*.yaml")])
BRACES = re.compile(r"(\{[{%]-?)[ \t]*|[ \t]*(-?[%}]\})")


def without_spaces(value: JSON) -> JSON:
    """The data, without the spaces inside the braces of templates."""
    if isinstance(value, dict):
        return {key: without_spaces(each) for key, each in value.items()}
    if isinstance(value, list):
        return [without_spaces(each) for each in value]
    return BRACES.sub(r"\1\2", value) if isinstance(value, str) else value


def compiled(checked: Checked) -> list[JSON]:
    """What a program consists of, in a form that can be compared: every template with its place and what it reads."""
    program = checked.program
    assert program is not None
    return [
        [use.path, use.place, BRACES.sub(r"\1\2", use.template.source), sorted(map(str, use.template.reads))]
        for use in program.templates
    ]


def assert_formatted(text: str) -> str:
    """Format a text twice, and compare the programs; the result of the formatter."""
    before = check(text, KINDS)
    made = format_checked(text, before)
    if not made.supported:
        assert made.text == text
        return text
    after = check(made.text, KINDS)
    assert without_spaces(plain(before.document.root)) == without_spaces(plain(after.document.root))
    assert [problem.code for problem in before.problems] == [problem.code for problem in after.problems]
    if before.program is not None:
        assert compiled(before) == compiled(after)
        if made.text.count("{{") == made.text.count("{{ ") and text.count("{{") == text.count("{{ "):
            assert before.playbook == after.playbook
    assert format_checked(made.text, after).text == made.text
    return made.text


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_examples_and_fixtures_keep_their_meaning(file: Path) -> None:
    text = file.read_bytes().decode("utf-8", "replace")
    try:
        made = assert_formatted(text)
    except PlaybookError:
        return
    if file.is_relative_to(ROOT / "examples"):
        assert made == text, "run `noetl fmt examples`"


@given(canonical(), st.data())
@settings(max_examples=examples(100), deadline=None)
def test_random_playbooks_with_comments_keep_both(document: dict[str, JSON], data: st.DataObject) -> None:
    text = emit(document)
    if data.draw(st.booleans()):
        wider = re.compile(r"^( *)((?:- )*)", re.MULTILINE)  # another indentation
        text = wider.sub(lambda found: found[1] * 2 + found[2].replace("- ", "-   "), text)
    text, words = commented(text)
    made = assert_formatted(text)
    assert re.findall(r"# (?:above|behind) \d+\.", made) == words


@given(st.sampled_from(OLD), EDITS)
@settings(max_examples=examples(200), deadline=None)
def test_a_damaged_text_is_formatted_or_refused(text: str, edits: list[Edit]) -> None:
    text = damaged(text, edits)
    if any(problem.severity == "error" for problem in parse(text).problems):
        with pytest.raises(PlaybookError):
            assert_formatted(text)
    else:
        assert_formatted(text)
