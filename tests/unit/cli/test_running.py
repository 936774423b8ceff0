"""Errors become words and exit codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import pytest

from noetl.cli.exits import Usage
from noetl.cli.running import run
from noetl.errors import Mark, PlaybookError, Problem


def raising(error: BaseException) -> Callable[[], int]:
    def command() -> NoReturn:
        raise error

    return command


@pytest.mark.parametrize("code", [0, 2])
def test_the_code_of_a_command_is_passed_on(code: int) -> None:
    assert run(lambda: code) == code


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (Usage("a\x1b.yaml: no"), 2, "noetl: a␛.yaml: no\n"),
        (
            PlaybookError([Problem("no-start", "error", "no start", Mark("a.yaml", 1, 2))]),
            2,
            "a.yaml:1:2: error: no-start: no start\n",
        ),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_an_error_is_said_on_standard_error_and_has_its_exit_code(
    error: BaseException, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(raising(error)) == code
    assert capsys.readouterr() == ("", words)


def test_a_bug_is_loud() -> None:
    with pytest.raises(AssertionError):
        run(raising(AssertionError("a bug")))
