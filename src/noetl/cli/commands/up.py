"""`noetl up`: a distributed deployment on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from noetl.cli.options import Format, app, finish

if TYPE_CHECKING:
    from noetl.cli.execute import Reporter


@app.command()
def up(
    *,
    folder: Annotated[
        str | None,
        typer.Option(
            "--dir",
            metavar="DIR",
            help="The folder for all its data. Default: `noetl/up` in your data folder.",
        ),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", help="Of the server, on 127.0.0.1; 0 is any free port.")
    ] = 8080,
    workers: Annotated[int, typer.Option("--workers", help="The number of worker processes.")] = 2,
    slots: Annotated[int, typer.Option("--slots", help="Concurrent calls in each worker.")] = 16,
    format: Format = "auto",
) -> None:
    """Start a distributed deployment on this machine, for a trial: PostgreSQL, NATS, a server and workers.

    It stays in the foreground. Crashed processes are restarted. Ctrl-C stops everything; the next `up` on the
    same folder continues open executions. It needs NoETL with the extras `postgres`, `nats` and `trial`, and
    nothing else.
    JSON is one line when all are ready: `{url, nats, pid, pids, folder, token_file, environment_file, logs,
    socket_folder}`; the file `up.json` in the folder is the same.

    \b
    Examples:
      noetl up
      noetl up --dir ./trial --port 9000 --workers 4
    """

    def command(reporter: Reporter) -> int:
        from pathlib import Path

        from noetl.cli.devcluster import run_cluster
        from noetl.runtime.devcluster.cluster import DevClusterOptions

        path = Path(folder) if folder is not None else None
        return run_cluster(reporter, DevClusterOptions(path, port, workers, slots))

    finish(format, command)
