"""The short way to `noetl check`, which editors and agents call again and again: no typer, half the time.

It takes command lines that leave no question; for all others (help, mistakes, abbreviations) it gives None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, get_args

from noetl.cli.choices import DialectChoice, FormatChoice

_FORMATS: tuple[FormatChoice, ...] = get_args(FormatChoice)
_DIALECTS: tuple[DialectChoice, ...] = get_args(DialectChoice)


class Check(NamedTuple):
    """The arguments of `noetl check`."""

    files: list[str]
    form: FormatChoice
    dialect: DialectChoice
    strict: bool


def parse(arguments: Sequence[str]) -> Check | None:
    """None: let typer read it."""
    if not arguments or arguments[0] != "check":
        return None
    files: list[str] = []
    chosen = {"--format": "auto", "--dialect": "canonical"}
    strict = False
    rest = iter(arguments[1:])
    for word in rest:
        option, given, value = word.partition("=")
        if word == "--strict":
            strict = True
        elif option in chosen:
            chosen[option] = value if given else next(rest, "")
        elif word.startswith("-") and word != "-":
            return None
        else:
            files.append(word)
    form = next((each for each in _FORMATS if each == chosen["--format"]), None)
    dialect = next((each for each in _DIALECTS if each == chosen["--dialect"]), None)
    if not files or form is None or dialect is None:
        return None
    return Check(files, form, dialect, strict)


def command(check: Check) -> Callable[[], int]:
    def run() -> int:
        from noetl.cli.checking import run_check

        return run_check(check.files, check.form, check.dialect, strict=check.strict)

    return run
