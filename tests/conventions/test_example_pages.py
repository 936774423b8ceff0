"""Every example has a page, which is generated from its file, and its header shows how to run it."""

from __future__ import annotations

import pytest

from scripts.examples import EXAMPLES, FILES, runs, stale, text

BY_MAKE_RUN = {"report"}  # README.md shows it


def test_the_pages_of_examples_are_up_to_date() -> None:
    assert stale() == [], "run `python scripts/examples.py`"


def test_every_example_is_on_a_page() -> None:
    shown = [name for example in EXAMPLES for name in (example.name, *example.calls)]
    assert sorted(shown) == sorted({file.stem for file in FILES.glob("*.yaml")} - BY_MAKE_RUN)


@pytest.mark.parametrize("name", [example.name for example in EXAMPLES])
def test_a_header_shows_the_command_and_its_output(name: str) -> None:
    assert f"noetl run examples/{name}.yaml" in " ".join(run.command for run in runs(name))
    assert runs(name)[-1].printed
    assert all(len(line) <= 118 for line in text(name).head.splitlines())
