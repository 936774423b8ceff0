"""`noetl ui`: serve your own database on this machine, and open it in the browser."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from noetl.cli.options import Db, app, finish
from noetl.session.errors import UsageError

if TYPE_CHECKING:
    pass


@app.command()
def ui(
    *,
    db: Db = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65_535, help="0 is any free port.")] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the browser, or only print the address.")
    ] = True,
) -> None:
    """View playbooks and executions in the browser, write new ones and run them.

    The command serves the database on 127.0.0.1, with its own worker, which may do what `noetl run` may do.
    The address is the only line on standard output. Executions of other processes on the same file are shown
    too; an execution that an ended `noetl run` left open waits until you resume it. Ctrl-C ends the command;
    the next `noetl ui`, `noetl server` or `noetl resume` continues what was started here.
    A server has the same UI: open its address in the browser.

    \b
    Examples:
      noetl ui
      noetl ui --db trial.db --port 8081 --no-browser
    """
    finish("auto", lambda _reporter: _serve(db, port, browser=browser))


def _serve(db: str | None, port: int, *, browser: bool) -> int:
    import threading
    import webbrowser

    from noetl.cli.process import ServerCommand, run_server
    from noetl.runtime.settings import LOG, database_url

    if database_url(db) is not None:
        raise UsageError("a PostgreSQL has its UI at its servers: open the address of one in the browser")

    def show(url: str) -> None:
        page = f"{url}/ui/"
        print(page, flush=True)
        if browser:
            # Some browsers block their caller until they are closed.
            threading.Thread(target=webbrowser.open, args=(page,), daemon=True).start()

    os.environ.setdefault(LOG, "warning")  # a person looks at the page, not at the log
    options = ServerCommand(database=db, nats=None, host="127.0.0.1", port=port, auth=False, name="", own=True)
    return run_server(options, show)
