"""`noetl tools`: the command and its help. What it does is imported when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from noetl.cli.app import Format, app
from noetl.cli.running import run


@app.command()
def tools(
    kind: Annotated[
        str | None, typer.Argument(metavar="[KIND]", help="One kind: all that there is to know of it.")
    ] = None,
    *,
    format: Format = "auto",
) -> None:
    """List the kinds of tools that are installed; or describe one: fields, knobs, output, an example.

    JSON is an array of `{kind, doc}`, or one `{kind, doc, fields, knobs, notes, example}`.

    \b
    Examples:
      noetl tools
      noetl tools http
      noetl tools duckdb --format json
    """

    def command() -> int:
        from noetl.cli.answering import answered
        from noetl.cli.tools_showing import run_tools

        return answered(format, lambda _voice: run_tools(kind, format))

    raise typer.Exit(run(command))
