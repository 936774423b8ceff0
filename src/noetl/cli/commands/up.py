"""`noetl ui` and `noetl up`: the UI on your own database, and a distributed deployment, on this machine."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from noetl.cli.execute import OK, Reporter
from noetl.cli.options import Db, Format, app, finish
from noetl.cli.output.screen import duration
from noetl.runtime.settings import TOOL_USER
from noetl.session.errors import UsageError
from noetl.views.styled_text import Styled

if TYPE_CHECKING:
    from noetl.output import JSON
    from noetl.runtime.devcluster.cluster import DevClusterOptions, DevClusterStatus


@app.command()
def ui(
    *,
    db: Db = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65_535, help="The port on 127.0.0.1; 0 selects a free port.")
    ] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the browser, or only print the address.")
    ] = True,
) -> None:
    """View playbooks and executions in the browser, write new ones and run them.

    The command serves the database on 127.0.0.1, with its own worker, which has the same permissions as `noetl run`.
    The address is the only line on standard output. Executions of other processes on the same file are shown
    too. If a `noetl run` ended before its execution did, the execution waits until you resume it. Ctrl-C ends the
    command; the next `noetl ui`, `noetl server` or `noetl resume` continues the executions that were started here.
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
        raise UsageError(
            "with PostgreSQL, each server provides the web UI: open the address of a server in the browser"
        )

    def show(url: str) -> None:
        page = f"{url}/ui/"
        print(page, flush=True)
        if browser:
            # Some browsers block their caller until they are closed.
            threading.Thread(target=webbrowser.open, args=(page,), daemon=True).start()

    os.environ.setdefault(LOG, "warning")  # a person looks at the page, not at the log
    options = ServerCommand(database=db, nats=None, host="127.0.0.1", port=port, auth=False, name="", own=True)
    return run_server(options, show)


@app.command()
def up(
    *,
    folder: Annotated[
        str | None,
        typer.Option(
            "--dir", metavar="DIR", help="The folder for all its data. Default: `noetl/up` in your data folder."
        ),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", help="The port of the server on 127.0.0.1; 0 selects a free port.")
    ] = 8080,
    workers: Annotated[int, typer.Option("--workers", help="The number of worker processes.")] = 2,
    slots: Annotated[int, typer.Option("--slots", help="Concurrent calls in each worker.")] = 16,
    server_slots: Annotated[
        int, typer.Option("--server-slots", help="Concurrent calls in the process of the server.")
    ] = 0,
    format: Format = "auto",
) -> None:
    """Start a distributed deployment on this machine, for a trial: PostgreSQL, NATS, a server and workers.

    It stays in the foreground. Crashed processes are restarted. Ctrl-C stops everything; the next `up` on the
    same folder continues open executions. It needs the extras `postgres`, `nats` and `trial` of NoETL, and no other
    software.
    JSON is one line when all are ready: `{url, nats, pid, pids, folder, token_file, environment_file, logs,
    socket_folder}`; the file `up.json` in the folder is the same.

    \b
    Examples:
      noetl up
      noetl up --dir ./trial --port 9000 --workers 4
      noetl up --workers 0 --server-slots 64
    """

    def command(reporter: Reporter) -> int:
        import asyncio
        from pathlib import Path

        from noetl.runtime.devcluster.cluster import DevClusterOptions

        path = Path(folder) if folder is not None else None
        return asyncio.run(_up(reporter, DevClusterOptions(path, port, workers, slots, server_slots)))

    finish(format, command)


NAME_COLUMNS = 12


async def _up(reporter: Reporter, options: DevClusterOptions) -> int:
    from noetl.cli.interrupts import Interrupted, Interrupts
    from noetl.clock import SystemClock
    from noetl.runtime.devcluster.cluster import DevCluster

    clock = SystemClock()
    cluster = DevCluster(options, clock, lambda status: _print_status(reporter, status))
    _print(reporter, Styled("noetl up", "strong"), f"  in {cluster.path}")
    begun = clock.monotonic()
    interrupts = Interrupts(lambda: _print(reporter, "stopping; press Ctrl-C again to stop immediately"))
    with interrupts:
        try:
            state = await interrupts.unless(cluster.start())
            _print_ready(reporter, state, clock.monotonic() - begun)
            await interrupts.unless(cluster.follow())
        except Interrupted:
            pass
        finally:
            try:
                await interrupts.unless_again(cluster.stop())
            except Interrupted:
                await cluster.stop(at_once=True)
    _print(reporter, "all stopped; `noetl up` on the same folder continues open executions")
    return OK


def _print(reporter: Reporter, *pieces: Styled | str) -> None:
    """Flushed, because a program may wait for the line."""
    reporter.screen.line(*pieces)
    reporter.screen.stream.flush()


def _print_status(reporter: Reporter, status: DevClusterStatus) -> None:
    took = f"  {duration(status.seconds)}" if status.seconds is not None else ""
    first, *more = status.words.split("\n")
    name = Styled(f"  {status.name:<{NAME_COLUMNS}}", "error" if status.is_wrong else "name")
    _print(reporter, name, first, Styled(took, "faint"))
    for line in more:
        _print(reporter, Styled(f"  {line}", "faint"))


def _print_ready(reporter: Reporter, state: dict[str, JSON], seconds: float) -> None:
    url, token = str(state["url"]), str(state["token_file"])
    for line in (
        "",
        f"ready after {duration(seconds)}: {url}",
        f"  noetl context set up {url} --token-file {token}",
        "  noetl context use up",
        "  noetl init hello.yaml; noetl run hello.yaml",
        f"one more worker: set -a; . {state['environment_file']}; noetl worker --pool default",
        "Ctrl-C stops everything; the next `noetl up` continues open executions",
    ):
        _print(reporter, line)
    if os.geteuid() == 0:
        user = os.environ.get(TOOL_USER)
        tasks = f"python and shell tasks as {user}" if user else f"and so do python and shell tasks; see {TOOL_USER}"
        _print(reporter, Styled(f"workers run as root, {tasks}", "warning"))
    if reporter.json:
        from noetl.cli.output.documents import as_line

        sys.stdout.write(as_line(state))
        sys.stdout.flush()
