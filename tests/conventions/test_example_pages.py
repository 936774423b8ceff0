"""Every example has its page, made from the file itself, and its head says how to run it."""

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
def test_a_head_says_how_to_run_it_and_what_it_prints(name: str) -> None:
    assert f"noetl run examples/{name}.yaml" in " ".join(run.command for run in runs(name))
    assert runs(name)[-1].printed
    assert all(len(line) <= 118 for line in text(name).head.splitlines())
