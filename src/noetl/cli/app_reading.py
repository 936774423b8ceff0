"""The commands that look at executions and change nothing. What a command does is imported when it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal, NoReturn, TypeAlias

import typer

from noetl.cli.app import Db, Format, Id, Server, app
from noetl.cli.choices import FormatChoice
from noetl.cli.contexts import place_of
from noetl.cli.running import run

StandingChoice: TypeAlias = Literal["running", "interrupted", "paused", "ok", "error", "cancelled"]
EventsChoice: TypeAlias = Literal["auto", "rich", "plain", "jsonl", "json"]


def _answer(form: FormatChoice, work: Callable[[], int]) -> NoReturn:
    """Do it; what is refused or can not be reached is said, as JSON too where that was asked for."""

    def command() -> int:
        from noetl.cli.answering import answered

        return answered(form, lambda _voice: work())

    raise typer.Exit(run(command))


@app.command(name="list")
def list_executions(
    *,
    status: Annotated[StandingChoice | None, typer.Option(help="Only those that stand so.")] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="At most so many.")] = 20,
    open_only: Annotated[bool, typer.Option("--open", help="Only those that have not ended.")] = False,
    format: Format = "auto",
    db: Db = None,
    server: Server = None,
) -> None:
    """List executions, the newest first.

    An execution that has not ended and that no process has is `interrupted`: `noetl resume` goes on with it.
    JSON is an array of what `show` gives, without the steps, and with `path`, `started` and `called_by`.

    \b
    Examples:
      noetl list --limit 5
      noetl list --status error
      noetl list --open --format json
    """

    def work() -> int:
        from noetl.cli.listing import Wanted, run_list

        return run_list(Wanted(status, limit, open_only), format, place_of(db, server))

    _answer(format, work)


@app.command()
def show(id: Id, *, format: Format = "auto", db: Db = None, server: Server = None) -> None:
    """Show an execution as a tree with times: what ran, what failed, what waits and for what.

    JSON is `{execution_id, status, output, error, duration_s, steps}`.

    \b
    Examples:
      noetl show last
      noetl show 0199b3c2 --format json
    """

    def work() -> int:
        from noetl.cli.overview import run_show

        return run_show(id, format, place_of(db, server))

    _answer(format, work)


@app.command()
def events(
    id: Id,
    *,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the execution has ended.")
    ] = False,
    first: Annotated[int, typer.Option("--from", min=1, metavar="SEQ", help="Begin with this fact.")] = 1,
    format: Annotated[
        EventsChoice, typer.Option(help="`jsonl` is one event a line, `json` an array of them.")
    ] = "auto",
    db: Db = None,
    server: Server = None,
) -> None:
    """Print the log of an execution, one event a line.

    For people: its number, the time since the start, its name, what it is about, and some of its data.

    \b
    Examples:
      noetl events last
      noetl events last --follow
      noetl events 0199b3c2 --from 100 --format jsonl
    """

    def work() -> int:
        from noetl.cli.following import Asked, run_events

        return run_events(id, Asked(format, first, follow), place_of(db, server))

    # What was told before something went wrong stands there: no document can follow it.
    _answer("auto", work)


@app.command()
def state(
    id: Id,
    *,
    at: Annotated[
        int | None, typer.Option("--at", metavar="SEQ", help="After this fact; without it, the newest.")
    ] = None,
    format: Format = "auto",
    db: Db = None,
    server: Server = None,
) -> None:
    """Show where an execution stood after any of its facts: tokens, runs, `workload` and `ctx`.

    JSON is `{seq, status, workload, ctx, tokens, runs}`.

    \b
    Examples:
      noetl state last
      noetl state last --at 12
      noetl state 0199b3c2 --at 12 --format json
    """

    def work() -> int:
        from noetl.cli.states import run_state

        return run_state(id, at, format, place_of(db, server))

    _answer(format, work)


@app.command()
def output(
    id: Id,
    step: Annotated[
        str | None, typer.Argument(metavar="[STEP]", help="A step: its last run; or a run, as `fetch#2`.")
    ] = None,
    *,
    raw: Annotated[bool, typer.Option("--raw", help="Text as it is, and not as JSON.")] = False,
    db: Db = None,
    server: Server = None,
) -> None:
    """Print the data that an execution, or one of its steps, gave back: whole, as JSON.

    Exits with 1 when it ended in an error or has no output, with 3 when a stored result is lost or damaged.

    \b
    Examples:
      noetl output last
      noetl output last fetch > pages.json
      noetl output 0199b3c2 report --raw
    """

    def work() -> int:
        from noetl.cli.outputs import run_output

        return run_output(id, step, place_of(db, server), raw=raw)

    _answer("auto", work)


@app.command()
def replay(id: Id, *, format: Format = "auto", db: Db = None, server: Server = None) -> None:
    """Fold the log of an execution anew, and compare with what is kept of its state.

    Exits with 1 when there are differences.

    \b
    Examples:
      noetl replay last
      noetl replay 0199b3c2 --format json
    """

    def work() -> int:
        from noetl.cli.replaying import run_replay

        return run_replay(id, format, place_of(db, server))

    _answer(format, work)


@app.command()
def audit(
    id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="One execution; without it, all of them.")
    ] = None,
    *,
    format: Format = "auto",
    db: Db = None,
    server: Server = None,
) -> None:
    """Check that logs, results and the database are sound.

    It keeps its own books and trusts nothing that the engine says of itself.
    Exits with 1 when it finds something.

    \b
    Examples:
      noetl audit last
      noetl audit --db other.db --format json
    """

    def work() -> int:
        from noetl.cli.auditing import run_audit

        return run_audit(id, format, place_of(db, server))

    _answer(format, work)
