"""The guide for playbooks of the public NoETL: every file is saved, every command runs, and prints what the page shows."""

from __future__ import annotations

from tests.documents import reading
from tests.e2e.processes import ROOT


def test_a_reader_of_the_guide_sees_what_it_shows() -> None:
    with reading(ROOT / "docs" / "guides" / "coming-from-public-noetl.md") as reader:
        reader.follow()
