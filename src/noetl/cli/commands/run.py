"""`noetl run`: run a playbook to its end. noetl.cli.runner does the work, so that it starts without typer."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from noetl.cli.arguments import RunOptions
from noetl.cli.completion import complete_playbook
from noetl.cli.options import Db, Detach, Dialect, Format, Server, app

Sets: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="A value of the workload, as YAML; the key `a.b` names a nested value. `noetl explain` lists the inputs.",
    ),
]
WorkloadFile: TypeAlias = Annotated[
    str | None, typer.Option("--workload", metavar="FILE", help="Values of the workload: a mapping in YAML or JSON.")
]
Ctx: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--ctx",
        metavar="KEY=VALUE",
        help="An initial value of `ctx`, as YAML. By default, `ctx` is empty at the start.",
    ),
]
Labels: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--label", metavar="KEY=VALUE", help="A label of the execution: `noetl list --label` finds it."),
]
Secrets: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--secret",
        metavar="NAME[=@FILE|=env:VARIABLE]",
        help="The value of a secret input: from a file, from an environment variable, or from a prompt without echo."
        " It is stored encrypted and never written to the log.",
    ),
]
AllowExtra: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--allow-extra",
        help="Accept --set and --ctx with keys that the playbook neither declares nor reads. If the playbook declares"
        " its inputs under `input`, --set with such keys is always refused.",
    ),
]


@app.command(name="run")
def run(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE|PATH",
            help="A playbook file, or `-` for standard input. If there is no such file: the path of a registered"
            " playbook, as `PATH` or `PATH@VERSION`.",
            autocompletion=complete_playbook,
        ),
    ],
    *,
    sets: Sets = None,
    workload: WorkloadFile = None,
    ctx: Ctx = None,
    labels: Labels = None,
    secrets: Secrets = None,
    allow_extra: AllowExtra = False,
    db: Db = None,
    server: Server = None,
    detach: Detach = False,
    dialect: Dialect = "canonical",
    format: Format = "auto",
) -> None:
    """Run a playbook to its end, and show its progress.

    Ctrl-C stops it cleanly: finished work is logged, and `noetl resume` continues it.
    With a server, a file is registered and runs there; Ctrl-C then only stops the progress display.
    JSON is `{execution_id, status, output, error, duration_s, steps}`; after an interruption the status is
    `interrupted`.
    Exits with 0 when it succeeded, 1 when it failed or was cancelled, 2 when the playbook has problems or
    the values do not fit its inputs, 130 when it was interrupted or paused.

    \b
    Examples:
      noetl run hello.yaml --set name=you --set options.depth=2
      noetl run team/hello@2 --secret password --secret token=@token.txt --secret key=env:API_KEY
      noetl run old.yaml --dialect auto --workload values.json --format json
    """
    from noetl.cli import runner

    first, marks = tuple(ctx or ()), tuple(labels or ())
    options = RunOptions(
        file, tuple(sets or ()), workload, db, server, dialect, format, detach, allow_extra, first, marks,
        tuple(secrets or ()),
    )  # fmt: skip
    raise typer.Exit(runner.run(options))
