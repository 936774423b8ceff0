"""Guides whose every file is saved and every command runs, in an empty folder, and prints what the page shows."""

from __future__ import annotations

import pytest

from tests.documents import reading
from tests.e2e.processes import ROOT

GUIDES = ("debugging", "importing", "notifications", "python", "testing", "what-if")


@pytest.mark.parametrize("name", GUIDES)
def test_a_reader_of_the_guide_sees_what_it_shows(name: str) -> None:
    with reading(ROOT / "docs" / "guides" / f"{name}.md") as reader:
        reader.follow()
