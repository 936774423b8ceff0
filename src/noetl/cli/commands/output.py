"""`noetl output`: the data that a playbook or a step returned, whole."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from noetl.cli.completion import complete_step
from noetl.cli.execute import FAILED, OK, Reporter
from noetl.cli.options import Db, Id, Server, app, on_execution
from noetl.cli.output.screen import is_terminal
from noetl.errors import NotFound
from noetl.escape import one_line, visible
from noetl.views.styled_text import Styled

if TYPE_CHECKING:
    from noetl.output import JSON
    from noetl.session.execution import Execution


@app.command()
def output(
    id: Id,
    step: Annotated[
        str | None,
        typer.Argument(
            metavar="[STEP]",
            help="A step (its last run is printed), or a run such as `fetch#2`.",
            autocompletion=complete_step,
        ),
    ] = None,
    *,
    raw: Annotated[bool, typer.Option("--raw", help="Print a string as it is, not as JSON.")] = False,
    db: Db = None,
    server: Server = None,
) -> None:
    """Print the complete data that an execution or one of its steps returned, as JSON.

    Exits with 1 when it ended in an error or has no output, with 3 when a stored result is lost or damaged.

    \b
    Examples:
      noetl output last
      noetl output last fetch > pages.json
      noetl output 0199b3c2 report --raw
    """

    on_execution("auto", id, db, server, lambda reporter, execution: _output(reporter, execution, step, raw=raw))


async def _output(reporter: Reporter, execution: Execution, step: str | None, *, raw: bool) -> int:
    found = await execution.find_output(step)
    if found.output is not None and (found.error is None or found.output.data or found.output.ref):
        _write(await execution.fetch(found.output), raw=raw)
    sys.stdout.flush()
    if found.error is not None:
        message = f"{one_line(found.error.kind)}: {one_line(found.error.message)}"
        reporter.errors.line(Styled("error", "error"), f": {message}")
        return FAILED
    if found.output is None:
        raise NotFound(found.why)
    return OK


def _write(data: JSON, *, raw: bool) -> None:
    from noetl.cli.output.documents import as_document, put

    if not raw or not isinstance(data, str):
        put(as_document(data).encode(), None)
    elif is_terminal(sys.stdout):
        sys.stdout.write("".join(f"{visible(line)}\n" for line in data.splitlines()))
    else:
        put(data.encode("utf-8", "replace"), None)
