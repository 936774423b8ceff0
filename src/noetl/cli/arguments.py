"""The arguments of `run` and `check` as plain data, and a fast parser for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias, get_args

FormatChoice: TypeAlias = Literal["auto", "rich", "plain", "json"]
CheckFormatChoice: TypeAlias = Literal["auto", "rich", "plain", "json", "github", "sarif", "junit"]
DialectChoice: TypeAlias = Literal["canonical", "auto"]
GraphChoice: TypeAlias = Literal["mermaid", "dot", "svg"]


class RunOptions(NamedTuple):
    file: str
    sets: tuple[str, ...] = ()  # `key=value`, in the order of the command line
    workload: str | None = None  # a file
    db: str | None = None
    server: str | None = None
    dialect: DialectChoice = "canonical"
    format: FormatChoice = "auto"
    detach: bool = False
    allow_extra: bool = False  # `--set` and `--ctx` of keys that the playbook does not declare
    ctx: tuple[str, ...] = ()  # `key=value`, in the order of the command line
    labels: tuple[str, ...] = ()  # `key=value`
    secrets: tuple[str, ...] = ()  # `name`, `name=@file` or `name=env:VARIABLE`


class CheckOptions(NamedTuple):
    files: list[str]
    format: CheckFormatChoice = "auto"
    dialect: DialectChoice = "canonical"
    strict: bool = False


# A fast path for `noetl check` and `noetl run`, which are called often: without typer they start in half the time.
#
# It accepts only unambiguous command lines. typer handles help, errors and abbreviations.


_FORMATS: tuple[FormatChoice, ...] = get_args(FormatChoice)
_DIALECTS: tuple[DialectChoice, ...] = get_args(DialectChoice)


class _Arguments(NamedTuple):
    """A command line, split into files, flags and options."""

    files: list[str]
    flags: set[str]
    options: dict[str, list[str]]  # option → its values, in order

    def last(self, option: str, default: str | None = None) -> str | None:
        return self.options[option][-1] if self.options[option] else default


def parse(arguments: Sequence[str]) -> CheckOptions | RunOptions | None:
    """Parse the arguments. None: typer must parse them."""
    match list(arguments):
        case ["check", *rest]:
            return _check(_split(rest, {"--strict"}, {"--format", "--dialect"}))
        case ["run", *rest]:
            return _run(
                _split(
                    rest,
                    {"--allow-extra"},
                    {"--set", "--ctx", "--label", "--workload", "--secret", "--db", "--format", "--dialect"},
                )
            )
    return None


def _split(arguments: Sequence[str], flags: set[str], options: set[str]) -> _Arguments | None:
    found = _Arguments([], set(), {option: [] for option in options})
    rest: Iterator[str] = iter(arguments)
    for word in rest:
        option, equals, text = word.partition("=")
        if word in flags:
            found.flags.add(word)
        elif option in options:
            value = text if equals else next(rest, None)
            if value is None:
                return None
            found.options[option].append(value)
        elif word.startswith("-") and word != "-":
            return None
        else:
            found.files.append(word)
    return found


def _choices(arguments: _Arguments) -> tuple[FormatChoice, DialectChoice] | None:
    format = next((each for each in _FORMATS if each == arguments.last("--format", "auto")), None)
    dialect = next((each for each in _DIALECTS if each == arguments.last("--dialect", "canonical")), None)
    return None if format is None or dialect is None else (format, dialect)


def _check(arguments: _Arguments | None) -> CheckOptions | None:
    if arguments is None or not arguments.files or (chosen := _choices(arguments)) is None:
        return None
    return CheckOptions(arguments.files, *chosen, "--strict" in arguments.flags)


def _run(arguments: _Arguments | None) -> RunOptions | None:
    if arguments is None or len(arguments.files) != 1 or (chosen := _choices(arguments)) is None:
        return None
    format, dialect = chosen
    sets, workload, db = (tuple(arguments.options["--set"]), arguments.last("--workload"), arguments.last("--db"))
    extra = "--allow-extra" in arguments.flags
    ctx, labels = tuple(arguments.options["--ctx"]), tuple(arguments.options["--label"])
    secrets = tuple(arguments.options["--secret"])
    return RunOptions(arguments.files[0], sets, workload, db, None, dialect, format, False, extra, ctx, labels, secrets)
