"""`noetl server`: serve the API and run executions."""

from __future__ import annotations

from typing import Annotated

import typer

from noetl.cli.execute import Reporter
from noetl.cli.options import app, finish

Nats = Annotated[
    str | None,
    typer.Option("--nats", metavar="URL", help="The NATS that connects servers and workers. Default: `NOETL_NATS`."),
]
Name = Annotated[str, typer.Option("--name", metavar="NAME", help="The name of the process. Default: a generated one.")]


@app.command()
def server(
    *,
    database: Annotated[
        str | None,
        typer.Option(
            "--database",
            "--db",
            metavar="URL|PATH",
            help="`postgresql://…`, or a file. Default: `NOETL_DB`, else a file in your home.",
        ),
    ] = None,
    nats: Nats = None,
    host: Annotated[str, typer.Option("--host", help="The address to serve on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65_535, help="0 is any free port.")] = 8080,
    auth: Annotated[
        bool | None, typer.Option("--auth/--open", help="Require tokens, or give every user of this machine access.")
    ] = None,
    name: Name = "",
) -> None:
    """Serve the API, and run executions.

    On a file the server is one process with its own worker; on PostgreSQL and NATS it is one of any number of
    servers, and `noetl worker` processes do the work. Clients need tokens (`noetl token create`), except by
    default on a file and 127.0.0.1; clients of other machines always need one. Ctrl-C or SIGTERM stops the
    server cleanly.

    \b
    Examples:
      noetl server
      noetl server --database postgresql://noetl@db/noetl --nats nats://queue:4222 --host 0.0.0.0
    """

    def command(_reporter: Reporter) -> int:
        from noetl.cli.process import ServerCommand, run_server

        return run_server(ServerCommand(database, nats, host, port, auth, name))

    finish("auto", command)
