"""`noetl debug`: run a playbook up to breakpoints, look at values, change them, continue."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from noetl.cli.arguments import RunOptions
from noetl.cli.commands.run import AllowExtra, Ctx, Labels, Secrets, Sets, WorkloadFile
from noetl.cli.completion import complete_playbook
from noetl.cli.execute import Reporter
from noetl.cli.options import Db, Dialect, Format, Server, app, finish

Target: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="FILE|ID",
        help="A playbook file, or the path of a registered playbook; or an execution that has not ended: its id,"
        " a prefix of the id, or `last`.",
        autocompletion=complete_playbook,
    ),
]
Breaks: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--break",
        "-b",
        metavar="PLACE",
        help="Stop before a step, `fetch`, or before a task, `fetch.get_page`; in a playbook that step `load` calls:"
        " `load/fetch`.",
    ),
]
Whens: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--when",
        metavar="EXPR",
        help="The condition of the --break at the same position: stop only while it is true, as in `iter.index == 17`.",
    ),
]


@app.command()
def debug(
    target: Target,
    *,
    breaks: Breaks = None,
    whens: Whens = None,
    sets: Sets = None,
    workload: WorkloadFile = None,
    ctx: Ctx = None,
    labels: Labels = None,
    secrets: Secrets = None,
    allow_extra: AllowExtra = False,
    db: Db = None,
    server: Server = None,
    dialect: Dialect = "canonical",
    format: Format = "auto",
) -> None:
    """Run a playbook with breakpoints: read and change values, run single tasks, continue.

    Without --break it stops before the first step. It reads commands from the terminal or standard input:
    `continue`, `step`, `where`, `print EXPR`, `set PATH VALUE`, `quit`, or their first letters; `help` lists all.
    At the end of the input the execution is paused, and the command that continues it is printed. The log records
    what is held, so it survives a crash, and `noetl debug ID` returns to it. Ctrl-C stops before the next step or task.
    Exits like `run`.

    \b
    Examples:
      noetl debug orders.yaml --break fetch.get_page --when "iter.index == 17" --set day=2026-11-16
      noetl debug last --break store
      printf 'print ctx\\ncontinue\\n' | noetl debug orders.yaml --break store
    """

    def command(reporter: Reporter) -> int:
        from noetl.cli.debugger import debug_target

        options = RunOptions(
            target, tuple(sets or ()), workload, db, server, dialect, format, False, allow_extra, tuple(ctx or ()),
            tuple(labels or ()), tuple(secrets or ()),
        )  # fmt: skip
        return debug_target(reporter, options, breaks or [], whens or [])

    finish(format, command)
