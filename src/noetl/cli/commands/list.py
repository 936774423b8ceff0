"""`noetl list`: executions, newest first, one row each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from noetl.cli.options import Db, Format, Server, app, finish

if TYPE_CHECKING:
    from noetl.cli.execute import Reporter
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

    def command(reporter: Reporter) -> int:
        from noetl.cli.connected import on_session
        from noetl.cli.output.tables import execution_document, execution_table
        from noetl.session.connect import resolve

        target = resolve(db, server)

        async def work(session: Session) -> int:
            found = [
                each async for each in session.executions(status=status, open_only=open_only, limit=limit)
            ]
            if reporter.json:
                return reporter.show([await execution_document(session, each) for each in found])
            if found:
                lines = execution_table(found, session.clock.now(), reporter.screen.columns)
                return reporter.show(None, lines)
            if status is None and not open_only:
                return _nothing(reporter, session.hint)
            reporter.errors.line("nothing to list: no execution matches")
            return 0

        return on_session(target, work) if target.exists else _nothing(reporter, target.hint)

    finish(format, command)


def _nothing(reporter: Reporter, hint: str) -> int:
    reporter.document([])
    if not reporter.json:
        reporter.errors.line(f"nothing has run here yet; start with: noetl run FILE{hint}")
    return 0
