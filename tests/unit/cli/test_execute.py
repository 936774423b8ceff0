"""Errors as words and as one document."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NoReturn

import pytest

from noetl.cli.execute import Reporter, execute
from noetl.errors import Damaged, Mark, NotFound, PlaybookError, Problem, Rejected, Unavailable
from noetl.session.errors import UsageError


@pytest.mark.parametrize(
    ("error", "code", "kind", "words"),
    [
        (UsageError("no such file\n  really"), 2, "usage", "noetl: no such file\n  really\n"),
        (Rejected("held", "process 3 has it"), 1, "held", "noetl: process 3 has it\n"),
        (NotFound("no text"), 1, "not-found", "noetl: no text\n"),
        (Unavailable("storage full"), 3, "unavailable", "noetl: storage full\nnoetl: continue\n"),
        (Damaged("the log \x1b[2J"), 3, "damaged", "noetl: the log ␛[2J\nnoetl: continue\n"),
    ],
)
def test_every_error_has_its_exit_code_its_words_and_its_document(
    error: Exception, code: int, kind: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(reporter: Reporter) -> int:
        reporter.execution_id, reporter.status, reporter.advice = "01", "running", "continue"
        raise error

    assert execute("json", work) == code
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert (document.pop("error")["kind"], document, err) == (
        kind, {"execution_id": "01", "status": "running"}, words,
    )  # fmt: skip
    assert execute("plain", work) == code
    assert capsys.readouterr() == ("", words)


def test_a_stored_playbook_that_cannot_run_here_prints_its_problems(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def work(reporter: Reporter) -> int:
        del reporter
        raise PlaybookError([Problem("unknown-kind", "error", "no tool", Mark("t.yaml", 5, 7))])

    assert execute("json", work) == 2
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert (document["error"], [each["code"] for each in document["problems"]]) == (
        {"kind": "problems", "message": "the playbook has 1 problem, at 5:7: unknown-kind: no tool"},
        ["unknown-kind"],
    )
    assert err == "t.yaml:5:7: error: unknown-kind: no tool\n"


def test_lines_go_to_standard_output_only_without_a_document(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def work(reporter: Reporter) -> int:
        reporter.screen.line("hello")
        reporter.document({"n": 1})
        return 0

    assert execute("plain", work) == 0
    assert capsys.readouterr() == ("hello\n", "")
    assert execute("json", work) == 0
    assert capsys.readouterr() == ('{\n  "n": 1\n}\n', "hello\n")


def raising(error: BaseException) -> Callable[[Reporter], int]:
    def command(_reporter: Reporter) -> NoReturn:
        raise error

    return command


@pytest.mark.parametrize("code", [0, 2])
def test_the_code_of_a_command_is_passed_on(code: int) -> None:
    assert execute("auto", lambda _reporter: code) == code


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (UsageError("a\x1b.yaml: no"), 2, "noetl: a␛.yaml: no\n"),
        (
            PlaybookError([Problem("no-start", "error", "no start", Mark("a.yaml", 1, 2))]),
            2,
            "a.yaml:1:2: error: no-start: no start\n",
        ),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_an_error_is_printed_on_standard_error_and_has_its_exit_code(
    error: BaseException, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute("auto", raising(error)) == code
    assert capsys.readouterr() == ("", words)


def test_a_bug_is_not_caught() -> None:
    with pytest.raises(AssertionError):
        execute("auto", raising(AssertionError("a bug")))
