"""A playbook from a file, upgraded when asked for (D2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.cli.exits import Usage
from noetl.cli.loading import Loaded, Refused, installed, load
from noetl.errors import Mark
from tests.playbooks import HEAD, kinds

CLEAN = HEAD + "workflow:\n- {step: start, tool: {kind: noop}}\n"
OLD = HEAD + "workflow:\n- {step: start, tool: {kind: noop}, next: [{step: end}]}\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_tools_are_those_that_are_installed() -> None:
    assert installed() == kinds()


def test_a_canonical_text_is_the_same_in_both_dialects() -> None:
    Path("t.yaml").write_text(CLEAN)
    canonical, upgraded = load("t.yaml", "canonical", kinds()), load("t.yaml", "auto", kinds())
    assert isinstance(canonical, Loaded)
    assert isinstance(upgraded, Loaded)
    assert canonical.checked.document[:3] == upgraded.checked.document[:3]
    assert canonical.notes == upgraded.notes


def test_an_upgraded_text_says_so_in_its_name_and_notes_point_into_the_original() -> None:
    """D2, D80."""
    Path("t.yaml").write_text(OLD)
    loaded = load("t.yaml", "auto", kinds())
    assert isinstance(loaded, Loaded)
    assert (loaded.checked.document.file, loaded.checked.errors) == ("t.yaml (migrated)", ())
    assert [(note.at, note.code) for note in loaded.notes] == [(Mark("t.yaml", 5, 44), "arc-on-failure")]


def test_what_can_not_be_upgraded_comes_back_with_its_text_and_problems() -> None:
    """D61."""
    text = HEAD + "workflow:\n- {step: start, case: [], tool: {kind: noop}}\n"
    Path("t.yaml").write_text(text)
    loaded = load("t.yaml", "auto", kinds())
    assert isinstance(loaded, Refused)
    assert (loaded.file, loaded.text, [(each.code, each.at.line) for each in loaded.problems]) == (
        "t.yaml",
        text,
        [("reserved-word", 5)],
    )


def test_what_is_not_there_is_a_matter_of_usage() -> None:
    with pytest.raises(Usage, match="no such file"):
        load("no.yaml", "auto", kinds())
