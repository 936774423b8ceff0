"""`noetl backfill`: run a playbook once for each window of time."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias

import typer

from noetl.cli.completion import complete_playbook
from noetl.cli.execute import Reporter
from noetl.cli.options import Db, Detach, Format, Server, Yes, app, confirmed, finish

if TYPE_CHECKING:
    from noetl.session.backfill import BackfillPlaybook, Window
    from noetl.session.execution import Execution
    from noetl.session.protocol import Session

SHOWN = 3  # windows of the plan, at its begin and at its end


From: TypeAlias = Annotated[
    str, typer.Option("--from", metavar="TIME", help="The start of the first window: 2026-01-01.")
]
To: TypeAlias = Annotated[str, typer.Option("--to", metavar="TIME", help="The end of the last window; exclusive.")]
Length: TypeAlias = Annotated[
    str, typer.Option("--every", metavar="LENGTH", help="The length of a window: 1h, 6h, 1d, 1w, 1mo.")
]
InFlight: TypeAlias = Annotated[
    int,
    typer.Option("--in-flight", min=1, max=1_000, metavar="N", help="The number of windows that run at the same time."),
]
Missing: TypeAlias = Annotated[
    bool, typer.Option("--missing", help="Run only windows that no earlier backfill has run successfully.")
]
Zone: TypeAlias = Annotated[
    str,
    typer.Option("--timezone", metavar="ZONE", help="The time zone of --from, --to and calendar days: Europe/Zurich."),
]


@app.command()
def backfill(
    path: Annotated[
        str,
        typer.Argument(
            metavar="FILE|PATH", help="A playbook file, or a registered playbook.", autocompletion=complete_playbook
        ),
    ],
    *,
    begin: From,
    end: To,
    every: Length = "1d",
    in_flight: InFlight = 4,
    reverse: Annotated[bool, typer.Option("--reverse", help="Run the newest window first.")] = False,
    missing: Missing = False,
    timezone: Zone = "UTC",
    yes: Yes = False,
    db: Db = None,
    server: Server = None,
    detach: Detach = False,
    format: Format = "auto",
) -> None:
    """Run a playbook once for each window of time, as the children of one execution.

    Each window is an ordinary execution with `workload.window`: `{start, end}` in RFC 3339. The plan is printed first.
    On a terminal the command asks for confirmation; elsewhere it needs --yes. A failed window does not stop the others:
    the command then exits with 1, and --missing repeats the failed windows. JSON is that of `run`, or for a plan
    `{status, windows}`.

    \b
    Examples:
      noetl backfill orders/daily --from 2026-01-01 --to 2026-03-01
      noetl backfill daily.yaml --from 2026-01-01 --to 2026-03-01 --every 1w --timezone Europe/Zurich
      noetl backfill orders/daily --from 2026-01-01 --to 2026-03-01 --missing --reverse --yes
    """

    options = BackfillOptions(path, begin, end, every, timezone, in_flight, reverse, missing, yes)

    def command(reporter: Reporter) -> int:
        return _backfill(reporter, options, db, server, detach=detach)

    finish(format, command)


class BackfillOptions(NamedTuple):
    path: str
    begin: str
    end: str
    every: str
    timezone: str
    in_flight: int
    reverse: bool
    missing: bool
    yes: bool


def _backfill(reporter: Reporter, options: BackfillOptions, db: str | None, server: str | None, *, detach: bool) -> int:
    from noetl.cli.runner import run_session
    from noetl.session.backfill import parse_every, parse_instant, parse_zone, start_backfill, windows_between
    from noetl.session.connect import resolve

    zone, in_flight = parse_zone(options.timezone), options.in_flight
    begin, end = parse_instant(options.begin, zone, "--from"), parse_instant(options.end, zone, "--to")
    windows = windows_between(begin, end, parse_every(options.every))

    async def plan(session: Session) -> BackfillPlaybook | None:
        nonlocal windows
        playbook, windows = await _planned(session, options.path, windows, missing=options.missing)
        windows = windows[::-1] if options.reverse else windows
        _print_plan(reporter, playbook, windows, in_flight)
        if windows and confirmed(reporter, "run them?", yes=options.yes):
            return playbook
        reporter.document({"status": "planned", "windows": [each.document() for each in windows]})
        return None

    def start(session: Session, playbook: BackfillPlaybook) -> Coroutine[object, object, Execution]:
        return start_backfill(session, playbook, windows, in_flight)

    return run_session(reporter, resolve(db, server), plan, start, detach=detach)


async def _planned(
    session: Session, path: str, windows: list[Window], *, missing: bool
) -> tuple[BackfillPlaybook, list[Window]]:
    from noetl.session.backfill import find_playbook, succeeded
    from noetl.session.sources import find_source

    playbook = await find_playbook(session, find_source(path))
    if missing:
        done = await succeeded(session, playbook.path)
        windows = [each for each in windows if each.key not in done]
    return playbook, windows


def _print_plan(reporter: Reporter, playbook: BackfillPlaybook, windows: list[Window], in_flight: int) -> None:
    """To standard error: standard output is for what `run` prints."""
    from noetl.net.describe import count

    if not playbook.reads_window:
        reporter.warn(f"{playbook.path} does not read workload.window: every window does the same")
    lines = [f"{each.document()['start']} … {each.document()['end']}" for each in windows]
    if len(lines) > 2 * SHOWN + 1:
        lines[SHOWN:-SHOWN] = [f"… {len(lines) - 2 * SHOWN:,} more"]
    for line in (f"{playbook.path}: {count(len(windows), 'window')}, {in_flight} at a time", *lines):
        reporter.errors.line(line)
