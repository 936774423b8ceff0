"""`noetl delete`: delete finished executions, with the executions that they called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from noetl.cli.completion import complete_execution
from noetl.cli.execute import Reporter, find
from noetl.cli.options import Db, Format, Server, Yes, app, confirmed, on_session
from noetl.cli.selection import (
    Labels,
    PathPattern,
    Search,
    Selection,
    Since,
    Statuses,
    Until,
    on_selected,
)

if TYPE_CHECKING:
    from noetl.session.execution import Execution
    from noetl.session.protocol import ExecutionInfo, Session

SHOWN_MAX = 20  # executions of the plan


@app.command()
def delete(
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ID…]",
            help="Executions: ids, prefixes of ids, or `last`. Without them, options choose several.",
            autocompletion=complete_execution,
        ),
    ] = None,
    *,
    path: PathPattern = None,
    status: Statuses = None,
    label: Labels = None,
    search: Search = None,
    since: Since = None,
    until: Until = None,
    yes: Yes = False,
    db: Db = None,
    server: Server = None,
    format: Format = "auto",
) -> None:
    """Delete executions that have ended: their logs, and the executions that they called.

    It prints its plan first. On a terminal it asks for confirmation; elsewhere it does nothing unless --yes is given.
    With a database file, `noetl gc` then deletes the stored results; a server with PostgreSQL deletes them itself.
    A child execution is deleted with its parent. The audit trail records who deleted what.
    JSON is `{deleted, executions}`; without --yes `deleted` is 0. Without an ID it deletes all executions that match
    the options, at most 1,000; JSON is then `{action, executions}`, with a `result` for each.

    \b
    Examples:
      noetl delete 0199b3c2 0199b3c5
      noetl delete --path 'trials/*' --until 4w
      noetl delete last --yes
    """

    from noetl.api.bulk import BulkRequest

    selection = Selection(path, status, label, search, since, until)
    if not ids or any(selection):
        on_selected(format, db, server, selection, BulkRequest(action="delete"), named=ids, yes=yes)
    on_session(format, db, server, lambda reporter, session: _delete_named(reporter, session, ids, yes=yes))


async def _delete_named(reporter: Reporter, session: Session, ids: list[str], *, yes: bool) -> int:
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
