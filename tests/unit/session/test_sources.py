"""A playbook from a file, upgraded when asked for (D2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.errors import Mark
from noetl.session import sources
from noetl.session.errors import UsageError
from noetl.session.local import InstalledTools
from noetl.session.sources import PlaybookFile, load, read_source
from noetl.tool import Tools
from tests.playbooks import HEAD, kinds

CLEAN = HEAD + "workflow:\n- {step: start, tool: {kind: noop}}\n"
OLD = HEAD + "workflow:\n- {step: start, tool: {kind: noop}, next: [{step: end}]}\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_tools_are_those_that_are_installed() -> None:
    assert InstalledTools.load().kinds == Tools.installed().kinds()


def test_a_canonical_text_is_the_same_in_both_dialects() -> None:
    Path("t.yaml").write_text(CLEAN)
    canonical, upgraded = (
        load(read_source("t.yaml"), "canonical", kinds()),
        load(read_source("t.yaml"), "auto", kinds()),
    )
    assert canonical.checked is not None
    assert upgraded.checked is not None
    assert canonical.checked.document[:3] == upgraded.checked.document[:3]
    assert canonical.notes == upgraded.notes


def test_an_upgraded_text_says_so_in_its_name_and_notes_point_into_the_original() -> None:
    """D2, D80."""
    Path("t.yaml").write_text(OLD)
    loaded = load(read_source("t.yaml"), "auto", kinds())
    assert loaded.checked is not None
    assert (loaded.checked.document.file, loaded.checked.errors) == ("t.yaml", ())
    assert [(note.at, note.code) for note in loaded.notes] == [(Mark("t.yaml", 5, 44), "arc-on-failure")]


def test_what_can_not_be_upgraded_comes_back_with_its_text_and_problems() -> None:
    """D61."""
    text = HEAD + "workflow:\n- {step: start, tool: {kind: noop}, loop: {cursor: {}}}\n"
    Path("t.yaml").write_text(text)
    loaded = load(read_source("t.yaml"), "auto", kinds())
    assert loaded.checked is None
    assert (loaded.name, loaded.text, [(each.code, each.at.line) for each in loaded.problems]) == (
        "t.yaml",
        text,
        [("old-dialect", 5)],
    )


def test_what_is_not_there_is_a_matter_of_usage() -> None:
    with pytest.raises(UsageError, match="no such file"):
        load(read_source("no.yaml"), "auto", kinds())


def test_a_file_is_read_as_bytes(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(b"\xff\r\n")
    assert read_source(str(file)) == PlaybookFile(str(file), b"\xff\r\n", str(file))


def test_what_can_not_be_read_is_said_in_words(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as missing:
        read_source(str(tmp_path / "no.yaml"))
    with pytest.raises(UsageError) as folder:
        read_source(str(tmp_path))
    assert [str(missing.value), str(folder.value)] == [
        f"{tmp_path / 'no.yaml'}: there is no such file",
        f"{tmp_path}: this is a folder, not a file",
    ]


def test_reading_stops_at_the_limit(tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.write_bytes(b"x" * (sources.READ_BYTES_MAX + 10))
    assert len(read_source(str(file)).data) == sources.READ_BYTES_MAX
