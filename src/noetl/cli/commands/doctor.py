"""`noetl doctor`: diagnose a deployment and suggest fixes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from noetl.cli.execute import FAILED, OK, Reporter
from noetl.cli.options import Format, app, finish
from noetl.cli.output.screen import Screen
from noetl.views.styled_text import Style, Styled, folded

if TYPE_CHECKING:
    from noetl.runtime.doctor import Diagnosis, DoctorOptions, Grade


@app.command()
def doctor(
    *,
    db: Annotated[
        str | None, typer.Option("--db", metavar="PATH|URL", help="A database file, or postgresql://…")
    ] = None,
    server: Annotated[
        str | None, typer.Option("--server", metavar="URL", help="A server: its address, or a context.")
    ] = None,
    nats: Annotated[str | None, typer.Option("--nats", metavar="URL", help="A NATS: nats://host:port.")] = None,
    monitor: Annotated[
        str | None,
        typer.Option(
            "--monitor", metavar="URL", help="The monitoring address of NATS. Default: port 8222 of its host."
        ),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Treat warnings as errors.")] = False,
    format: Format = "auto",
) -> None:
    """Diagnose a deployment and suggest fixes. Read-only.

    Without options: what other commands would use here, by context and environment.
    Exits with 0 when everything is in order, with 1 otherwise. No secret is ever shown.
    JSON is `{ok, findings: [{check, grade, words, cure}]}`; a grade is `ok`, `info`, `warning` or `error`.

    \b
    Examples:
      noetl doctor
      noetl doctor --server https://noetl.example.com
      noetl doctor --db postgresql://noetl@db/noetl --nats nats://nats:4222
    """

    def command(reporter: Reporter) -> int:
        import asyncio

        from noetl.runtime.doctor import has_failures, run_checks

        found = asyncio.run(run_checks(_options(db, server, nats, monitor)))
        wrong = has_failures(found, strict=strict)
        reporter.document({"ok": not wrong, "findings": [each._asdict() for each in found]})
        if not reporter.json:
            _print(found, reporter.screen)
        return FAILED if wrong else OK

    finish(format, command)


def _options(db: str | None, server: str | None, nats: str | None, monitor: str | None) -> DoctorOptions:
    """What was named; without any option what other commands would use here. Raises UsageError."""
    from noetl.runtime.doctor import DoctorOptions
    from noetl.runtime.settings import database_path, database_url, nats_url
    from noetl.session.connect import Server, resolve

    named = db is not None or nats is not None
    target = None if named and server is None else resolve(None, server)
    found = target if isinstance(target, Server) else None
    url, file = database_url(db), None
    if found is None and url is None and (db is not None or nats is None):
        file = database_path(db)
    if found is not None and db is None:
        url = database_url(None)
    return DoctorOptions(
        file=file,
        database=url,
        nats=nats_url(nats) if db is None or nats is not None else None,
        monitor=monitor,
        server=None if found is None else found.url,
        token=None if found is None else found.token,
        environment=os.environ,
    )


SIGNS: dict[Grade, Styled] = {
    "ok": Styled("ok       ", "good"),
    "info": Styled("note     ", "info"),
    "warning": Styled("warning  ", "warning"),
    "error": Styled("wrong    ", "error"),
}


def _print(found: Sequence[Diagnosis], screen: Screen) -> None:
    from noetl.net.describe import count

    indent = len(SIGNS["ok"].text)
    for each in found:
        styled: Style = "" if each.grade != "ok" else "faint"
        words = [Styled(f"{each.check}: ", "name"), Styled(each.words, styled)]
        for place, line in enumerate(folded(words, screen.columns - indent)):
            screen.line(Styled(" " * indent) if place else SIGNS[each.grade], *line)
        if each.cure is not None:
            for place, line in enumerate(folded([Styled(each.cure)], screen.columns - indent - 2)):
                screen.line(" " * indent, "  " if place else "→ ", *line)
    wrong = sum(each.grade == "error" for each in found)
    doubtful = sum(each.grade == "warning" for each in found)
    screen.line()
    if not wrong and not doubtful:
        screen.line(Styled(f"{count(len(found), 'check')} passed", "good"))
        return
    screen.line(f"{count(len(found), 'check')}: {count(wrong, 'error')}, {count(doubtful, 'warning')}")
