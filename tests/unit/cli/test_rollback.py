"""`noetl playbooks rollback`: an older version becomes the current one again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.playbooks import HEAD
from tests.unit.cli.invoke import noetl

TEXT = HEAD + "workflow:\n- step: start\n  tool: {kind: noop, input: {text: one}}\n"


def test_a_rollback_prints_its_plan_and_needs_yes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, db = tmp_path / "t.yaml", ("--db", str(tmp_path / "n.db"))
    for text in (TEXT, TEXT.replace("one", "two")):
        file.write_text(text)
        assert noetl("register", str(file), *db) == 0
    capsys.readouterr()
    assert noetl("playbooks", "rollback", "t", "1", "--format", "plain", *db) == 0
    plan = capsys.readouterr()
    assert "+  tool: {kind: noop, input: {text: one}}" in plan.out
    assert "--yes carries it out" in plan.err
    assert noetl("playbooks", "show", "t", *db) == 0
    assert "two" in capsys.readouterr().out
    assert noetl("playbooks", "rollback", "t", "1", "--yes", "--format", "json", *db) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["version"], document["replaces"], document["done"]) == (1, 2, True)
    assert noetl("playbooks", "show", "t", *db) == 0
    assert "one" in capsys.readouterr().out
    assert noetl("playbooks", "rollback", "t", "1", "--yes", *db) == 1
    assert "is already the current version" in capsys.readouterr().err
    assert noetl("playbooks", "rollback", "t", "9", "--yes", *db) == 1
    assert "its versions are 1 to 2" in capsys.readouterr().err
