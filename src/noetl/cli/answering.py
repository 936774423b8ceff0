"""How the commands that run things answer: one JSON document for programs, or lines for people (D76).

With `--format json` standard output is exactly that document, also when something is wrong.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence

from noetl.cli import files, problems
from noetl.cli.checking import show_problems
from noetl.cli.choices import FormatChoice
from noetl.cli.encoded import as_document
from noetl.cli.exits import AWAY, EXIT_CODES, OK, WRONG, Usage
from noetl.cli.finding import short
from noetl.cli.screen import Screen, is_terminal
from noetl.control.refusals import describe_first_problem, describe_problems
from noetl.errors import Damaged, NotFound, PlaybookError, Problem, Rejected, Unavailable
from noetl.output import JSON

_KINDS: dict[type[Exception], str] = {
    Usage: "usage",
    Rejected: "rejected",
    NotFound: "not-found",
    Unavailable: "unavailable",
    Damaged: "damaged",
}


class Voice:
    """Who is spoken to, and where; and what is known of the execution when an error comes up."""

    def __init__(self, form: FormatChoice) -> None:
        self.json = form == "json"
        stream = sys.stderr if self.json else sys.stdout
        colour = is_terminal(stream) if form in ("auto", "json") else form == "rich"
        self.screen = Screen(stream, colour=colour)
        self.errors = Screen(sys.stderr)
        self.execution_id: str | None = None
        self.status = "error"  # of the execution, as far as it is known
        self.hint: str | None = None  # what to do about an error from outside
        self.flag = ""  # what commands in hints carry, so that they come to the same place

    def document(self, value: JSON) -> None:
        """The one that programs wait for; nothing for people."""
        if self.json:
            files.put(as_document(value).encode(), None)  # JSON is UTF-8, whatever the locale says

    def told(self, status: str, words: str) -> int:
        """How the execution stands after what was asked for, and what that means to people."""
        assert self.execution_id is not None
        self.document({"execution_id": self.execution_id, "status": status})
        self.screen.line(f"{short(self.execution_id)}: {words}")
        return OK

    def warn(self, words: str) -> None:
        first, *others = words.split("\n")
        self.errors.line(f"noetl: {first}")
        for line in others:
            self.errors.line(line)


def tell_problems(voice: Voice, found: Sequence[Problem], text: str) -> None:
    """Why a playbook can not run, for people and programs (D78)."""
    show_problems(found, text, voice.errors, rich=voice.errors.colour)
    voice.document(
        {
            "execution_id": voice.execution_id,
            "status": voice.status,
            "error": {"kind": "problems", "message": describe_first_problem(found)},
            "problems": json.loads(problems.as_json(found)),
        }
    )


def tell_refused(voice: Voice, found: Sequence[Problem], text: str) -> int:
    """The same of a request, and under which id it is on record, if it is."""
    tell_problems(voice, found, text)
    if voice.execution_id is not None:
        voice.warn(f"{describe_problems(found)}; the request is on record as {voice.execution_id}")
    return WRONG


def answered(form: FormatChoice, work: Callable[[Voice], int]) -> int:
    """Do it; what is refused or can not be reached is said, and is an exit code."""
    voice = Voice(form)
    try:
        return work(voice)
    except PlaybookError as error:  # of one that is on record: a tool that it needs is not installed here
        tell_problems(voice, error.problems, "")
        return WRONG
    except tuple(_KINDS) as error:
        family = next(each for each in _KINDS if isinstance(error, each))
        code = EXIT_CODES[family]
        kind = error.code if isinstance(error, Rejected) else _KINDS[family]
        message = str(error).removeprefix(f"{kind}: ")
        voice.warn(message)
        if voice.hint is not None and code == AWAY:
            voice.warn(voice.hint)
        told = {"kind": kind, "message": message}
        voice.document({"execution_id": voice.execution_id, "status": voice.status, "error": told})
        return code
