"""The reference pages are complete and up to date, and their examples are correct."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from noetl.api.admin import AuditAction
from noetl.checks.checker import check
from noetl.drawing.chart import chart
from noetl.drawing.svg import svg
from noetl.engine.facts import Fact
from noetl.net.scopes import EVENT_FIELDS
from noetl.playbook.language import SCOPES, language
from noetl.playbook.problems import CODES, LEVELS
from noetl.runtime.settings import variables
from noetl.server.auth import PUBLIC
from noetl.template import limits
from noetl.template.compile import FILTERS, FUNCTIONS, METHODS, OMITTED, TESTS
from noetl.views.envelopes import Envelope
from scripts.reference import PAGES, ROOT, THEMES, name_of, records, stale
from scripts.reference_api import described, routes
from scripts.reference_cli import commands
from scripts.reference_events import tag
from tests.playbooks import HEAD, kinds

DOCS = PAGES.parent
DECISIONS = [*(f"D{number}" for number in range(1, 91)), "D28a"]
# Pages with complete playbooks; other tests run those of the tutorial and of the examples.
PROSE = [*sorted(DOCS.glob("explanation/*.md")), *sorted(DOCS.glob("guides/*.md"))]


def name(file: Path) -> str:
    return str(file.relative_to(ROOT))


def blocks(file: Path) -> list[str]:
    """The YAML examples of a page."""
    return re.findall(r"^```yaml\n(.*?)^```", file.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@cache
def page(name: str) -> str:
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


def missing(words: Iterable[str], text: str) -> list[str]:
    """The words that the text does not contain as code."""
    return [word for word in words if f"`{word}`" not in text]


def without_code(file: Path) -> str:
    text = file.read_text(encoding="utf-8")
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def headings(text: str) -> list[str]:
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"^#+ (.+)$", prose, re.MULTILINE)


def test_the_generated_pages_are_up_to_date() -> None:
    assert stale() == [], "run `make docs`"


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
    [FILTERS, TESTS, FUNCTIONS, METHODS, OMITTED],
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


def test_every_fact_and_every_field_of_it_is_on_the_page_of_events() -> None:
    pattern = r"^### ([^\n]+)\n(.*?)(?=^##|\Z)"
    sections = dict(re.findall(pattern, page("events"), re.MULTILINE | re.DOTALL))
    for fact in get_args(Fact):
        assert missing(fact.__struct_fields__, sections[tag(fact)]) == [], tag(fact)


def test_every_event_that_is_shown_and_every_field_of_its_envelope_is_on_the_page_of_events() -> None:
    shown = re.findall(r"`([a-z.]+)`", (PAGES / "_parts" / "events.md").read_text(encoding="utf-8"))
    names = [each for each in shown if each.count(".") and not each.startswith(("event.", "output."))]
    told = {*headings(page("events")), *re.findall(r"^- `([a-z.]+)`", page("events"), re.MULTILINE)}
    assert len(names) > len(get_args(Fact))
    assert [each for each in names if each not in told] == []
    assert missing(Envelope.__struct_fields__, page("events")) == []


def test_every_route_of_the_api_is_on_its_page_with_its_scope() -> None:
    sections = dict(re.findall(r"^### ([^\n]+)\n(.*?)(?=^##|\Z)", page("api"), re.MULTILINE | re.DOTALL))
    assert sorted(sections) == sorted(f"{each.method.upper()} {each.path}" for each in routes())
    scopes = described().scopes
    for each in routes():
        scope = scopes[each.method, each.path]
        assert scope in (PUBLIC, "read", "run", "write", "admin"), each.path
        assert f"Scope `{scope}`" in sections[f"{each.method.upper()} {each.path}"]


def test_every_variable_that_the_code_knows_is_on_the_page_of_settings() -> None:
    sources = (file.read_text(encoding="utf-8") for file in (ROOT / "src/noetl").rglob("*.py"))
    known = {found for text in sources for found in re.findall(r"\bNOETL_[A-Z0-9_]+", text)}
    no_variables = {"NOETL_WORK", "NOETL_SECRET_"}  # the name of a NATS stream, and a prefix
    names = {variable.name for variable in variables().values()}
    assert known - names == no_variables
    assert missing(names, page("config")) == []


def test_every_action_of_the_audit_trail_is_in_the_security_document_and_in_the_help() -> None:
    _, _, rest = (ROOT / "SECURITY.md").read_text(encoding="utf-8").partition("\n## Audit trail\n")
    assert missing(get_args(AuditAction), rest.partition("\n## ")[0]) == []
    option = next(line for line in page("cli").splitlines() if line.startswith("- `--action`: Only `start`"))
    assert missing(get_args(AuditAction), option) == ["lost"]


def test_every_command_and_every_option_is_on_the_page_of_commands() -> None:
    sections = dict(re.findall(r"^## noetl ([^\n]+)\n(.*?)(?=^## |\Z)", page("cli"), re.MULTILINE | re.DOTALL))
    assert sorted(sections) == sorted(each.name for each in commands())
    for each in commands():
        told = set(re.findall(r"--?[a-z][a-z-]*", sections[each.name]))
        spelt = [word for option in each.command.params for word in option.opts if word.startswith("-")]
        assert set(spelt) - told - {"--help", "-h"} == set(), each.name


def test_no_page_for_users_names_a_decision_by_its_number() -> None:
    pages = [file for file in DOCS.rglob("*.md") if file.parent.name not in ("_parts", "adr")]
    pages = [*pages, ROOT / "README.md", ROOT / "SECURITY.md", ROOT / "CHANGELOG.md"]
    texts = {name(file): without_code(file) for file in pages if file != DOCS / "sources.md"}
    assert {page: found for page, text in texts.items() if (found := re.findall(r"\bD\d+a?\b", text))} == {}


def test_every_decision_has_a_hand_written_sentence() -> None:
    told = " ".join(file.read_text(encoding="utf-8") for file in (PAGES / "_parts").glob("*.md"))
    assert [each for each in DECISIONS if not re.search(rf"\([^()]*\b{each}\b[^()]*\)", told)] == []


def test_every_part_of_the_reference_is_included() -> None:
    used = {
        "execution",
        "events",
        "commands",
        "small_print",
        "scopes",
        "notification_scopes",
        "fields",
        "filters",
        "limits",
        "tools",
        "problems",
        "migrating",
        "exit_codes",
        "machines",
        "events_page",
        "facts",
        "derived",
        "api",
        "config",
    }
    assert {file.stem for file in (PAGES / "_parts").glob("*.md")} == used | set(THEMES)


def test_the_example_on_the_first_page_is_clean() -> None:
    assert check(blocks(DOCS / "index.md")[0], kinds()).problems == ()


def test_the_examples_on_the_soundness_page_have_the_stated_result() -> None:
    circle, way_out, _ = blocks(DOCS / "explanation/soundness.md")
    head = HEAD + "workload: {url: https://api.example.com}\n"
    assert [each.code for each in check(head + circle, kinds()).errors] == ["endless-cycle"]
    assert check(head + circle, kinds()).verdict == "unsound"
    fixed = circle[: circle.index("\n  - step: rest")] + "\n" + way_out
    assert check(head + fixed, kinds()).verdict == "sound"


@pytest.mark.parametrize("file", PROSE, ids=name)
def test_every_whole_playbook_on_a_page_is_clean(file: Path) -> None:
    for text in blocks(file):
        if text.startswith("apiVersion"):
            told = check(text, kinds()).problems
            assert [str(each) for each in told if each.severity != "info"] == []


def test_the_picture_of_the_net_belongs_to_its_playbook() -> None:
    drawn = check(blocks(DOCS / "explanation/petri-net.md")[0], kinds())
    assert drawn.program is not None
    assert (DOCS / "images/order.svg").read_text(encoding="utf-8") == svg(chart(drawn.program))


def test_every_page_is_in_the_navigation_of_the_site_and_every_entry_is_a_page() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    pages = {str(file.relative_to(DOCS)) for file in DOCS.rglob("*.md") if file.parent.name != "_parts"}
    assert sorted(re.findall(r"[\w/-]+\.md", nav)) == sorted(pages)
