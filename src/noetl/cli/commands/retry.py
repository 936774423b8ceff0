"""`noetl retry`: retry the failed parts of a finished execution."""

from __future__ import annotations

from typing import Annotated

import typer

from noetl.cli.execute import Reporter
from noetl.cli.options import Db, Detach, Format, Id, Server, app, finish


@app.command()
def retry(
    id: Id,
    *,
    step: Annotated[
        str | None, typer.Option("--step", metavar="STEP", help="Only the failures of this step, also handled ones.")
    ] = None,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="From the first task, not from the one that failed.")
    ] = False,
    db: Db = None,
    server: Server = None,
    detach: Detach = False,
    format: Format = "auto",
) -> None:
    """Retry the failed parts of a finished execution, and run it to its end.

    What succeeded is kept: iterations, and the tasks before the failed one. Exits like `run`.

    \b
    Examples:
      noetl retry last
      noetl retry 0199b3c2 --step fetch --from-start
    """

    def command(reporter: Reporter) -> int:
        from noetl.cli.runner import continue_execution
        from noetl.session.connect import resolve

        return continue_execution(
            reporter,
            id,
            resolve(db, server),
            lambda execution: execution.retry(step, from_start=from_start),
            detach=detach,
        )

    finish(format, command)
