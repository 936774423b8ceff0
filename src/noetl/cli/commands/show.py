"""`noetl list` and `noetl show`: executions, newest first; and one of them as a tree with times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from noetl.cli.execute import Reporter
from noetl.cli.options import Db, Format, Id, Server, app, begin_of, nothing_to_list, on_execution, on_session
from noetl.cli.selection import Labels, PathPattern, Search, Since, Statuses, Until, read_standings

if TYPE_CHECKING:
    from noetl.session.execution import Execution
    from noetl.session.protocol import ExecutionInfo, Session

NOTHING_RAN: Final = "nothing has run here yet; start with: noetl run FILE"
MATCHES_NONE: Final = "nothing to list: no execution matches"


@app.command(name="list")
def list_executions(
    *,
    path: PathPattern = None,
    status: Statuses = None,
    since: Since = None,
    until: Until = None,
    label: Labels = None,
    search: Search = None,
    waiting: Annotated[bool, typer.Option("--waiting", help="Only executions that wait for a person.")] = False,
    roots: Annotated[bool, typer.Option("--roots", help="Leave out child executions.")] = False,
    open_only: Annotated[bool, typer.Option("--open", help="Only executions that have not ended.")] = False,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="The maximum number of executions to list.")] = 20,
    format: Format = "auto",
    db: Db = None,
    server: Server = None,
) -> None:
    """List executions, newest first.

    An execution without a live owner makes no progress and is `interrupted`; `noetl resume` continues it.
    JSON is an array of the documents of `show` without the steps, with `path`, `started`, `called_by`, `labels`.

    \b
    Examples:
      noetl list --path 'orders/*' --status error,interrupted --since 2d
      noetl list --label team=data --roots --search refund
      noetl list --open --format json
    """

    async def work(reporter: Reporter, session: Session) -> int:
        from noetl.cli.workload import read_labels

        wanted, marks = read_standings(status), read_labels(label or ())
        begin = None if since is None else begin_of(since)
        end = None if until is None else begin_of(until, "--until")
        executions = session.executions(
            status=wanted, path=path, open_only=open_only, roots=roots, since=begin, until=end, labels=marks,
            waiting=waiting, search=search, limit=limit,
        )  # fmt: skip
        found = [each async for each in executions]
        if not found:
            some = wanted or path or begin or end or marks or roots or open_only or waiting or search
            return nothing_to_list(reporter, MATCHES_NONE if some else f"{NOTHING_RAN}{session.hint}")
        return await _show_list(reporter, session, found)

    def if_missing(reporter: Reporter) -> int:
        from noetl.session.connect import resolve

        return nothing_to_list(reporter, f"{NOTHING_RAN}{resolve(db, server).hint}")

    on_session(format, db, server, work, if_missing=if_missing)


async def _show_list(reporter: Reporter, session: Session, found: list[ExecutionInfo]) -> int:
    from noetl.cli.output.tables import execution_document, execution_table

    if reporter.json:
        return reporter.show([await execution_document(session, each) for each in found])
    return reporter.show(None, execution_table(found, session.clock.now(), reporter.screen.columns))


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
