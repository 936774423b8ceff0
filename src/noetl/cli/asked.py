"""What the commands that run things were asked for: plain data, so that parsing needs nothing heavy."""

from __future__ import annotations

from typing import NamedTuple

from noetl.cli.choices import DialectChoice, FormatChoice


class RunAsked(NamedTuple):
    """The arguments of `noetl run`."""

    file: str
    sets: tuple[str, ...] = ()  # `key=value`, in the order of the command line
    workload: str | None = None  # a file
    db: str | None = None  # or a server: see contexts.place_of
    dialect: DialectChoice = "canonical"
    form: FormatChoice = "auto"
    detach: bool = False  # of a server: start it and do not wait


class Named(NamedTuple):
    """An execution, where it is kept, and how to speak of it."""

    given: str  # an id, its beginning, or `last`
    db: str | None = None  # or a server
    form: FormatChoice = "auto"
    detach: bool = False
