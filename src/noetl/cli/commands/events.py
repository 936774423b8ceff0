"""`noetl events`: the log of an execution, one event per line; with `--follow` also new ones."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from noetl.cli.options import Db, Id, Server, app, finish

if TYPE_CHECKING:
    from noetl.cli.choices import FormatChoice
    from noetl.cli.execute import Reporter
    from noetl.session.execution import Execution
    from noetl.views.envelopes import Envelope

EventsChoice: TypeAlias = Literal["auto", "rich", "plain", "jsonl", "json"]


@app.command()
def events(
    id: Id,
    *,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue until the execution has ended.")
    ] = False,
    first: Annotated[int, typer.Option("--from", min=1, metavar="SEQ", help="Start with this fact.")] = 1,
    format: Annotated[
        EventsChoice, typer.Option(help="`jsonl` is one event per line, `json` an array of them.")
    ] = "auto",
    db: Db = None,
    server: Server = None,
) -> None:
    """Print the log of an execution, one event per line.

    For people: its number, the time since the start, its name, its subject, and the main data.

    \b
    Examples:
      noetl events last
      noetl events last --follow
      noetl events 0199b3c2 --from 100 --format jsonl
    """

    def command(reporter: Reporter) -> int:
        from noetl.cli.connected import on_execution
        from noetl.session.errors import UsageError

        if follow and format == "json":
            raise UsageError("--follow cannot close a JSON array: use --format jsonl")

        async def work(execution: Execution) -> int:
            printer = _Printer(reporter, execution, format)
            await printer.open()
            async for event in execution.events(
                after=first - 1, follow=follow, on_ownerless=printer.warn_ownerless
            ):
                printer.print(event)
            printer.close()
            return 0

        return on_execution(reporter, id, db, server, work)

    # Events that were printed before an error stay: no error document can follow them.
    people: FormatChoice = "rich" if format == "rich" else "plain" if format == "plain" else "auto"
    finish(people, command)


class _Printer:
    """Writes events in one of the formats."""

    def __init__(self, reporter: Reporter, execution: Execution, format: EventsChoice) -> None:
        self._reporter = reporter
        self._execution = execution
        self._format = format
        self._separator = ""

    async def open(self) -> None:
        self._started_at = (await self._execution.info()).started_at
        if self._format == "json":
            sys.stdout.write("[")

    def print(self, event: Envelope) -> None:
        from noetl.cli.output.event_lines import event_line
        from noetl.cli.output.json import as_line

        if self._format == "jsonl":
            sys.stdout.write(as_line(event))
        elif self._format == "json":
            sys.stdout.write(f"{self._separator}\n  {as_line(event).rstrip()}")
            self._separator = ","
        else:
            self._reporter.screen.line(*event_line(event, self._started_at))

    def close(self) -> None:
        if self._format == "json":
            sys.stdout.write("\n]\n")

    def warn_ownerless(self) -> None:
        from noetl.cli.output.text import short
        from noetl.views.styled_text import Styled

        name = f"{short(self._execution.id)}{self._execution.session.hint}"
        text = f"no process runs it now: continue with noetl resume {name}"
        self._reporter.errors.line(Styled(text, "warning"))
