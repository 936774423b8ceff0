"""`noetl new`: every template is a playbook without problems, in the canonical layout, whose tests pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.cli.commands.new import TEMPLATES
from tests.unit.cli.invoke import noetl


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_template_has_no_problems_and_its_tests_pass(
    template: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, test = tmp_path / "my-orders.yaml", tmp_path / "my-orders.test.yaml"
    assert noetl("new", template, str(file)) == 0
    assert f"noetl test {test}" in capsys.readouterr().out
    assert noetl("check", str(file), "--strict") == 0
    assert "warning" not in capsys.readouterr().out
    assert noetl("fmt", "--check", str(tmp_path)) == 0
    assert noetl("test", str(test), "--coverage") == 0
    said = capsys.readouterr().out
    assert " 0 passed" not in said
    assert "name: my_orders, path: my_orders" in file.read_text()
    assert "{name}" not in file.read_text() + test.read_text()


def test_without_a_template_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert noetl("new") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[:-1]] == list(TEMPLATES)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("orders", "x.yaml"), "the templates are api-to-postgres, webhook"),
        (("agent", "x.txt"), "ends in .yaml"),
        (("agent", "x.test.yaml"), "ends in .yaml"),
        (("agent", "mine.yaml"), "already exists"),
        (("agent", "theirs.yaml"), "theirs.test.yaml: the file already exists"),
    ],
)
def test_nothing_is_overwritten_and_mistakes_are_explained(
    arguments: tuple[str, str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("mine")
    (tmp_path / "theirs.test.yaml").write_text("mine")
    assert noetl("new", *arguments) == 2
    assert words in capsys.readouterr().err
    assert {each.read_text() for each in tmp_path.iterdir()} == {"mine"}
