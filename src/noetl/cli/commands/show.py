"""`noetl show`: an execution as a tree with times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl.cli.execute import Reporter
from noetl.cli.options import Db, Format, Id, Server, app, on_execution

if TYPE_CHECKING:
    from noetl.session.execution import Execution


@app.command()
def show(id: Id, *, format: Format = "auto", db: Db = None, server: Server = None) -> None:
    """Show an execution as a tree with times: what ran, what failed, what waits and for what.

    JSON is `{execution_id, status, output, error, duration_s, steps}`.

    \b
    Examples:
      noetl show last
      noetl show 0199b3c2 --format json
    """

    from noetl.cli.output.tree import tree

    async def work(reporter: Reporter, execution: Execution) -> int:
        if reporter.json:
            return reporter.show(await execution.show())
        reporter.screen.lines([line async for line in tree(execution, reporter.screen.columns)])
        return 0

    on_execution(format, id, db, server, work)
