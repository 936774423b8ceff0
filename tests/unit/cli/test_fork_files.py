"""`noetl fork` and `noetl what-if` see changes in the code beside a playbook."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.invoke import noetl, run_run

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: rates, path: rates}
workflow:
  - step: start
    tool: {kind: python, code: result = 1}
    next: {arcs: [{step: rate}]}
  - step: rate
    tool: {kind: python, script: calc.py}
    next: {arcs: [{step: show}]}
  - step: show
    tool: {kind: shell, argv: [echo, hello]}
"""


def test_a_changed_module_is_a_changed_step(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file, db = tmp_path / "rates.yaml", str(tmp_path / "noetl.db")
    file.write_text(PLAYBOOK)
    (tmp_path / "rates.py").write_text("RATE = 1")
    (tmp_path / "calc.py").write_text("import rates\nresult = rates.RATE")
    assert run_run(str(file), db=db) == 0

    def plan() -> dict[str, object]:
        capfd.readouterr()
        assert noetl("fork", "last", "--playbook", str(file), "--db", db, "--format", "json") == 0
        found: dict[str, object] = json.loads(capfd.readouterr().out)["plan"]
        return found

    before = plan()
    assert (before["kept"], before["unseen"]) == (["start#1", "rate#1", "show#1"], ["show"])
    assert noetl("what-if", "last", "--playbook", str(file), "--db", db) == 0
    (tmp_path / "rates.py").write_text("RATE = 2")
    after = plan()
    assert after["kept"] == ["start#1"]
    assert after["redone"] == [
        {"run": "rate#1", "why": "files that it uses have changed: rates.py"},
        {"run": "show#1", "why": "depends on rate#1"},
    ]
    assert noetl("what-if", "last", "--playbook", str(file), "--db", db) == 1
    assert "rate.rate_task" in "".join(capfd.readouterr())
    assert noetl("fork", "last", "--failed-only", "--playbook", str(file), "--db", db) == 0
    assert "kept: 3 runs" in capfd.readouterr().err


def test_explain_says_which_calls_a_fork_has_kept(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file, db = tmp_path / "rates.yaml", str(tmp_path / "noetl.db")
    file.write_text(PLAYBOOK)
    (tmp_path / "calc.py").write_text("result = 1")
    assert run_run(str(file), db=db) == 0
    capfd.readouterr()
    assert noetl("fork", "last", "--from", "show", "--yes", "--db", db, "--format", "json") == 0
    origin = json.loads(capfd.readouterr().out)["fork"]["execution_id"]
    for step, kept in (("rate", True), ("show", False)):
        assert noetl("explain", "last", step, "--db", db) == 0
        said = f"  kept from {origin}, not run again: 1 call"
        assert (said in capfd.readouterr().out.splitlines()) == kept
