"""The reference is complete and up to date: what the code knows is on a page, and what is on a page is so."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from noetl.net import limits
from noetl.net.check import check
from noetl.net.scope import EVENT_FIELDS, SCOPES
from noetl.net.template import FILTERS, FUNCTIONS, METHODS, OMITTED, PREDICATES
from noetl.playbook.language import language
from noetl.playbook.problems import CODES, LEVELS
from scripts.reference import PAGES, THEMES, name_of, records, slug, stale
from tests.playbooks import HEAD, kinds

DOCS = PAGES.parent
DECISIONS = [*(f"D{number}" for number in range(1, 91)), "D28a"]
LINK = re.compile(r"\]\((?P<page>[^)#\s]*)(?:#(?P<anchor>[^)\s]*))?\)")


def blocks(file: Path) -> list[str]:
    """The YAML examples of a page."""
    return re.findall(r"^```yaml\n(.*?)^```", file.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@cache
def page(name: str) -> str:
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


def missing(words: Iterable[str], text: str) -> list[str]:
    """The words that do not stand in the text as code."""
    return [word for word in words if f"`{word}`" not in text]


def headings(text: str) -> list[str]:
    without_code = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"^#+ (.+)$", without_code, re.MULTILINE)


def test_the_generated_pages_are_up_to_date() -> None:
    assert stale() == [], "run `python scripts/reference.py`"


def test_every_problem_code_has_its_paragraph_under_its_level() -> None:
    wanted = [
        heading
        for level, words in LEVELS.items()
        for heading in (f"{level} {words}", *(name for name, code in CODES.items() if code.level == level))
    ]
    assert headings(page("problems")) == ["Problems", *wanted]


def test_every_scope_and_every_field_of_an_event_is_on_the_page_of_scopes() -> None:
    assert missing([*SCOPES, *EVENT_FIELDS], page("scopes")) == []


@pytest.mark.parametrize(
    "table",
    [FILTERS, PREDICATES, FUNCTIONS, METHODS, OMITTED],
    ids=["filters", "tests", "functions", "methods", "omitted"],
)
def test_everything_that_a_template_may_call_is_on_the_page_of_filters(table: dict[str, object]) -> None:
    assert missing(table, page("filters")) == []


def test_every_limit_of_templates_is_on_the_page_of_filters() -> None:
    assert missing((name for name in vars(limits) if name.endswith("_MAX")), page("filters")) == []


def test_every_tool_kind_has_its_section_with_all_its_fields_and_knobs() -> None:
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", page("tools"), re.MULTILINE | re.DOTALL))
    assert sorted(sections) == sorted(kinds())
    for name, kind in kinds().items():
        assert missing([*kind.fields.keys, *kind.knobs.keys], sections[name]) == []


def test_every_key_of_the_language_is_in_the_table_of_its_record() -> None:
    pattern = r"^### ([^\n]+)\n(.*?)(?=^##|\Z)"
    sections = dict(re.findall(pattern, page("language"), re.MULTILINE | re.DOTALL))
    for record in records(language(kinds())):
        own = [name for name in record.keys if name not in kinds()]
        assert missing(own, sections[name_of(record)]) == [], name_of(record)


def test_every_decision_has_a_sentence_in_the_reference() -> None:
    told = " ".join(file.read_text(encoding="utf-8") for file in PAGES.glob("*.md"))
    assert [each for each in DECISIONS if not re.search(rf"{each}\b", told)] == []


def test_every_decision_has_a_sentence_that_was_written_by_hand() -> None:
    told = " ".join(file.read_text(encoding="utf-8") for file in (PAGES / "_parts").glob("*.md"))
    assert [each for each in DECISIONS if not re.search(rf"\([^()]*\b{each}\b[^()]*\)", told)] == []


def test_every_part_is_used() -> None:
    used = {
        "execution",
        "events",
        "commands",
        "small_print",
        "scopes",
        "fields",
        "filters",
        "limits",
        "tools",
        "problems",
        "migrating",
        "exit_codes",
        "machines",
    }
    assert {file.stem for file in (PAGES / "_parts").glob("*.md")} == used | set(THEMES)


@pytest.mark.parametrize(
    "file", [*sorted(DOCS.glob("*/*.md")), DOCS / "index.md"], ids=lambda file: file.stem
)
def test_every_link_leads_somewhere(file: Path) -> None:
    text = re.sub(r"^```.*?^```", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    broken = []
    for found in LINK.finditer(re.sub(r"`[^`\n]*`(?!\])", "", text)):
        if found["page"].startswith("http"):
            continue
        target = (file.parent / found["page"]).resolve() if found["page"] else file
        if not target.exists():
            broken.append(found[0])
        elif found["anchor"]:
            anchors = {slug(heading) for heading in headings(target.read_text(encoding="utf-8"))}
            if found["anchor"] not in anchors:
                broken.append(found[0])
    assert broken == []


def test_the_example_on_the_first_page_is_clean() -> None:
    assert check(blocks(DOCS / "index.md")[0], kinds()).problems == ()


def test_the_examples_of_the_page_on_soundness_are_what_it_says() -> None:
    circle, way_out, _ = blocks(DOCS / "explanation/soundness.md")
    head = HEAD + "workload: {url: https://api.example.com}\n"
    assert [each.code for each in check(head + circle, kinds()).errors] == ["endless-cycle"]
    assert check(head + circle, kinds()).verdict == "unsound"
    mended = circle[: circle.index("\n  - step: rest")] + "\n" + way_out
    assert check(head + mended, kinds()).verdict == "sound"
