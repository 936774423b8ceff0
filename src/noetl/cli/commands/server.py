"""`noetl server` and `noetl worker`: processes that run until they are stopped."""

from __future__ import annotations

from typing import Annotated

import typer

from noetl.cli.execute import OK, Reporter
from noetl.cli.options import app, finish
from noetl.defaults import WORKER_SLOTS_MAX

Nats = Annotated[
    str | None,
    typer.Option(
        "--nats",
        metavar="URL",
        help="The address of NATS, which connects servers and workers. With a database file it is used only for"
        " triggers. Default: `NOETL_NATS`.",
    ),
]
Name = Annotated[
    str,
    typer.Option(
        "--name",
        metavar="NAME",
        help="A name that no other process has. Default: the name of the host with a random suffix.",
    ),
]
Slots = Annotated[
    int,
    typer.Option(
        "--slots",
        min=0,
        max=WORKER_SLOTS_MAX,
        metavar="N",
        help="With PostgreSQL: also run tasks of the pool `default` in this process, N calls at the same time.",
    ),
]


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
    port: Annotated[
        int, typer.Option("--port", min=0, max=65_535, help="The port to serve on; 0 selects a free port.")
    ] = 8080,
    auth: Annotated[
        bool | None, typer.Option("--auth/--open", help="Require tokens, or give every user of this machine access.")
    ] = None,
    name: Name = "",
    slots: Slots = 0,
) -> None:
    """Serve the API, and run executions.

    With a database file the server is one process with its own worker. With PostgreSQL and NATS it is one of any
    number of servers, and `noetl worker` processes run the tasks; with `--slots` the server runs tasks, too, which
    is faster and needs no worker in a small installation. Clients need a token (`noetl token create`). Only a
    server with a database file on 127.0.0.1 requires no token by default. Ctrl-C or SIGTERM stops the server cleanly.

    \b
    Examples:
      noetl server
      noetl server --database postgresql://noetl@db/noetl --nats nats://queue:4222 --host 0.0.0.0
      noetl server --database postgresql://noetl@db/noetl --nats nats://queue:4222 --slots 64
    """

    def command(_reporter: Reporter) -> int:
        from noetl.cli.process import ServerCommand, run_server

        return run_server(ServerCommand(database, nats, host, port, auth, name, slots))

    finish("auto", command)


@app.command()
def worker(
    *,
    nats: Nats = None,
    pool: Annotated[str, typer.Option("--pool", metavar="POOL", help="The pool whose tasks it runs.")] = "default",
    slots: Annotated[int, typer.Option("--slots", min=1, max=1_024, metavar="N", help="Concurrent calls.")] = 16,
    labels: Annotated[
        list[str] | None,
        typer.Option(
            "--label", metavar="KEY=VALUE", help="A label that `noetl workers` shows, for people; may be repeated."
        ),
    ] = None,
    name: Name = "",
) -> None:
    """Run the tasks of a pool. The worker connects to NATS and accepts no connections.

    A step names its pool with `spec: {pool: gpu}`. On Ctrl-C or SIGTERM running calls have 10 seconds; tasks
    that have not started go to other workers immediately.

    \b
    Examples:
      noetl worker --nats nats://queue:4222
      noetl worker --nats nats://queue:4222 --pool gpu --slots 2 --label zone=a
    """

    def command(_reporter: Reporter) -> int:
        from noetl.cli.process import WorkerCommand, run_worker

        return run_worker(WorkerCommand(nats, pool, slots, tuple(labels or ()), name))

    finish("auto", command)


@app.command("nats-users")
def nats_users(
    *,
    pools: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[POOL[=BUCKET]]...", help="The pools, each optionally with the NATS bucket for its results."
        ),
    ] = None,
) -> None:
    """Print the NATS users that isolate pools: the `authorization` block of the NATS configuration.

    Servers use the user `noetl` with the password in the variable `NATS_PASSWORD`. The workers of a pool use
    `pool-NAME` with `NATS_PASSWORD_NAME`, in capital letters; this user reaches only the subjects of its pool.
    Set the variables for the NATS server, and put the output into its configuration. Without an argument there is one
    pool, `default`. Without a bucket a pool uses the bucket of all results, `noetl-results`.

    \b
    Examples:
      noetl nats-users default gpu > nats-users.conf
      noetl nats-users default finance=results-finance
    """

    def command(_reporter: Reporter) -> int:
        from noetl.runtime.adapters import nats_configuration

        print(nats_configuration(pools or ["default"]), end="")
        return OK

    finish("auto", command)
