"""`noetl fmt`: files, folders, standard input, exit codes."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from tests.playbooks import HEAD
from tests.unit.cli.invoke import noetl

UGLY = HEAD + 'workflow:\n- step: start  # first\n  tool: {kind: noop, input: {x: "{{execution_id}}"}}\n'
GOOD = 'workflow:\n  - step: start # first\n    tool: { kind: noop, input: { x: "{{ execution_id }}" } }\n'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("books/deep").mkdir(parents=True)
    Path("books/a.yaml").write_text(UGLY)
    Path("books/deep/values.yaml").write_text("x:   1\n")
    return tmp_path


def test_files_of_a_folder_are_rewritten_except_those_that_are_not_playbooks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert noetl("fmt", "books") == 0
    assert Path("books/a.yaml").read_text().endswith(GOOD)
    assert Path("books/deep/values.yaml").read_text() == "x:   1\n"
    out, err = capsys.readouterr()
    assert (out, err) == (
        "books/a.yaml: formatted\n",
        "noetl: books/deep/values.yaml: skipped: this is not a playbook\n",
    )
    assert noetl("fmt", "books", "--check") == 0


def test_check_writes_nothing_and_exits_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert noetl("fmt", "books/a.yaml", "--check") == 1
    assert Path("books/a.yaml").read_text() == UGLY
    assert capsys.readouterr().out == "books/a.yaml: would be formatted\n"


def test_diff_writes_nothing_and_shows_the_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert noetl("fmt", "books/a.yaml", "--diff") == 0
    assert noetl("fmt", "books/a.yaml", "--diff", "--check") == 1
    assert Path("books/a.yaml").read_text() == UGLY
    assert "\n+  - step: start # first\n" in capsys.readouterr().out


def test_standard_input_goes_to_standard_output(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(UGLY.encode())))
    assert noetl("fmt", "-") == 0
    assert capsysbinary.readouterr().out.decode().endswith(GOOD)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"kind: Playbook\nworkflow: [1\n", "yaml-syntax"),
        (b"kind: Playbook\nmetadata: \xff\n", "not UTF-8 (byte 25)"),
        (b"kind: Playbook\n? x\n: 1\n", "avoid `? key`"),
    ],
)
def test_a_file_that_cannot_be_formatted_stays_and_others_are_formatted(
    data: bytes, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("books/bad.yaml").write_bytes(data)
    assert noetl("fmt", "books/bad.yaml", "books/a.yaml") == 2
    assert Path("books/bad.yaml").read_bytes() == data
    assert Path("books/a.yaml").read_text().endswith(GOOD)
    assert message in capsys.readouterr().err


def test_a_file_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert noetl("fmt", "nothing.yaml") == 2
    assert capsys.readouterr().err == "noetl: nothing.yaml: there is no such file\n"
