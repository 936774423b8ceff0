"""Run a command: errors become messages and exit codes, and standard output stays one JSON document.

With `--format json` standard output is exactly one document, even when the command fails (D76).
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from noetl.cli.output.screen import Screen, is_terminal, short, with_hint
from noetl.errors import Damaged, InputError, NotFound, PlaybookError, Rejected, Unavailable
from noetl.session.errors import UsageError
from noetl.views.styled_text import Styled

if TYPE_CHECKING:
    from noetl.cli.arguments import FormatChoice
    from noetl.errors import Problem
    from noetl.output import JSON
    from noetl.session.execution import Execution
    from noetl.session.protocol import Session

OK: Final = 0
FAILED: Final = 1  # the execution ended in an error or was cancelled, or the command was refused
WRONG: Final = 2  # the playbook or the command line
UNAVAILABLE: Final = 3  # something outside failed: a full disk, a server that does not answer
INTERRUPTED: Final = 130  # as shells count: 128 plus the number of the signal
BROKEN_PIPE: Final = 141

EXIT_CODES: Final[dict[type[BaseException], int]] = {
    PlaybookError: WRONG,
    UsageError: WRONG,
    InputError: WRONG,
    Rejected: FAILED,
    NotFound: FAILED,
    Unavailable: UNAVAILABLE,
    Damaged: UNAVAILABLE,
    KeyboardInterrupt: INTERRUPTED,
    BrokenPipeError: BROKEN_PIPE,
    OSError: UNAVAILABLE,
}
_KINDS: Final[dict[type[Exception], str]] = {
    UsageError: "usage",
    InputError: "bad-input",
    Rejected: "rejected",
    NotFound: "not-found",
    Unavailable: "unavailable",
    Damaged: "damaged",
}


class Reporter:
    """Prints for people or programs; and knows the execution that an error document names."""

    def __init__(self, format: FormatChoice) -> None:
        self.json = format == "json"
        stream = sys.stderr if self.json else sys.stdout
        colour = is_terminal(stream) if format in ("auto", "json") else format == "rich"
        self.screen = Screen(stream, colour=colour)
        self.errors = Screen(sys.stderr)
        self.execution_id: str | None = None
        self.status = "error"  # of the execution, as far as it is known
        self.advice: str | None = None  # printed after an error of storage or server
        self.extra: dict[str, JSON] = {}  # more keys of the JSON document

    def document(self, value: JSON) -> None:
        """The JSON document, if one is asked for."""
        if self.json:
            from noetl.cli.output.documents import as_document, put

            if self.extra:
                import msgspec

                value = {**self.extra, **msgspec.to_builtins(value)}
            put(as_document(value).encode(), None)  # JSON is UTF-8, independent of the locale

    def show(self, document: JSON, lines: Iterable[Sequence[Styled | str]] = ()) -> int:
        """The document for programs, the lines for people."""
        if self.json:
            self.document(document)
        else:
            for each in lines:
                self.screen.line(*each)
        return OK

    def execution(self, status: str, text: str) -> int:
        """The status of the execution after a command, and what that means for people."""
        assert self.execution_id is not None
        document = {"execution_id": self.execution_id, "status": status}
        self.document(document)
        self.screen.line(f"{short(self.execution_id)}: {text}")
        return OK

    def warn(self, text: str) -> None:
        first, *others = text.split("\n")
        self.errors.line(f"noetl: {first}")
        for line in others:
            self.errors.line(line)

    def problems(self, found: Sequence[Problem], text: str) -> int:
        """Why a playbook cannot run, for people and programs (D78)."""
        import json

        from noetl.cli.output import problems
        from noetl.control.refusals import describe_first_problem

        problems.print_problems(found, text, self.errors)
        self.document(
            {
                "execution_id": self.execution_id,
                "status": self.status,
                "error": {"kind": "problems", "message": describe_first_problem(found)},
                "problems": json.loads(problems.as_json(found)),
            }
        )
        return WRONG


def execute(format: FormatChoice, command: Callable[[Reporter], int]) -> int:
    """Run it; the exit code. A bug is not caught, so that it is noticed."""
    _prepare_streams()
    reporter = Reporter(format)
    try:
        code = command(reporter)
        if not sys.stdout.closed:  # a language server closes it at its end
            sys.stdout.flush()
        return code
    except PlaybookError as error:
        return reporter.problems(error.problems, "")
    except tuple(_KINDS) as error:
        return _report(reporter, error)
    except BrokenPipeError:
        _discard_output()
        return EXIT_CODES[BrokenPipeError]
    except OSError as error:
        _discard_output()
        print(f"noetl: {error.strerror or error}", file=sys.stderr)
        return EXIT_CODES[OSError]
    except KeyboardInterrupt:
        return EXIT_CODES[KeyboardInterrupt]


def _report(reporter: Reporter, error: Exception) -> int:
    family = next(each for each in _KINDS if isinstance(error, each))
    code = EXIT_CODES[family]
    kind = error.code if isinstance(error, Rejected) else _KINDS[family]
    message = str(error).removeprefix(f"{kind}: ")
    inputs = error.problems if isinstance(error, InputError) else ()
    reporter.warn(
        "\n  ".join(["the values do not fit the inputs of the playbook:", *map(str, inputs)]) if inputs else message
    )
    if reporter.advice is not None and code == UNAVAILABLE:
        reporter.warn(reporter.advice)
    failure: dict[str, JSON] = {"kind": kind, "message": message}
    if inputs:
        failure["fields"] = [each._asdict() for each in inputs]
    reporter.document({"execution_id": reporter.execution_id, "status": reporter.status, "error": failure})
    return code


def _prepare_streams() -> None:
    """A closed stream discards what is written; a locale without Unicode gets escapes. Neither crashes."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _discard_output() -> None:
    """The reader is gone: the rest of the buffer must not raise again when Python exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# Help for commands on a session


async def find(reporter: Reporter, session: Session, name: str) -> Execution:
    """The execution that is meant; the reporter names it and its status in errors."""
    from noetl.session.execution import public_status

    execution = await session.execution(name)
    info = await execution.info()
    reporter.execution_id, reporter.status = execution.id, public_status(info.status)
    return execution


@contextmanager
def hinting(hint: str) -> Iterator[None]:
    """Commands at the end of error messages get the option that leads to the same place."""
    try:
        yield
    except (NotFound, Damaged) as error:
        if (message := with_hint(str(error), hint)) == str(error):
            raise
        raise type(error)(message) from error
