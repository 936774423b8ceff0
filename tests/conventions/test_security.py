"""SECURITY.md names tests: each of them exists, and a test with a link is in the file that its link leads to."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "SECURITY.md").read_text()
NAME = re.compile(r"`(test_\w+)`")
# `test_one`, `test_two` and `test_three` in [name](file)
LINKED = re.compile(r"((?:`test_\w+`(?:[\s,]|and\b|with both\b)*)+)in\s+(?:the\s+)?\[[^]]*\]\(([^)#]+)\)")
DEFAULTS = re.compile(r"Tests without a link are in (.+?)(?<!\w)(?:;|\.\s)", re.DOTALL)  # of a section
LINK = re.compile(r"\]\(([^)#]+)\)")


@cache
def names_in(path: Path) -> frozenset[str]:
    return frozenset(re.findall(r"^ *(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE))


def missing(text: str) -> set[tuple[str, str]]:
    """The tests of a section that are not where the text says, with the file."""
    known = {
        name
        for folder in ("tests", "plugins", "src/noetl/testing/contracts")  # those of contracts are methods
        for path in (ROOT / folder).rglob("*.py")
        for name in names_in(path)
    }
    found = {(name, "") for name in NAME.findall(text) if name not in known}
    linked: set[str] = set()
    for names, file in LINKED.findall(text):
        linked |= set(NAME.findall(names))
        found |= {(name, file) for name in NAME.findall(names) if name not in names_in(ROOT / file)}
    for words in DEFAULTS.findall(text):
        files = LINK.findall(words)
        there = {name for file in files for name in names_in(ROOT / file)}
        found |= {(name, " ".join(files)) for name in NAME.findall(text) if name not in there | linked}
    return found


def test_every_test_that_the_page_names_is_where_it_says() -> None:
    assert len(set(NAME.findall(TEXT))) > 40
    assert len(LINKED.findall(TEXT)) > 25
    assert len(DEFAULTS.findall(TEXT)) == 1
    assert [each for section in re.split(r"^#+ ", TEXT, flags=re.MULTILINE) for each in sorted(missing(section))] == []


def test_a_test_in_another_file_than_that_of_its_link_is_found() -> None:
    here, other = "tests/conventions/test_security.py", "tests/conventions/test_names.py"
    name = "test_every_finding_of_the_review_has_a_test"
    assert missing(f"(`{name}` in\n[test_security]({here}))") == set()
    assert missing(f"(`{name}` in [test_names]({other}))") == {(name, other)}
    assert missing(f"Tests without a link are in [test_names]({other}). `{name}`") == {(name, other)}
    assert missing("`test_that_nobody_wrote`") == {("test_that_nobody_wrote", "")}


def test_every_finding_of_the_review_has_a_test() -> None:
    table = TEXT.partition("## Weaknesses of 0.1.0")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ") and not line.startswith("| weakness")]
    assert len(rows) >= 26
    assert [row for row in rows if not re.search(r"`test_\w+`", row)] == []
