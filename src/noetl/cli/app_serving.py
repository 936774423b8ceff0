"""`noetl server` and `noetl worker`: the commands and their help. What they do is imported when they run."""

from __future__ import annotations

from typing import Annotated

import typer

from noetl.cli.app import app
from noetl.cli.running import run
from noetl.defaults import HOST, POOL, PORT, WORKER_SLOTS, WORKER_SLOTS_MAX

Nats = Annotated[
    str | None,
    typer.Option("--nats", metavar="URL", help="Where servers and workers meet; else `NOETL_NATS`."),
]
Name = Annotated[str, typer.Option("--name", metavar="NAME", help="As others see it; else one is made up.")]


@app.command()
def server(
    *,
    database: Annotated[
        str | None,
        typer.Option(
            "--database",
            "--db",
            metavar="URL|PATH",
            help="`postgresql://…`, or a file for one process; else `NOETL_DB`, or one in your home.",
        ),
    ] = None,
    nats: Nats = None,
    host: Annotated[str, typer.Option("--host", help="The address to serve on.")] = HOST,
    port: Annotated[int, typer.Option("--port", min=0, max=65_535, help="0 is any.")] = PORT,
    auth: Annotated[
        bool | None,
        typer.Option("--auth/--open", help="Ask for tokens, or let everyone on this machine in."),
    ] = None,
    name: Name = "",
) -> None:
    """Serve the API, and run what is asked for.

    On a file it is one process with a worker of its own; on PostgreSQL and NATS it is one of any number of
    servers, and `noetl worker` does the work. Tokens are asked for (`noetl token create`), except by
    default on a file and 127.0.0.1; nobody else is ever let in without one. Ctrl-C or SIGTERM stops it
    cleanly.

    \b
    Examples:
      noetl server
      noetl server --database postgresql://noetl@db/noetl --nats nats://queue:4222 --host 0.0.0.0
    """

    def command() -> int:
        from noetl.cli.serving import ServeAsked, run_server

        return run_server(ServeAsked(database, nats, host, port, auth, name))

    raise typer.Exit(run(command))


@app.command()
def worker(
    *,
    nats: Nats = None,
    pool: Annotated[str, typer.Option("--pool", metavar="POOL", help="Whose work it does.")] = POOL,
    slots: Annotated[
        int, typer.Option("--slots", min=1, max=WORKER_SLOTS_MAX, metavar="N", help="Calls at once.")
    ] = WORKER_SLOTS,
    labels: Annotated[
        list[str] | None, typer.Option("--label", metavar="KEY=VALUE", help="For people who look at it.")
    ] = None,
    name: Name = "",
) -> None:
    """Do the work of a pool. It connects to NATS, and nobody connects to it.

    A step names its pool with `spec: {pool: gpu}`. Ctrl-C or SIGTERM: running calls have 10 seconds, and
    what was not begun goes to others at once.

    \b
    Examples:
      noetl worker --nats nats://queue:4222
      noetl worker --nats nats://queue:4222 --pool gpu --slots 2 --label zone=a
    """

    def command() -> int:
        from noetl.cli.serving import WorkAsked, run_worker

        return run_worker(WorkAsked(nats, pool, slots, tuple(labels or ()), name))

    raise typer.Exit(run(command))
