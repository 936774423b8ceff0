"""`noetl gc`: the command and its help. What it does is imported when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from noetl.cli.app import Db, Format, app
from noetl.cli.running import run


@app.command()
def gc(
    *,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="TIME", help="Only what is older: 90m, 24h, 7d.")
    ] = "24h",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go, and drop nothing.")] = False,
    format: Format = "auto",
    db: Db = None,
) -> None:
    """Drop stored results that nobody needs any more.

    Those that no log speaks of, once their execution has ended; those whose `ttl` has passed; those of
    executions that are not on record; and what is left of results that were never finished.
    JSON is `{dry_run, results, bytes, dropped}`.

    \b
    Examples:
      noetl gc --dry-run
      noetl gc --older-than 7d
    """

    def command() -> int:
        from noetl.cli.answering import answered
        from noetl.cli.gc_clearing import run_gc

        return answered(format, lambda _voice: run_gc(older_than, format, db, dry_run=dry_run))

    raise typer.Exit(run(command))
