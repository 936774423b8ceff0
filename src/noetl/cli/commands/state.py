"""`noetl state`: the state of an execution after any of its facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from noetl.cli.options import Db, Format, Id, Server, app, finish

if TYPE_CHECKING:
    from noetl.cli.execute import Reporter
    from noetl.session.execution import Execution


@app.command()
def state(
    id: Id,
    *,
    at: Annotated[
        int | None, typer.Option("--at", metavar="SEQ", help="After this fact; default: the last one.")
    ] = None,
    format: Format = "auto",
    db: Db = None,
    server: Server = None,
) -> None:
    """Show the state of an execution after any of its facts: tokens, runs, `workload` and `ctx`.

    JSON is `{seq, status, workload, ctx, tokens, runs}`.

    \b
    Examples:
      noetl state last
      noetl state last --at 12
      noetl state 0199b3c2 --at 12 --format json
    """

    def command(reporter: Reporter) -> int:
        from noetl.cli.connected import on_execution
        from noetl.cli.output.state_lines import state_lines
        from noetl.views.documents import state_document

        async def work(execution: Execution) -> int:
            log, runs = await execution.log_at(at)
            document = state_document(runs)
            return reporter.show(document, state_lines(log, runs, document))

        return on_execution(reporter, id, db, server, work)

    finish(format, command)
