"""`noetl resume`: continue an execution that was interrupted or paused."""

from __future__ import annotations

from noetl.cli.execute import Reporter
from noetl.cli.options import Db, Detach, Format, Id, Server, app, finish


@app.command()
def resume(id: Id, *, db: Db = None, server: Server = None, detach: Detach = False, format: Format = "auto") -> None:
    """Continue an execution that was interrupted or paused.

    An execution that another process runs is left alone; one that has ended is only shown. Exits like `run`.
    An execution that a server runs is followed.

    \b
    Examples:
      noetl resume last
      noetl resume 0199b3c2 --format json
    """

    def command(reporter: Reporter) -> int:
        from noetl.cli.runner import continue_execution
        from noetl.session.connect import resolve

        return continue_execution(
            reporter, id, resolve(db, server), lambda execution: execution.resume(), detach=detach, show_if_ended=True
        )

    finish(format, command)
