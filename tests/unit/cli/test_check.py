"""`noetl check` without a process: what is printed, and the exit code (D78)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.playbooks import HEAD
from tests.unit.cli.invoke import run_check

CLEAN = HEAD + "workflow:\n- {step: start, tool: {kind: noop}}\n"
WARNING = HEAD + "workflow:\n- {step: start}\n"
ERROR = HEAD + "workflow:\n- {step: start, next: {arcs: [{step: valdate}]}}\n- {step: validate, tool: {kind: noop}}\n"
OLD = HEAD.replace("path: t", "path: t/old") + (
    "workflow:\n- step: start\n  tool:\n  - ask:\n      kind: noop\n      eval:\n"
    "      - {expr: \"{{ outcome.status == 'success' }}\", do: continue}\n"
)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("t.yaml")


def test_a_clean_playbook_is_sound_in_words(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(CLEAN)
    assert run_check(["t.yaml"], "auto", "canonical", strict=False) == 0
    assert capsys.readouterr() == (
        "t.yaml: no problems; sound: every token can reach an end, assuming that each guard can be true and can be false\n",
        "",
    )


def test_an_error_is_shown_with_its_line_and_a_caret_and_exits_with_2(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(ERROR)
    assert run_check(["t.yaml"], "plain", "canonical", strict=False) == 2
    assert capsys.readouterr().out.splitlines() == [
        't.yaml:5:38: error: unknown-step: arc of "start" leads to "valdate", which is not a step;'
        ' did you mean "validate"?',
        "  - {step: start, next: {arcs: [{step: valdate}]}}",
        "                                       ^",
        "  fix: validate",
        't.yaml:6:10: warning: unreachable-step: no arcs lead from "start" to "validate"',
        "  - {step: validate, tool: {kind: noop}}",
        "           ^",
        "t.yaml: 1 error, 1 warning; soundness not checked, because of the errors",
    ]


@pytest.mark.parametrize(("strict", "code"), [(False, 0), (True, 2)])
def test_warnings_count_only_when_strict(
    strict: bool, code: int, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """D78: warnings never stop a run."""
    file.write_text(WARNING)
    assert run_check(["t.yaml"], "plain", "canonical", strict=strict) == code
    assert capsys.readouterr().out.splitlines()[-1].startswith("t.yaml: 1 warning; sound")


def test_infos_do_not_count_even_when_strict(file: Path) -> None:
    """D38 is reported as an info."""
    file.write_text(HEAD + "workflow:\n- {step: start, tool: {kind: http, url: x}, next: {arcs: [{step: end}]}}\n")
    assert run_check(["t.yaml"], "plain", "canonical", strict=True) == 0


def test_an_unprovable_and_an_unsound_net_are_said_in_words(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """D41, D78."""
    file.write_text(HEAD + 'workflow:\n- {step: start, next: {arcs: [{step: "{{ workload.x | default(1) }}"}]}}\n')
    Path("circle.yaml").write_text(HEAD + "workflow:\n- {step: start, next: {arcs: [{step: start}]}}\n")
    assert run_check(["t.yaml"], "plain", "canonical", strict=False) == 0
    assert run_check(["circle.yaml"], "plain", "canonical", strict=False) == 2
    assert [line for line in capsys.readouterr().out.splitlines() if "; " in line and "error:" not in line] == [
        "t.yaml: 1 info; soundness not provable: the target of an arc is a template",
        "circle.yaml: 1 error; not sound: a token can be caught in a cycle",
    ]


def test_json_is_one_array_over_all_files_and_nothing_else(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(ERROR)
    Path("w.yaml").write_text(WARNING)
    Path("clean.yaml").write_text(CLEAN)
    assert run_check(["t.yaml", "w.yaml", "clean.yaml"], "json", "canonical", strict=False) == 2
    assert [(each["file"], each["code"]) for each in json.loads(capsys.readouterr().out)] == [
        ("t.yaml", "unknown-step"),
        ("t.yaml", "unreachable-step"),
        ("w.yaml", "empty-step"),
    ]


def test_a_file_that_is_not_there_does_not_keep_the_others_from_being_checked(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(CLEAN)
    assert run_check(["no.yaml", "t.yaml"], "json", "canonical", strict=False) == 2
    assert capsys.readouterr() == ("[]\n", "noetl: no.yaml: there is no such file\n")


@pytest.mark.usefixtures("file")
def test_of_a_folder_all_playbooks_are_checked_and_the_rest_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, text in {
        "b.yaml": CLEAN,
        "sub/a.yml": WARNING,
        "compose.yaml": "services: {}\n",
        ".hidden.yaml": ERROR,
        "notes.txt": "x",
    }.items():
        (Path("folder") / name).parent.mkdir(parents=True, exist_ok=True)
        (Path("folder") / name).write_text(text)
    assert run_check(["folder"], "plain", "canonical", strict=False) == 0
    told = capsys.readouterr()
    assert [line for line in told.out.splitlines() if "sound" in line] == [
        "folder/b.yaml: no problems; sound: every token can reach an end, assuming that each guard can be true and can be false",
        "folder/sub/a.yml: 1 warning; sound: every token can reach an end, assuming that each guard can be true and can be false",
    ]
    assert told.err == "noetl: folder/compose.yaml: skipped: this is not a playbook\n"


def test_a_test_file_beside_a_playbook_is_left_to_noetl_test(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(CLEAN)
    Path("t.test.yaml").write_text("playbook: t.yaml\ntests: [{name: one}]\n")
    said = "noetl: t.test.yaml: skipped: this is a test file; noetl test t.test.yaml checks and runs it\n"
    assert run_check(["t.test.yaml", "t.yaml"], "json", "canonical", strict=False) == 0
    assert capsys.readouterr() == ("[]\n", said)
    assert run_check(["t.test.yaml"], "json", "canonical", strict=False) == 2
    assert capsys.readouterr() == ("[]\n", said)


def test_a_folder_without_a_playbook_is_said(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(CLEAN)
    Path("empty").mkdir()
    Path("other").mkdir()
    Path("other/compose.yaml").write_text("services: {}\n")
    assert run_check(["empty", "other", "t.yaml"], "json", "canonical", strict=False) == 2
    assert capsys.readouterr() == (
        "[]\n",
        "noetl: empty: there is no playbook in this folder\n"
        "noetl: other/compose.yaml: skipped: this is not a playbook\n"
        "noetl: other: there is no playbook in this folder\n",
    )


@pytest.mark.usefixtures("file")
def test_a_playbook_of_a_folder_that_is_no_yaml_is_not_passed_over(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("folder").mkdir()
    Path("folder/broken.yaml").write_text(HEAD + "workflow: [\n")
    assert run_check(["folder"], "plain", "canonical", strict=False) == 2
    assert "folder/broken.yaml:5:1: error: yaml-syntax" in capsys.readouterr().out


def test_an_older_dialect_is_a_problem_unless_it_is_upgraded(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """D1, D2."""
    file.write_text(OLD)
    assert run_check(["t.yaml"], "json", "canonical", strict=False) == 2
    assert {each["code"] for each in json.loads(capsys.readouterr().out)} == {"old-dialect"}
    assert run_check(["t.yaml"], "plain", "auto", strict=False) == 0
    assert capsys.readouterr().out.startswith("t.yaml: ")


def test_what_can_not_be_upgraded_is_shown_where_it_stands_in_the_original(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """D61."""
    file.write_text(HEAD + "workflow:\n- step: start\n  case: 1\n  tool: {kind: noop}\n")
    assert run_check(["t.yaml"], "plain", "auto", strict=False) == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("t.yaml:6:3: error: old-dialect: ")
    assert lines[1:3] == ["    case: 1", "    ^"]
    assert lines[-1] == "t.yaml: 1 error; cannot be upgraded"


@pytest.mark.parametrize("dialect", ["canonical", "auto"])
def test_text_that_is_not_utf_8_is_a_problem(dialect: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_bytes(b"a: \xff\n")
    assert run_check(["t.yaml"], "json", "auto" if dialect == "auto" else "canonical", strict=False) == 2
    assert [each["code"] for each in json.loads(capsys.readouterr().out)] == ["yaml-encoding"]


def test_a_hostile_text_is_shown_and_not_obeyed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(HEAD + 'workflow: [{step: start, "\\e[31m[red]": 1, tool: {kind: noop}}]\n')
    assert run_check(["t.yaml"], "plain", "canonical", strict=False) == 2
    told = capsys.readouterr().out
    assert "\x1b" not in told
    assert '"␛[31m[red]"' in told
