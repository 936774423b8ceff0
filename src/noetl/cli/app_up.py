"""`noetl up` and `noetl doctor`: the commands and their help. What they do is imported when they run."""

from __future__ import annotations

from typing import Annotated

import typer

from noetl.cli.app import Format, app
from noetl.cli.running import run
from noetl.defaults import DEV_WORKERS, PORT, WORKER_SLOTS


@app.command()
def up(
    *,
    folder: Annotated[
        str | None,
        typer.Option(
            "--dir", metavar="DIR", help="Where all of it is kept; else `noetl/up` with your other data."
        ),
    ] = None,
    port: Annotated[int, typer.Option("--port", help="Of the server, on 127.0.0.1; 0 is any.")] = PORT,
    workers: Annotated[int, typer.Option("--workers", help="How many worker processes.")] = DEV_WORKERS,
    slots: Annotated[int, typer.Option("--slots", help="Calls at once in each of them.")] = WORKER_SLOTS,
    format: Format = "auto",
) -> None:
    """Start the distributed house on this machine, for a trial: PostgreSQL, NATS, a server and workers.

    It stays in the foreground. Ctrl-C stops all of it; what is open goes on with the next `up` on the
    same folder. It needs NoETL with the extras `postgres`, `nats` and `trial`, and nothing else.
    JSON is one line when all are ready: `{url, nats, pid, pids, folder, token_file, environment_file, logs,
    socket_folder}`; `up.json` in the folder is the same.

    \b
    Examples:
      noetl up
      noetl up --dir ./trial --port 9000 --workers 4
    """

    def command() -> int:
        from noetl.cli.answering import answered
        from noetl.cli.upping import UpAsked, run_up

        return answered(format, lambda voice: run_up(UpAsked(folder, port, workers, slots, format), voice))

    raise typer.Exit(run(command))


@app.command()
def doctor(
    *,
    db: Annotated[
        str | None,
        typer.Option("--db", metavar="PATH|URL", help="A database of the embedded house, or postgresql://…"),
    ] = None,
    server: Annotated[
        str | None, typer.Option("--server", metavar="URL", help="A server: its address, or a context.")
    ] = None,
    nats: Annotated[
        str | None, typer.Option("--nats", metavar="URL", help="A NATS: nats://host:port.")
    ] = None,
    monitor: Annotated[
        str | None,
        typer.Option(
            "--monitor", metavar="URL", help="Where that NATS tells of itself; else port 8222 of its host."
        ),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as wrong.")] = False,
    format: Format = "auto",
) -> None:
    """Say what is wrong with a set-up, and how to mend it. It only looks.

    Without options: what other commands would use from here, by context and environment.
    Exits with 0 when all is well, with 1 when something is wrong. No secret is ever shown.
    JSON is `{ok, findings: [{check, grade, words, cure}]}`; a grade is `ok`, `info`, `warning` or `error`.

    \b
    Examples:
      noetl doctor
      noetl doctor --server https://noetl.example.com
      noetl doctor --db postgresql://noetl@db/noetl --nats nats://nats:4222
    """

    def command() -> int:
        from noetl.cli.answering import answered
        from noetl.cli.doctoring import DoctorAsked, run_doctor

        asked = DoctorAsked(db, server, nats, monitor, strict, format)
        return answered(format, lambda _voice: run_doctor(asked))

    raise typer.Exit(run(command))
