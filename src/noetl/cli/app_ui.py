"""`noetl ui`: the command and its help. What it does is imported when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from noetl.cli.app import Db, app
from noetl.cli.running import run


@app.command()
def ui(
    *,
    db: Db = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65_535, help="0 is any that is free.")] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open it in the browser, or only say where it is.")
    ] = True,
) -> None:
    """Look at playbooks and executions in the browser, write new ones and run them.

    It serves the database on 127.0.0.1, with a worker of its own that may do what `noetl run` may do; its
    address is the only line on standard output. What other processes run on the same file is shown as well,
    and what an ended `noetl run` left open stays so until you resume it. Ctrl-C ends it; what was begun here
    goes on with the next `noetl ui`, `noetl server` or `noetl resume`.
    Of a server, open its address in the browser: the UI is there.

    \b
    Examples:
      noetl ui
      noetl ui --db trial.db --port 8081 --no-browser
    """

    def command() -> int:
        from noetl.cli.ui import run_ui

        return run_ui(db, port, browser=browser)

    raise typer.Exit(run(command))
