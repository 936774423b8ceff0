"""`noetl signal`: send a signal that an execution waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from noetl.cli.connected import on_execution
from noetl.cli.execute import Reporter
from noetl.cli.options import Db, Format, Id, Server, app
from noetl.cli.output.screen import short

if TYPE_CHECKING:
    from noetl.output import JSON
    from noetl.session.execution import Execution


@app.command()
def signal(
    id: Id,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The signal that a `wait` task waits for.")],
    *,
    data: Annotated[
        str | None, typer.Option("--data", metavar="YAML", help="Its data: the `output.data` of the task.")
    ] = None,
    db: Db = None,
    server: Server = None,
    format: Format = "auto",
) -> None:
    """Send a signal that an execution waits for, such as an approval.

    Exits with 1 when nothing waits for it. JSON is `{execution_id, status}`.

    \b
    Examples:
      noetl signal last approved
      noetl signal 0199b3c2 approved --data "{by: ann, amount: 12}"
    """

    def value(_reporter: Reporter) -> JSON:
        from noetl.cli.workload import parse_value

        return None if data is None else parse_value(data, "--data")

    async def work(reporter: Reporter, execution: Execution) -> int:
        if await execution.session.signal(execution.id, name, value(reporter)):
            return reporter.execution(reporter.status, "the signal was delivered")
        resumed = f"{short(execution.id)}{execution.session.hint}"
        text = f"the signal is logged; continue with: noetl resume {resumed}"
        return reporter.execution(reporter.status, text)

    on_execution(format, id, db, server, work, before=value)
