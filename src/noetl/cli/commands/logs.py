"""`noetl logs`: the lines that tasks have printed; with `--follow` also new ones."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from noetl.cli.completion import complete_step
from noetl.cli.execute import Reporter
from noetl.cli.options import Db, Id, Server, app, on_execution
from noetl.cli.output.screen import short
from noetl.session.errors import UsageError
from noetl.views.styled_text import Styled

if TYPE_CHECKING:
    from noetl.session.execution import Execution

LogsChoice: TypeAlias = Literal["text", "jsonl"]


@app.command()
def logs(
    id: Id,
    step: Annotated[
        str | None,
        typer.Argument(
            metavar="[STEP]", help="Only lines of this step, run, iteration or call.", autocompletion=complete_step
        ),
    ] = None,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing until the execution ends.")] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Only lines of failed calls.")] = False,
    format: Annotated[LogsChoice, typer.Option(help="`jsonl` prints one JSON object per line.")] = "text",
    db: Db = None,
    server: Server = None,
) -> None:
    """Print the lines that the tasks of an execution have printed.

    `python` and `shell` tasks print: `print`, `logging`, standard output and standard error. Each line begins with
    its call and its stream: `out`, `err`, or `note` where lines are left out. Values of credentials are `***`.

    \b
    Examples:
      noetl logs last
      noetl logs last fetch --follow
      noetl logs 0199b3c2 --failed --format jsonl
    """

    def before(_reporter: Reporter) -> None:
        if follow and failed:
            raise UsageError("--failed needs an execution that has ended: use it without --follow")

    async def work(reporter: Reporter, execution: Execution) -> int:
        from noetl.api.executions import line_text
        from noetl.cli.output.documents import as_line

        def warn() -> None:
            name = f"{short(execution.id)}{execution.session.hint}"
            text = f"no process runs it now: continue with noetl resume {name}"
            reporter.errors.line(Styled(text, "warning"))

        async for line in execution.logs(step, failed=failed, follow=follow, on_ownerless=warn):
            sys.stdout.write(as_line(line) if format == "jsonl" else f"{line_text(line)}\n")
            if follow:
                sys.stdout.flush()
        return 0

    on_execution("plain", id, db, server, work, before=before)
