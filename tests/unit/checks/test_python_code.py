"""Code of `python` tasks (L4): compiled by the check, reported with the position in the file, never run."""

from __future__ import annotations

import warnings
from textwrap import indent

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
    assert (found.severity, found.at.line, found.at.column) == ("error", 8, 13)


def test_it_is_an_error_that_does_not_stop_what_an_earlier_release_has_accepted_d108() -> None:
    found = checked(task("kind: python\ncode: x = = 3"))
    assert [each.code for each in found.errors] == ["bad-code"]
    assert (found.blocking, found.verdict) == ((), None)


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


def found_in(input: str, code: str, rest: str = "") -> list[tuple[str, str, int, int, str | None]]:
    """Problems of a task whose `input` is in line 8 and whose code begins in line 10."""
    body = f"kind: python\ninput: {input}\ncode: |\n{indent(code, '  ')}\n{rest}"
    return [(each.code, each.severity, each.at.line, each.at.column, each.fix) for each in checked(task(body)).problems]


def test_a_parameter_of_main_without_a_value_is_an_error_at_the_parameter_d108() -> None:
    code = "import math\n\ndef main(grüße, rows, *, limit, rest=1): return [grüße, rows, limit, rest]"
    assert found_in("{grüße: hi, limit: 3}", code) == [
        ("missing-argument", "error", 12, 25, "input: {rows: …}"),
    ]
    assert found_in("{grüße: hi, rows: []}", code) == [
        ("missing-argument", "error", 12, 34, "input: {limit: …}"),
    ]


def test_a_misspelt_name_is_told_on_both_sides_d108() -> None:
    (missing, unused) = checked(
        task("kind: python\ninput: {nubmers: [1]}\ncode: |\n  def main(numbers): return sum(numbers)\n")
    ).problems[::-1]
    assert missing.message == (
        'main of "task_0" requires "numbers", which `input` does not contain; did you mean "numbers" instead of "nubmers"?'
    )
    assert unused.message == 'the code of "task_0" does not use "nubmers" of `input`; did you mean "numbers"?'
    assert (unused.severity, unused.at.line, unused.at.column, unused.fix) == ("warning", 8, 15, "numbers")


@pytest.mark.parametrize(
    ("input", "code", "rest"),
    [
        ("{a: 1}", "def main(a, b=2): return a + b", ""),
        ("{a: 1, b: 2}", "def main(a, **rest): return rest", ""),
        ("{a: 1, b: 2}", "def main(a):\n    return a + b", ""),  # `input` is global, too
        ("{a: 1}", "result = a + 1", ""),
        ("{a: 1}", "def f():\n    return [a for _ in (1,)]\nresult = f()", ""),
        ("{a: 1}", "result = globals()['a']", ""),
        ("{a: 1}", "result = 1", "set: {step.a: '{{ input.a }}'}"),
        ("{}", "import functools\n@functools.cache\ndef main(a=1): return a", ""),
        ("{}", "def main(a): return a\nmain = lambda: 1", ""),
        ("{}", "async def main(): return 1", ""),
    ],
)
def test_arguments_that_fit_are_no_problem_d108(input: str, code: str, rest: str) -> None:
    assert found_in(input, code, rest) == []


def test_input_that_nothing_reads_is_a_warning_d108() -> None:
    assert found_in("{a: 1, b: 2}", "def main(a): return a") == [("unused-argument", "warning", 8, 21, None)]
    assert found_in("{b: 2}", "result = 3") == [("unused-argument", "warning", 8, 15, None)]
