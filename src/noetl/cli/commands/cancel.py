"""`noetl cancel`: end an execution and its children."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from noetl.cli.connected import on_execution
from noetl.cli.execute import Reporter
from noetl.cli.options import Db, Format, Id, Server, app

if TYPE_CHECKING:
    from noetl.session.execution import Execution


@app.command()
def cancel(
    id: Id,
    *,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="The reason, for the log.")] = "",
    db: Db = None,
    server: Server = None,
    format: Format = "auto",
) -> None:
    """End an execution and its children: nothing new starts, running calls have 10 seconds.

    JSON is `{execution_id, status}`; the status is `cancelling` while calls still run.

    \b
    Examples:
      noetl cancel last
      noetl cancel 0199b3c2 --reason "wrong account"
    """

    from noetl.engine.state import LIVE

    async def work(reporter: Reporter, execution: Execution) -> int:
        status = await execution.session.cancel(execution.id, reason)
        if status in LIVE:
            return reporter.execution("cancelling", "it is being cancelled: running calls have 10 s")
        return reporter.execution(status, status)

    on_execution(format, id, db, server, work)
