"""`noetl secrets`: what it asks for, what it says, and that it never shows a value."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.unit.cli.invoke import run_list_secrets, run_remove, run_rotate, run_set


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "noetl.db")


def test_a_value_on_the_command_line_is_taken_with_a_warning(db: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_set("pg", "hunter22", db, "plain") == 0
    said = capsys.readouterr()
    assert said.out == "pg: version 1 is stored\n"
    assert said.err.startswith("the value is on the command line, where other users")
    assert "hunter22" not in said.out + said.err


def test_a_value_may_come_from_a_file(db: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "token"
    file.write_text("hunter22\n")
    assert run_set("pg", f"@{file}", db, "json") == 0
    said = capsys.readouterr()
    assert (json.loads(said.out), said.err) == ({"name": "pg", "version": 1}, "")
    file.write_bytes(b"\xff")
    assert run_set("pg", f"@{file}", db, "plain") == 2
    assert re.search("is not UTF-8 text", capsys.readouterr().err)
    assert run_set("pg", f"@{file}.no", db, "plain") == 2
    assert re.search("cannot be read: No such file", capsys.readouterr().err)


def test_secrets_are_listed_by_name_and_version(db: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_list_secrets(db, "plain") == 0
    assert "no secret is stored here" in capsys.readouterr().err
    for name in ("b", "a", "a"):
        run_set(name, "hunter22", db, "plain")
    capsys.readouterr()
    assert run_list_secrets(db, "plain") == 0
    assert re.sub(r"just now|\d+ s ago", "lately", capsys.readouterr().out).splitlines() == [
        "NAME  VERSION  SET",
        "a     2        lately",
        "b     1        lately",
    ]
    assert run_list_secrets(db, "json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [(each["name"], each["version"], sorted(each)) for each in told] == [
        ("a", 2, ["at", "name", "version"]),
        ("b", 1, ["at", "name", "version"]),
    ]


def test_a_removed_secret_is_not_listed_and_one_that_is_not_there_is_an_error(
    db: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_remove("pg", db, "plain") == 1
    run_set("pg", "hunter22", db, "plain")
    assert run_remove("pg", db, "plain") == 0
    assert capsys.readouterr().out.endswith("pg: removed\n")
    assert run_remove("pg", db, "plain") == 1


def test_the_key_is_changed_and_says_for_how_many(db: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_rotate(db, "plain") == 1
    run_set("pg", "hunter22", db, "plain")
    before = Path(f"{db}.key").read_bytes()
    assert run_rotate(db, "json") == 0
    assert json.loads(capsys.readouterr().out.partition("\n")[2]) == {"count": 1}
    assert Path(f"{db}.key").read_bytes() != before


def test_what_is_too_short_to_be_masked_is_refused(db: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_set("pg", "abc", db, "plain") == 1
    assert re.search("at least 4 characters", capsys.readouterr().err)
