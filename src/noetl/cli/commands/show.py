"""`noetl list` and `noetl show`: executions, newest first; and one of them as a tree with times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from noetl.cli.execute import Reporter
from noetl.cli.options import Db, Format, Id, Server, app, begin_of, nothing_to_list, on_execution, on_session

if TYPE_CHECKING:
    from noetl.session.execution import Execution
    from noetl.session.protocol import Session, Standing


STANDINGS: Final[tuple[Standing, ...]] = ("running", "interrupted", "paused", "ok", "error", "cancelled")


MATCHES_NONE: Final = "nothing to list: no execution matches"

Labels: TypeAlias = Annotated[
    list[str] | None, typer.Option("--label", metavar="KEY=VALUE", help="Only with this label; several: with all.")
]
Status: TypeAlias = Annotated[
    str | None, typer.Option(metavar="STATUS", help=f"Only with one of these: {', '.join(STANDINGS)}.")
]


@app.command(name="list")
def list_executions(
    *,
    path: Annotated[str | None, typer.Option(metavar="PATTERN", help="Only of these playbooks: `orders/*`.")] = None,
    status: Status = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Only of the last 12h, 2d, 4w, …")] = None,
    label: Labels = None,
    roots: Annotated[bool, typer.Option("--roots", help="Without executions that another one called.")] = False,
    open_only: Annotated[bool, typer.Option("--open", help="Only executions that have not ended.")] = False,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="At most this many.")] = 20,
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
      noetl list --label team=data --roots
      noetl list --open --format json
    """

    nothing = "nothing has run here yet; start with: noetl run FILE"

    async def work(reporter: Reporter, session: Session) -> int:
        from noetl.cli.output.tables import execution_document, execution_table
        from noetl.cli.workload import read_labels

        wanted, begin = _standings(status), None if since is None else begin_of(since)
        marks = read_labels(label or ())
        executions = session.executions(
            status=wanted, path=path, open_only=open_only, roots=roots, since=begin, labels=marks, limit=limit
        )
        found = [each async for each in executions]
        if not found:
            some = wanted or path or begin or marks or roots or open_only
            return nothing_to_list(reporter, MATCHES_NONE if some else f"{nothing}{session.hint}")
        if reporter.json:
            return reporter.show([await execution_document(session, each) for each in found])
        return reporter.show(None, execution_table(found, session.clock.now(), reporter.screen.columns))

    def if_missing(reporter: Reporter) -> int:
        from noetl.session.connect import resolve

        return nothing_to_list(reporter, f"{nothing}{resolve(db, server).hint}")

    on_session(format, db, server, work, if_missing=if_missing)


def _standings(words: str | None) -> list[Standing]:
    """Raises UsageError."""
    from noetl.session.errors import UsageError

    found: list[Standing] = []
    for word in words.split(",") if words is not None else ():
        known = next((each for each in STANDINGS if each == word.strip()), None)
        if known is None:
            raise UsageError(f'--status "{word.strip()}" is unknown: write one or more of {", ".join(STANDINGS)}')
        found.append(known)
    return found


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
