"""`noetl pause`: stop an execution after its running calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl.cli.connected import on_execution
from noetl.cli.execute import Reporter
from noetl.cli.options import Db, Format, Id, Server, app
from noetl.cli.output.screen import short

if TYPE_CHECKING:
    from noetl.session.execution import Execution


@app.command()
def pause(id: Id, *, db: Db = None, server: Server = None, format: Format = "auto") -> None:
    """Pause an execution: running calls finish, nothing new starts.

    Its process then ends; `noetl resume` continues the execution. JSON is `{execution_id, status}`.

    \b
    Examples:
      noetl pause last
      noetl pause 0199b3c2 --format json
    """

    async def work(reporter: Reporter, execution: Execution) -> int:
        if (await execution.info()).status == "paused":
            return reporter.execution("paused", "it is paused already")
        await execution.pause()
        name = f"{short(execution.id)}{execution.session.hint}"
        return reporter.execution("paused", f"paused; continue with: noetl resume {name}")

    on_execution(format, id, db, server, work)
