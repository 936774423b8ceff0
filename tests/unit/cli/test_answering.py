"""Errors as words and as one document."""

from __future__ import annotations

import json

import pytest

from noetl.cli.answering import Voice, answered
from noetl.cli.exits import Usage
from noetl.errors import Damaged, Mark, NotFound, PlaybookError, Problem, Rejected, Unavailable


@pytest.mark.parametrize(
    ("error", "code", "kind", "words"),
    [
        (Usage("no such file\n  really"), 2, "usage", "noetl: no such file\n  really\n"),
        (Rejected("held", "process 3 has it"), 1, "held", "noetl: process 3 has it\n"),
        (NotFound("no text"), 1, "not-found", "noetl: no text\n"),
        (Unavailable("storage full"), 3, "unavailable", "noetl: storage full\nnoetl: go on\n"),
        (Damaged("the log \x1b[2J"), 3, "damaged", "noetl: the log ␛[2J\nnoetl: go on\n"),
    ],
)
def test_every_error_has_its_exit_code_its_words_and_its_document(
    error: Exception, code: int, kind: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(voice: Voice) -> int:
        voice.execution_id, voice.status, voice.hint = "01", "running", "go on"
        raise error

    assert answered("json", work) == code
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert (document.pop("error")["kind"], document, err) == (
        kind, {"execution_id": "01", "status": "running"}, words,
    )  # fmt: skip
    assert answered("plain", work) == code
    assert capsys.readouterr() == ("", words)


def test_a_playbook_on_record_that_can_not_run_here_tells_its_problems(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def work(voice: Voice) -> int:
        del voice
        raise PlaybookError([Problem("unknown-kind", "error", "no tool", Mark("t.yaml", 5, 7))])

    assert answered("json", work) == 2
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert (document["error"], [each["code"] for each in document["problems"]]) == (
        {"kind": "problems", "message": "the playbook has 1 problem, at 5:7: unknown-kind: no tool"},
        ["unknown-kind"],
    )
    assert err == "t.yaml:5:7: error: unknown-kind: no tool\n"


def test_what_is_said_goes_to_standard_output_only_when_that_holds_no_document(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def work(voice: Voice) -> int:
        voice.screen.line("hello")
        voice.document({"n": 1})
        return 0

    assert answered("plain", work) == 0
    assert capsys.readouterr() == ("hello\n", "")
    assert answered("json", work) == 0
    assert capsys.readouterr() == ('{\n  "n": 1\n}\n', "hello\n")
