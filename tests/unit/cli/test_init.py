"""`noetl init`: the first playbook of a newcomer, as it is written and run."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from noetl.cli.app import app
from tests.unit.cli.invoke import run_check, run_run


def test_what_is_written_has_no_problem_and_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    said = CliRunner().invoke(app, ["init"])
    assert (said.exit_code, said.output) == (
        0,
        "hello.yaml is written; run it: noetl run hello.yaml --set name=Ada\n",
    )
    assert run_check(["hello.yaml"], "plain", "canonical", strict=True) == 0
    assert capsys.readouterr().out.startswith("hello.yaml: no problems")
    assert run_run("hello.yaml", "name=Ada", db="own.db") == 0
    assert capsys.readouterr().out.endswith("output:\n  text: HELLO, ADA\n")


@pytest.mark.parametrize(
    ("name", "words"),
    [("mine.yaml", "the file already exists: name another file"), ("no/new.yaml", "no such")],
)
def test_what_is_there_is_never_overwritten(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "mine.yaml").write_text("mine")
    said = CliRunner().invoke(app, ["init", str(tmp_path / name)])
    assert (said.exit_code, words in said.output) == (2, True)
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("mine.yaml", "mine")]
