"""The short way to `noetl check` and `noetl run`, which are called again and again: no typer, half the time.

It takes command lines that leave no question; for all others (help, mistakes, abbreviations) it gives None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias, get_args

from noetl.cli.asked import RunAsked
from noetl.cli.choices import DialectChoice, FormatChoice

_FORMATS: tuple[FormatChoice, ...] = get_args(FormatChoice)
_DIALECTS: tuple[DialectChoice, ...] = get_args(DialectChoice)


class Check(NamedTuple):
    """The arguments of `noetl check`."""

    files: list[str]
    form: FormatChoice
    dialect: DialectChoice
    strict: bool


Asked: TypeAlias = Check | RunAsked


class _Words(NamedTuple):
    """A command line, sorted."""

    files: list[str]
    flags: set[str]
    given: dict[str, list[str]]  # option → its values, in order

    def last(self, option: str, default: str) -> str:
        return self.given[option][-1] if self.given[option] else default

    def only(self, option: str) -> str | None:
        return self.given[option][-1] if self.given[option] else None


def parse(arguments: Sequence[str]) -> Asked | None:
    """None: let typer read it."""
    match list(arguments):
        case ["check", *rest]:
            return _check(_sorted(rest, {"--strict"}, {"--format", "--dialect"}))
        case ["run", *rest]:
            options = {"--set", "--workload", "--db", "--format", "--dialect"}
            return _run(_sorted(rest, set(), options))
    return None


def _sorted(arguments: Sequence[str], flags: set[str], options: set[str]) -> _Words | None:
    words = _Words([], set(), {option: [] for option in options})
    rest: Iterator[str] = iter(arguments)
    for word in rest:
        option, given, value = word.partition("=")
        if word in flags:
            words.flags.add(word)
        elif option in options:
            found = value if given else next(rest, None)
            if found is None:
                return None
            words.given[option].append(found)
        elif word.startswith("-") and word != "-":
            return None
        else:
            words.files.append(word)
    return words


def _choices(words: _Words) -> tuple[FormatChoice, DialectChoice] | None:
    form = next((each for each in _FORMATS if each == words.last("--format", "auto")), None)
    dialect = next((each for each in _DIALECTS if each == words.last("--dialect", "canonical")), None)
    return None if form is None or dialect is None else (form, dialect)


def _check(words: _Words | None) -> Check | None:
    if words is None or not words.files or (chosen := _choices(words)) is None:
        return None
    return Check(words.files, *chosen, "--strict" in words.flags)


def _run(words: _Words | None) -> RunAsked | None:
    if words is None or len(words.files) != 1 or (chosen := _choices(words)) is None:
        return None
    form, dialect = chosen
    sets = tuple(words.given["--set"])
    return RunAsked(words.files[0], sets, words.only("--workload"), words.only("--db"), dialect, form)


def command(asked: Asked) -> Callable[[], int]:
    def run() -> int:
        if isinstance(asked, Check):
            from noetl.cli.checking import run_check

            return run_check(asked.files, asked.form, asked.dialect, strict=asked.strict)
        from noetl.cli.executing import run_run

        return run_run(asked)

    return run
