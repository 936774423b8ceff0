"""The commands, their options and their help. What a command does is imported when it runs.

Here are those that check playbooks and run them; those that only look at executions are in app_reading.
"""

from __future__ import annotations

from typing import Annotated

import typer

from noetl import __version__
from noetl.cli.asked import Named, RunAsked
from noetl.cli.choices import DialectChoice, FormatChoice, GraphChoice
from noetl.cli.contexts import place_of
from noetl.cli.running import run

app = typer.Typer(
    name="noetl",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with: noetl init hello.yaml, then noetl run hello.yaml",
)

File = Annotated[str, typer.Argument(metavar="FILE", help="A playbook; `-` is standard input.")]
Out = Annotated[str | None, typer.Option("--output", "-o", metavar="OUT", help="Write to this file.")]
Dialect = Annotated[
    DialectChoice,
    typer.Option(help="`auto` upgrades older dialects in memory, as `noetl migrate` would."),
]
Id = Annotated[
    str, typer.Argument(metavar="ID", help="An execution: its id, the beginning of one, or `last`.")
]
Db = Annotated[
    str | None,
    typer.Option("--db", metavar="PATH", help="The database; else `NOETL_DB`, else one in your home."),
]
Server = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        help="A server, or a context by its name; `local` is the database. Else `NOETL_SERVER`, else the"
        " current context.",
    ),
]
Detach = Annotated[bool, typer.Option("--detach", help="Of a server: do not wait until it has ended.")]
Format = Annotated[
    FormatChoice,
    typer.Option("--format", help="`auto` is rich on a terminal, else plain; `json` is one document."),
]


@app.callback(invoke_without_command=True)
def noetl(
    version: Annotated[bool, typer.Option("--version", "-V", help="Say which version this is.")] = False,
) -> None:
    """Playbooks in YAML: checked before they run, durable while they do."""
    if version:
        typer.echo(f"noetl {__version__}")
        raise typer.Exit


@app.command()
def check(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE", help="Playbooks, or folders of them; `-` is standard input."),
    ],
    format: Annotated[FormatChoice, typer.Option(help="`auto` is rich on a terminal, else plain.")] = "auto",
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as problems.")] = False,
    dialect: Dialect = "canonical",
) -> None:
    """Say everything that is wrong with playbooks, and where.

    Exits with 0 when there are no errors, with 2 when there are.

    \b
    Examples:
      noetl check hello.yaml
      noetl check playbooks/ --strict
      noetl check old.yaml --dialect auto --format json
    """

    def command() -> int:
        from noetl.cli.checking import run_check

        return run_check(files, format, dialect, strict=strict)

    raise typer.Exit(run(command))


@app.command()
def explain(
    file: Annotated[
        str, typer.Argument(metavar="FILE|ID", help="A playbook, `-` is standard input; or an execution.")
    ],
    step: Annotated[
        str | None,
        typer.Argument(metavar="[STEP]", help="Of an execution: why this step ran, waited or did not."),
    ] = None,
    *,
    graph: Annotated[GraphChoice | None, typer.Option(help="Draw it instead of telling it.")] = None,
    task: Annotated[
        str | None,
        typer.Option(metavar="STEP.TASK", help="One task: its effective spec, fields, rules and reads."),
    ] = None,
    output: Out = None,
    dialect: Dialect = "canonical",
    format: Annotated[FormatChoice, typer.Option(help="Of what is said of an execution.")] = "auto",
    db: Db = None,
    server: Server = None,
) -> None:
    """Show a playbook as a person would draw it; or say why a step of an execution did what it did.

    For an execution: the guards that were asked, whether they held, and the values that they read.

    \b
    Examples:
      noetl explain hello.yaml --graph svg -o hello.svg
      noetl explain pagination.yaml --task fetch_all_endpoints.fetch_page
      noetl explain last fetch
    """

    def command() -> int:
        from noetl.cli.naming import means_execution

        if means_execution(file, step):
            from noetl.cli.reasons import ReasonsAsked, run_reasons

            place = place_of(db, server)
            return run_reasons(ReasonsAsked(file, step, place, format), drawn=bool(graph or task or output))
        from noetl.cli.explaining import run_explain

        return run_explain(file, graph, task, output, dialect)

    raise typer.Exit(run(command))


@app.command()
def migrate(
    file: File,
    *,
    output: Out = None,
    write: Annotated[bool, typer.Option("--write", help="Rewrite the file itself.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Show what would change.")] = False,
    exact: Annotated[
        bool, typer.Option("--exact", help="Let unguarded arcs carry failures too, as they once did.")
    ] = False,
    annotate: Annotated[bool, typer.Option("--annotate", help="Write the notes as comments too.")] = False,
) -> None:
    """Rewrite a playbook of an older dialect (v2, v10) in the canonical form.

    Comments and order stay. What is not exactly the same is noted on standard error.
    Exits with 2 when something can not be carried over.

    \b
    Examples:
      noetl migrate old.yaml
      noetl migrate old.yaml --diff
      noetl migrate old.yaml --write --annotate
    """

    def command() -> int:
        from noetl.cli.migrating import run_migrate

        return run_migrate(file, output, write=write, diff=diff, exact=exact, annotate=annotate)

    raise typer.Exit(run(command))


