"""`noetl migrate` without a process (D79)."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.cli.commands.migrate import MigrateOptions, migrate_file, report_folder
from noetl.cli.execute import Reporter
from noetl.errors import PlaybookError
from noetl.playbook.dialects.notes import NOTES
from noetl.playbook.format import format_text
from noetl.session.errors import UsageError
from tests.playbooks import HEAD

OLD = HEAD + "workflow:  # steps\n  - step: start\n    tool: {kind: noop}\n    next:\n      - step: end\n"
NEW = (
    HEAD
    + "workflow:  # steps\n  - step: start\n    tool: {kind: noop}\n"
    + "    next:\n      arcs:\n        - step: end\n"
)


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = Path("old.yaml")
    path.write_text(OLD)
    return path


def migrated(
    file: str = "old.yaml",
    out: str | None = None,
    *,
    write: bool = False,
    diff: bool = False,
    exact: bool = False,
    annotate: bool = False,
    keep_layout: bool = True,
) -> int:
    options = MigrateOptions(out, write, diff, exact, annotate, keep_layout)
    return migrate_file(Reporter("auto"), file, options)


def test_the_text_goes_to_standard_output_and_notes_to_standard_error(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    """D79, D80."""
    assert migrated() == 0
    out, err = capsys.readouterr()
    assert (out, file.read_text()) == (NEW, OLD)
    assert err.startswith("old.yaml:8:9: note: arc-on-failure: ")
    assert err.count("\n") == 1


def test_the_result_has_the_layout_of_fmt_and_an_unchanged_file_keeps_its_own(file: Path) -> None:
    assert migrated(write=True, keep_layout=False) == 0
    assert file.read_text() == (
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: t, path: t }\n\n"
        "workflow: # steps\n  - step: start\n    tool: { kind: noop }\n"
        "    next:\n      arcs:\n        - step: end\n"
    )
    file.write_text(NEW)
    assert migrated(write=True, keep_layout=False) == 0
    assert file.read_text() == NEW


def test_a_canonical_text_is_printed_in_the_layout_of_fmt(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(NEW)
    assert migrated(keep_layout=False) == 0
    printed = capsys.readouterr().out
    assert printed == format_text(NEW).text != NEW


def test_a_file_is_rewritten_in_place(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert migrated(write=True) == 0
    assert (file.read_text(), capsys.readouterr().out) == (NEW, "")


def test_a_file_that_does_not_change_is_not_written_again(file: Path) -> None:
    file.write_text(NEW)
    before = file.stat()
    assert migrated(write=True) == 0
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_another_file_is_written(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert migrated(out="new.yaml") == 0
    assert (Path("new.yaml").read_text(), file.read_text(), capsys.readouterr().out) == (NEW, OLD, "")


def test_a_difference_is_shown_and_nothing_written(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert migrated(diff=True) == 0
    assert capsys.readouterr().out == (
        "--- old.yaml\n+++ old.yaml\n@@ -5,4 +5,5 @@\n   - step: start\n     tool: {kind: noop}\n     next:\n"
        "-      - step: end\n+      arcs:\n+        - step: end\n"
    )
    assert file.read_text() == OLD


def test_exact_and_annotate_are_passed_on(capsys: pytest.CaptureFixture[str]) -> None:
    """D80."""
    assert migrated(exact=True) == 0
    assert "event.name in" in capsys.readouterr().out
    assert migrated(annotate=True) == 0
    assert "# migrate: " in capsys.readouterr().out


def test_what_is_refused_is_shown_as_by_check_and_exits_with_2(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """D61, D79."""
    file.write_text(HEAD + "workflow:\n- step: start\n  sink: x\n  tool: {kind: noop}\n")
    assert migrated(write=True) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[0].startswith("old.yaml:6:3: error: old-dialect: ")
    assert err.splitlines()[1:3] == ["    sink: x", "    ^"]


def test_line_ends_stay_as_they_are(file: Path) -> None:
    file.write_bytes(OLD.replace("\n", "\r\n").encode())
    assert migrated(write=True) == 0
    assert file.read_bytes() == NEW.replace("\n", "\r\n").encode()


def test_options_that_exclude_each_other_are_refused() -> None:
    with pytest.raises(UsageError, match="--output, --write and --diff exclude each other"):
        migrated(write=True, diff=True)
    with pytest.raises(UsageError, match="standard input cannot be rewritten"):
        migrated("-", write=True)


def test_text_that_is_not_utf_8_is_a_problem(file: Path) -> None:
    file.write_bytes(b"\xff")
    with pytest.raises(PlaybookError, match="yaml-encoding"):
        migrated()


def test_a_result_that_fails_the_check_is_written_and_exits_with_1(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """D117: the problems stand where the author wrote their causes."""
    file.write_text(HEAD + "workflow:\n- step: start\n  type: rhai\n  code: x\n")
    assert migrated(out="new.yaml") == 1
    assert "kind: rhai" in Path("new.yaml").read_text()
    err = capsys.readouterr().err.splitlines()
    assert err[0].startswith("old.yaml:6:3: error: unknown-kind: ")
    assert err[-1] == "old.yaml: the result has 1 problem that needs a change by hand"


def test_a_report_counts_outcomes_and_groups_causes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is written; causes have an example and a way out."""
    folder = tmp_path / "books"
    folder.mkdir()
    (folder / "a.yaml").write_text(NEW)
    (folder / "b.yaml").write_text(OLD)
    (folder / "c.yaml").write_text(HEAD + "workflow:\n- step: start\n  type: rhai\n  code: x\n")
    for name in ("d", "e"):
        (folder / f"{name}.yaml").write_text(
            HEAD + "workflow:\n- step: start\n  loop: {cursor: {}}\n  tool: {kind: noop}\n"
        )
    (folder / "values.yaml").write_text("replicas: 3\n")
    assert report_folder(Reporter("auto"), str(folder)) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "5 playbooks"
    assert [line.split()[0] for line in lines[1:5]] == ["1", "1", "1", "2"]
    at = lines.index("refused, by cause:")
    assert lines[at + 1].split()[:2] == ["2", "old-dialect:"]
    assert lines[at + 2].strip().startswith(f"{folder}/d.yaml:6:")
    assert lines[at + 3].strip().startswith("fix: read the rows")
    assert lines[at + 4].strip().startswith(f"also {folder}/e.yaml:6:")
    notes = lines[lines.index("notes, by the number of playbooks:") + 1 :]
    assert [note.split(maxsplit=2)[2].strip() for note in notes] == [NOTES[note.split()[1]] for note in notes]
    assert (folder / "b.yaml").read_text() == OLD


def test_a_report_needs_a_folder() -> None:
    with pytest.raises(UsageError, match="needs a folder"):
        report_folder(Reporter("auto"), "old.yaml")
