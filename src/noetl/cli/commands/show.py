"""`noetl list` and `noetl show`: executions, newest first; and one of them as a tree with times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from noetl.cli.execute import Reporter
from noetl.cli.options import Db, Format, Id, Server, app, nothing_to_list, on_execution, on_session

if TYPE_CHECKING:
    from noetl.session.execution import Execution
    from noetl.session.protocol import Session


StandingChoice: TypeAlias = Literal["running", "interrupted", "paused", "ok", "error", "cancelled"]


@app.command(name="list")
def list_executions(
    *,
    status: Annotated[StandingChoice | None, typer.Option(help="Only executions with this status.")] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="At most this many.")] = 20,
    open_only: Annotated[bool, typer.Option("--open", help="Only executions that have not ended.")] = False,
    format: Format = "auto",
    db: Db = None,
    server: Server = None,
) -> None:
    """List executions, newest first.

    An execution without a live owner makes no progress and is `interrupted`; `noetl resume` continues it.
    JSON is an array of the documents of `show` without the steps, with `path`, `started` and `called_by`.

    \b
    Examples:
      noetl list --limit 5
      noetl list --status error
      noetl list --open --format json
    """

    nothing = "nothing has run here yet; start with: noetl run FILE"

    async def work(reporter: Reporter, session: Session) -> int:
        from noetl.cli.output.tables import execution_document, execution_table

        found = [each async for each in session.executions(status=status, open_only=open_only, limit=limit)]
        if not found and status is None and not open_only:
            return nothing_to_list(reporter, f"{nothing}{session.hint}")
        if not found:
            return nothing_to_list(reporter, "nothing to list: no execution matches")
        if reporter.json:
            return reporter.show([await execution_document(session, each) for each in found])
        return reporter.show(None, execution_table(found, session.clock.now(), reporter.screen.columns))

    def if_missing(reporter: Reporter) -> int:
        from noetl.session.connect import resolve

        return nothing_to_list(reporter, f"{nothing}{resolve(db, server).hint}")

    on_session(format, db, server, work, if_missing=if_missing)


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
