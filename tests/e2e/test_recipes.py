"""Each recipe is followed by its own words: in an empty folder, every command prints what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.documents import reading
from tests.e2e.processes import ROOT

PAGE = ROOT / "docs" / "guides" / "recipes.md"


def recipes() -> dict[str, str]:
    """The sections of the page, by their titles."""
    _, *parts = PAGE.read_text("utf-8").split("\n## ")
    return {part.partition("\n")[0]: f"# {part}\n" for part in parts}


RUN = [title for title, text in recipes().items() if "```" in text]


def test_every_recipe_runs_but_those_of_other_guides() -> None:
    assert set(recipes()) - set(RUN) == {"Approvals by e-mail"}  # the guide about notifications, which is run, too
    assert len(RUN) == 9


@pytest.mark.parametrize("title", RUN)
def test_who_follows_a_recipe_sees_what_it_shows(title: str, tmp_path: Path) -> None:
    page = tmp_path / "recipe.md"
    page.write_text(recipes()[title], "utf-8")
    with reading(page) as reader:
        reader.follow()
