"""`noetl check`: all problems of playbooks, and where."""

from __future__ import annotations

from typing import Annotated

import typer

from noetl.cli.arguments import CheckFormatChoice, CheckOptions
from noetl.cli.completion import complete_file
from noetl.cli.options import Dialect, app


@app.command()
def check(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE", help="Playbooks, or folders of them; `-` is standard input.", autocompletion=complete_file
        ),
    ],
    format: Annotated[
        CheckFormatChoice,
        typer.Option(help="`auto` is rich on a terminal, else plain; `github`, `sarif` and `junit` are for CI."),
    ] = "auto",
    strict: Annotated[bool, typer.Option("--strict", help="Treat warnings as errors.")] = False,
    dialect: Dialect = "canonical",
) -> None:
    """Report all problems of playbooks, with file, line and column.

    Exits with 0 when there are no errors, with 2 when there are.

    \b
    Examples:
      noetl check hello.yaml
      noetl check playbooks/ --strict
      noetl check playbooks/ --dialect auto --format sarif > problems.sarif
    """
    from noetl.cli import checker

    raise typer.Exit(checker.check(CheckOptions(files, format, dialect, strict)))