@app.command()
def schema(output: Out = None) -> None:
    """Print the JSON Schema of playbooks, for editors.

    \b
    Examples:
      noetl schema -o playbook.schema.json
      # yaml-language-server: $schema=playbook.schema.json
    """

    def command() -> int:
        from noetl.cli.schema import run_schema

        return run_schema(output)

    raise typer.Exit(run(command))


@app.command(name="run")
def run_playbook(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE|PATH",
            help="A playbook, `-` is standard input; or, where there is no such file, the path of one that is"
            " registered, or `PATH@VERSION`.",
        ),
    ],
    *,
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="A value of the workload, as YAML; a key `a.b` goes deep."
        ),
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option("--workload", metavar="FILE", help="Values of the workload: a mapping in YAML or JSON."),
    ] = None,
    db: Db = None,
    server: Server = None,
    detach: Detach = False,
    dialect: Dialect = "canonical",
    format: Format = "auto",
) -> None:
    """Run a playbook to its end, and show what is going on.

    Ctrl-C stops it cleanly: everything that was done stays on record, and `noetl resume` goes on.
    With a server, a file is registered and runs there; Ctrl-C then ends only the looking on.
    JSON is `{execution_id, status, output, error, duration_s, steps}`; an interrupted one has that status.
    Exits with 0 when it went well, 1 when it failed or was cancelled, 2 when the playbook has problems,
    130 when it was interrupted or paused.

    \b
    Examples:
      noetl run hello.yaml --set name=you --set options.depth=2
      noetl run team/hello@2
      noetl run old.yaml --dialect auto --workload values.json --format json
    """

    def command() -> int:
        from noetl.cli.executing import run_run

        place = place_of(db, server)
        return run_run(RunAsked(file, tuple(sets or ()), workload, place, dialect, format, detach))

    raise typer.Exit(run(command))


@app.command()
def resume(
    id: Id, *, db: Db = None, server: Server = None, detach: Detach = False, format: Format = "auto"
) -> None:
    """Go on with an execution that was interrupted or paused, where it stands.

    One that another process has is left alone; one that has ended is shown. Exits as `run` does.
    One that a server runs is looked on at.

    \b
    Examples:
      noetl resume last
      noetl resume 0199b3c2 --format json
    """

    def command() -> int:
        from noetl.cli.executing import run_resume

        return run_resume(Named(id, place_of(db, server), format, detach))

    raise typer.Exit(run(command))


@app.command()
def retry(
    id: Id,
    *,
    step: Annotated[
        str | None,
        typer.Option("--step", metavar="STEP", help="What failed in this step, also when it was handled."),
    ] = None,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="From the first task, not from the one that failed.")
    ] = False,
    db: Db = None,
    server: Server = None,
    detach: Detach = False,
    format: Format = "auto",
) -> None:
    """Take up what failed in an execution that has ended, and run it to its end.

    What succeeded is kept: iterations, and the tasks before the one that failed. Exits as `run` does.

    \b
    Examples:
      noetl retry last
      noetl retry 0199b3c2 --step fetch --from-start
    """

    def command() -> int:
        from noetl.cli.executing import run_retry

        return run_retry(Named(id, place_of(db, server), format, detach), step, from_start=from_start)

    raise typer.Exit(run(command))


@app.command()
def pause(id: Id, *, db: Db = None, server: Server = None, format: Format = "auto") -> None:
    """Let an execution come to a stop: calls that run finish, nothing new begins.

    Its process ends then; `noetl resume` goes on. JSON is `{execution_id, status}`.

    \b
    Examples:
      noetl pause last
      noetl pause 0199b3c2 --format json
    """

    def command() -> int:
        from noetl.cli.commanding import run_pause

        return run_pause(Named(id, place_of(db, server), format))

    raise typer.Exit(run(command))


@app.command()
def cancel(
    id: Id,
    *,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why, for the record.")] = "",
    db: Db = None,
    server: Server = None,
    format: Format = "auto",
) -> None:
    """End an execution and its children: nothing new begins, calls that run have 10 seconds.

    JSON is `{execution_id, status}`; `cancelling` while calls still run.

    \b
    Examples:
      noetl cancel last
      noetl cancel 0199b3c2 --reason "wrong account"
    """

    def command() -> int:
        from noetl.cli.commanding import run_cancel

        return run_cancel(Named(id, place_of(db, server), format), reason)

    raise typer.Exit(run(command))


@app.command()
def signal(
    id: Id,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The signal that a `wait` task waits for.")],
    *,
    data: Annotated[
        str | None, typer.Option("--data", metavar="YAML", help="What it brings: the task's `output.data`.")
    ] = None,
    db: Db = None,
    server: Server = None,
    format: Format = "auto",
) -> None:
    """Send what an execution waits for, such as a person's approval.

    Exits with 1 when nothing waits for it. JSON is `{execution_id, status}`.

    \b
    Examples:
      noetl signal last approved
      noetl signal 0199b3c2 approved --data "{by: ann, amount: 12}"
    """

    def command() -> int:
        from noetl.cli.commanding import run_signal

        return run_signal(Named(id, place_of(db, server), format), name, data)

    raise typer.Exit(run(command))


# Their commands are added to the same app, behind these.
from noetl.cli import (  # noqa: E402, F401
    app_catalog,
    app_context,
    app_gc,
    app_init,
    app_reading,
    app_secrets,
    app_serving,
    app_tokens,
    app_tools,
    app_ui,
    app_up,
)
