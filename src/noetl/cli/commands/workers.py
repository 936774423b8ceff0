"""`noetl workers` and `noetl pools`: the workers of a server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NoReturn

from noetl.cli.execute import Reporter
from noetl.cli.options import Format, Server, app, nothing_to_list, on_session
from noetl.session.errors import Unsupported, unsupported

if TYPE_CHECKING:
    from noetl.cli.arguments import FormatChoice
    from noetl.session.protocol import Session


def _on_server(
    format: FormatChoice, server: str | None, work: Callable[[Reporter, Session], Awaitable[int]]
) -> NoReturn:
    """A database file says that it has none."""

    async def run(reporter: Reporter, session: Session) -> int:
        try:
            return await work(reporter, session)
        except Unsupported as error:
            return nothing_to_list(reporter, str(error))

    on_session(
        format, None, server, run, if_missing=lambda reporter: nothing_to_list(reporter, str(unsupported("workers")))
    )


@app.command()
def workers(*, format: Format = "auto", server: Server = None) -> None:
    """List the workers of a server: their pools, busy slots, hosts and versions.

    A database file has no workers: each process runs its own executions. JSON is the `workers` of GET /workers.

    \b
    Examples:
      noetl workers
      noetl workers --server https://noetl.example.com --format json
    """

    async def work(reporter: Reporter, session: Session) -> int:
        from noetl.cli.output.tables import worker_table

        found = (await session.workers()).workers
        if not found:
            return nothing_to_list(reporter, "no worker is connected: start one with noetl worker")
        return reporter.show(found, worker_table(found, session.clock.now()))

    _on_server(format, server, work)


@app.command()
def pools(*, format: Format = "auto", server: Server = None) -> None:
    """List the pools of a server that have workers, with their busy slots and the share of one execution.

    An execution holds at most its share of the slots and leaves the others free: see NOETL_SLOT_RESERVE.
    JSON is the `pools` of GET /workers.

    \b
    Examples:
      noetl pools
      noetl pools --server https://noetl.example.com --format json
    """

    async def work(reporter: Reporter, session: Session) -> int:
        from noetl.cli.output.tables import pool_table

        found = (await session.workers()).pools
        if not found:
            return nothing_to_list(reporter, "no pool has a worker: start one with noetl worker")
        return reporter.show(found, pool_table(found))

    _on_server(format, server, work)
