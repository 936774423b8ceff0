"""`noetl worker`: run the tasks of a pool."""

from __future__ import annotations

from typing import Annotated

import typer

from noetl.cli.commands.server import Name, Nats
from noetl.cli.execute import Reporter
from noetl.cli.options import app, finish


@app.command()
def worker(
    *,
    nats: Nats = None,
    pool: Annotated[str, typer.Option("--pool", metavar="POOL", help="The pool whose tasks it runs.")] = "default",
    slots: Annotated[int, typer.Option("--slots", min=1, max=1_024, metavar="N", help="Concurrent calls.")] = 16,
    labels: Annotated[
        list[str] | None, typer.Option("--label", metavar="KEY=VALUE", help="Information for people; may be repeated.")
    ] = None,
    name: Name = "",
) -> None:
    """Run the tasks of a pool. The worker connects to NATS and accepts no connections.

    A step names its pool with `spec: {pool: gpu}`. On Ctrl-C or SIGTERM running calls have 10 seconds; tasks
    that have not started go to other workers at once.

    \b
    Examples:
      noetl worker --nats nats://queue:4222
      noetl worker --nats nats://queue:4222 --pool gpu --slots 2 --label zone=a
    """

    def command(_reporter: Reporter) -> int:
        from noetl.cli.process import WorkerCommand, run_worker

        return run_worker(WorkerCommand(nats, pool, slots, tuple(labels or ()), name))

    finish("auto", command)
