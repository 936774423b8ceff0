"""Code of `python` tasks (L4): compiled by the check, reported with the position in the file, never run."""

from __future__ import annotations

import warnings

import pytest

from noetl.checks.python_code import CODE_CHARS_MAX
from tests.playbooks import checked, problem_places, task


def at_fault(code: str) -> list[tuple[str, int, int]]:
    """Problems of a task whose `code` is in line 8."""
    return problem_places(checked(task(f"kind: python\ncode: {code}")).problems)


@pytest.mark.parametrize(
    ("code", "line", "column"),
    [
        ("|\n  def main():\n      x = = 3\n", 10, 17),
        ("|\n\n  # a comment\n  x = = 3\n", 11, 13),
        ("|2-  # as it is\n  x = = 3\n", 9, 13),
        ("&code |\n  x = = 3\n", 9, 13),
        ("|\n  return 3\n", 9, 9),
        ("|\n  def main(\n", 9, 17),
        ("x = = 3", 8, 17),
        ('"x = = 3"', 8, 18),
        ("'x = = 3'", 8, 18),
        ("|\n  grüße = 'äö' + = 3\n", 9, 24),
    ],
)
def test_a_fault_is_told_at_its_line_and_column_of_the_file(code: str, line: int, column: int) -> None:
    assert at_fault(code) == [("bad-code", line, column)]


@pytest.mark.parametrize("code", [">\n  x = 1\n\n  y = = 3\n", '"x = 1\\ny = = 3"'])
def test_where_yaml_put_the_lines_together_the_line_is_said_in_words(code: str) -> None:
    (found,) = checked(task(f"kind: python\ncode: {code}")).problems
    assert found.message == 'the code of "task_0" is not valid Python: invalid syntax in line 2 of the code'
    assert (found.severity, found.at.line, found.at.column) == ("warning", 8, 13)


def test_it_is_no_error_since_every_worker_that_loads_a_playbook_checks_it_with_its_own_python() -> None:
    found = checked(task("kind: python\ncode: x = = 3"))
    assert (found.errors, found.verdict) == ((), "sound")


def test_lines_with_carriage_returns_are_counted_like_others() -> None:
    body = task("kind: python\ncode: |\n  x = 1\n  y = = 3\n").replace("\n", "\r\n")
    assert problem_places(checked(body).problems) == [("bad-code", 10, 13)]


@pytest.mark.parametrize(
    "code",
    ["|\n  import sys; sys.exit(3)\n", "|\n  while True: pass\n", "|\n  raise SystemExit(1 / 0)\n", '""'],
)
def test_code_is_compiled_and_never_run(code: str) -> None:
    assert at_fault(code) == []


def test_a_doubtful_escape_is_no_problem_and_warns_nobody() -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert at_fault("|\n  pattern = '\\d'\n  same = pattern is 'x'\n") == []
    assert said == []


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("-" * 20_000 + "1", "it is nested too deeply, in 20,001 characters"),
        ("x" + ".a" * 15_000, "it is nested too deeply, in 30,001 characters"),
        ("(" * 20_000, "too many nested parentheses"),
        ("x = " + "9" * 20_000, "Exceeds the limit"),
    ],
    ids=["signs", "attributes", "brackets", "digits"],
)
def test_hostile_code_is_refused_in_words(code: str, reason: str) -> None:
    (found,) = checked(task(f"kind: python\ncode: {code!r}")).problems
    assert found.code == "bad-code"
    assert reason in found.message
    assert len(found.message) < 250


def test_a_nul_is_no_code() -> None:
    assert [each[0] for each in at_fault('"x = 1\\0"')] == ["bad-code"]


def test_beyond_the_limit_code_is_believed() -> None:
    half = "# " + "x" * (CODE_CHARS_MAX // 2)
    assert at_fault(f"|\n  {half}\n  y = = 3\n") == [("bad-code", 10, 13)]
    assert at_fault(f"|\n  {half}{half}\n  y = = 3\n") == []


def test_code_of_other_kinds_and_of_files_is_not_looked_at() -> None:
    assert checked(task("kind: python\nscript: no_such_file.py")).problems == ()
    assert checked(task("kind: shell\nsh: x = = 3")).problems == ()
