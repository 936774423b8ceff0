"""`noetl audit`, on real files that other hands have changed."""

from __future__ import annotations

import json
from pathlib import Path

import apsw
import pytest

from tests.playbooks import HEAD
from tests.unit.cli.executed import ENDED, LARGE, LEFT, changed, large_file, mixed_file
from tests.unit.cli.invoke import run_audit, run_run


def found(capsys: pytest.CaptureFixture[str]) -> list[tuple[str | None, int, str]]:
    document = json.loads(capsys.readouterr().out)
    return [(each["execution_id"], each["seq"], each["code"]) for each in document["findings"]]


def test_what_a_house_has_written_is_sound(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    db = mixed_file(tmp_path)
    assert run_audit(None, "plain", db) == 0
    assert capsys.readouterr().out == "2 executions, 54 facts, 0 results: no findings\n"
    assert run_audit(LEFT, "json", db) == 0
    assert json.loads(capsys.readouterr().out) == {"executions": 1, "facts": 21, "results": 0, "findings": []}


def test_a_request_that_never_began_has_no_text_to_look_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """D65."""
    file, db = tmp_path / "wrong.yaml", str(tmp_path / "own.db")
    file.write_text(HEAD + "workflow: [{step: start, tool: {kind: teleport}}]\n")
    assert run_run(str(file), db=db) == 2
    capsys.readouterr()
    assert run_audit(None, "plain", db) == 0
    assert capsys.readouterr().out == "1 execution, 3 facts, 0 results: no findings\n"


def test_every_result_is_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    db = large_file(tmp_path)
    assert run_audit("last", "plain", db) == 0
    assert " results: no findings" in capsys.readouterr().out
    damaged, gone, *_ = sorted((tmp_path / "large.db-results" / LARGE).iterdir())
    damaged.write_bytes(b"x" + damaged.read_bytes()[1:])
    gone.unlink()
    assert run_audit("last", "plain", db) == 1
    said = capsys.readouterr().out
    assert f"result: result {LARGE}/{damaged.name} has changed since it was stored" in said
    assert f"result: no result {LARGE}/{gone.name}" in said


def test_a_fact_that_is_missing_is_found_with_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    db = mixed_file(tmp_path)
    changed(db, "DELETE FROM log WHERE execution_id = ? AND last_seq = 33", ENDED)
    assert run_audit(ENDED, "json", db) == 1
    (finding,) = found(capsys)
    assert (finding[0], finding[2]) == (ENDED, "head")


def test_a_log_with_a_hole_has_a_gap(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    db = mixed_file(tmp_path)
    changed(db, "DELETE FROM log WHERE execution_id = ? AND first_seq = 1", ENDED)
    assert run_audit(None, "json", db) == 1
    assert "gap" in {code for id, _, code in found(capsys) if id == ENDED}


def test_a_log_that_can_not_be_read_is_found_and_the_others_are_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = mixed_file(tmp_path)
    changed(db, "UPDATE log SET body = '[{}]' WHERE execution_id = ? AND first_seq = 1", LEFT)
    changed(db, "UPDATE heads SET status = 'ok' WHERE execution_id = ?", ENDED)
    assert run_audit(None, "json", db) == 1
    assert found(capsys) == [(LEFT, 0, "log"), (ENDED, 33, "head")]


def test_a_head_that_says_something_else_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    db = mixed_file(tmp_path)
    changed(db, "UPDATE heads SET status = 'ok' WHERE execution_id = ?", ENDED)
    assert run_audit(None, "plain", db) == 1
    assert capsys.readouterr().out.splitlines() == [
        ENDED,
        "  33: head: it is listed as ok, and its log ends with playbook.processed error",
        "2 executions, 54 facts, 0 results: 1 finding",
    ]


def test_a_playbook_that_is_gone_or_another_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    db = mixed_file(tmp_path)
    changed(db, "UPDATE playbooks SET text = text || ' '")
    assert run_audit(None, "json", db) == 1
    assert found(capsys) == [(LEFT, 1, "playbook"), (ENDED, 1, "playbook")]
    changed(db, "DELETE FROM playbooks")
    assert run_audit(None, "json", db) == 1
    assert found(capsys) == [(LEFT, 1, "playbook"), (ENDED, 1, "playbook")]


def test_a_damaged_file_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    db = mixed_file(tmp_path)
    connection = apsw.Connection(db)
    page, size = connection.execute(
        "SELECT rootpage, page_size FROM sqlite_schema, pragma_page_size WHERE name = 'playbooks_by_path'"
    ).get
    connection.close()
    with open(db, "r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * 16)
    assert run_audit(None, "json", db) == 1
    assert set(found(capsys)) == {(None, 0, "database")}
