"""The values that options take, and the arguments of `run` and `check`: plain data, quick to import."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

FormatChoice: TypeAlias = Literal["auto", "rich", "plain", "json"]
DialectChoice: TypeAlias = Literal["canonical", "auto"]
GraphChoice: TypeAlias = Literal["mermaid", "dot", "svg"]


class RunOptions(NamedTuple):
    """The arguments of `noetl run`."""

    file: str
    sets: tuple[str, ...] = ()  # `key=value`, in the order of the command line
    workload: str | None = None  # a file
    db: str | None = None
    server: str | None = None
    dialect: DialectChoice = "canonical"
    format: FormatChoice = "auto"
    detach: bool = False


class CheckOptions(NamedTuple):
    """The arguments of `noetl check`."""

    files: list[str]
    format: FormatChoice = "auto"
    dialect: DialectChoice = "canonical"
    strict: bool = False
