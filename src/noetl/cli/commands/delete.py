"""`noetl delete`: delete ended executions, with the executions that they called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from noetl.cli.completion import complete_execution
from noetl.cli.execute import Reporter, find
from noetl.cli.options import Db, Format, Server, Yes, app, confirmed, on_session

if TYPE_CHECKING:
    from noetl.session.execution import Execution
    from noetl.session.protocol import ExecutionInfo, Session

SHOWN_MAX = 20  # executions of the plan


@app.command()
def delete(
    ids: Annotated[
        list[str],
        typer.Argument(
            metavar="ID…", help="Executions: ids, prefixes of ids, or `last`.", autocompletion=complete_execution
        ),
    ],
    *,
    yes: Yes = False,
    db: Db = None,
    server: Server = None,
    format: Format = "auto",
) -> None:
    """Delete executions that have ended: their logs, and the executions that they called.

    It prints its plan first. On a terminal it asks; elsewhere it needs --yes, and without it does nothing.
    `noetl gc` then frees the stored results in a file; a server with PostgreSQL frees them itself.
    An execution that another one called is deleted with its caller. The audit trail keeps who deleted what.
    JSON is `{deleted, executions}`; without --yes `deleted` is 0.

    \b
    Examples:
      noetl delete 0199b3c2 0199b3c5
      noetl delete last --yes
    """

    async def work(reporter: Reporter, session: Session) -> int:
        chosen: dict[str, Execution] = {}
        for each in ids:
            execution = await find(reporter, session, each)
            chosen[execution.id] = execution
        plan = {id: await session.deletable(id) for id in chosen}
        executions = {each.id: each for found in plan.values() for each in found}
        deleted = 0
        _print_plan(reporter, session, list(executions.values()))
        if confirmed(reporter, f"delete {_executions(len(executions))}?", yes=yes):
            for id in plan:
                deleted += await session.delete(id)
            if not reporter.json:
                reporter.screen.line(f"deleted {_executions(deleted)}")
        reporter.document({"deleted": deleted, "executions": list(executions)})
        return 0

    on_session(format, db, server, work)


def _executions(number: int) -> str:
    from noetl.net.describe import count

    return count(number, "execution")


def _print_plan(reporter: Reporter, session: Session, found: list[ExecutionInfo]) -> None:
    from noetl.cli.output.tables import execution_table

    if reporter.json:
        return
    reporter.screen.lines(execution_table(found[:SHOWN_MAX], session.clock.now(), reporter.screen.columns))
    if len(found) > SHOWN_MAX:
        reporter.screen.line(f"… and {len(found) - SHOWN_MAX:,} more")
