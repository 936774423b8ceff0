"""docs/sources.md lists every section of the source documents, and gives a reason for everything that does not just work."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.source_documents import DOCUMENTS, sections

PAGE = (Path(__file__).parents[2] / "docs" / "sources.md").read_text("utf-8")
STATUSES = {"works", "differs", "reserved", "not built"}
_RANGE = re.compile(r"\((\d[\d.]*)–(\d[\d.]*)\)")
_NUMBER = re.compile(r"(?:^|[;(,] ?)(\d+(?:\.\w+)*|Appendix \w)(?= |[,);]|$)")


def rows(document: str) -> list[list[str]]:
    """The rows of a document's table: section, status, text."""
    part = PAGE.partition(f"## {document}: ")[2].partition("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def listed(section: str) -> Iterator[str]:
    """The numbers in the first cell of a row: `6.1`, or `6.1–6.4` for a range."""
    for first, last in _RANGE.findall(section):
        above = first.rpartition(".")[0]
        for number in range(int(first.rpartition(".")[2]), int(last.rpartition(".")[2]) + 1):
            yield f"{above}.{number}"
    yield from _NUMBER.findall(_RANGE.sub("", section))


@pytest.mark.parametrize("document", [path.stem for path in DOCUMENTS])
def test_every_section_of_a_document_is_listed(document: str) -> None:
    found = {number for section, *_ in rows(document) for number in listed(section)}
    found |= {number.partition(".")[0] for number in found}  # a heading that only has parts
    assert set(sections(document)) - found == set()
    assert {number for number in found if not number.startswith("Appendix")} - set(sections(document)) == set()


@pytest.mark.parametrize("document", [path.stem for path in DOCUMENTS])
def test_every_row_has_a_status_and_a_page_or_a_reason(document: str) -> None:
    for row in rows(document):
        assert len(row) == 3, row
        section, status, text = row
        assert status in STATUSES, section
        reason = re.sub(r"\[[^]]*\]\([^)]*\)|\(D\d+[^)]*\)", "", text)
        assert text if status == "works" else len(reason.split()) > 8, section
