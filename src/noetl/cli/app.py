"""The commands, their options and their help. What a command does is imported when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from noetl import __version__
from noetl.cli.choices import DialectChoice, FormatChoice, GraphChoice
from noetl.cli.running import run

app = typer.Typer(
    name="noetl",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with: noetl check examples/hello.yaml",
)

File = Annotated[str, typer.Argument(metavar="FILE", help="A playbook; `-` is standard input.")]
Out = Annotated[str | None, typer.Option("--output", "-o", metavar="OUT", help="Write to this file.")]
Dialect = Annotated[
    DialectChoice,
    typer.Option(help="`auto` upgrades older dialects in memory, as `noetl migrate` would."),
]


@app.callback(invoke_without_command=True)
def noetl(
    version: Annotated[bool, typer.Option("--version", "-V", help="Say which version this is.")] = False,
) -> None:
    """Playbooks in YAML: checked before they run."""
    if version:
        typer.echo(f"noetl {__version__}")
        raise typer.Exit


@app.command()
def check(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Playbooks; `-` is standard input.")],
    format: Annotated[FormatChoice, typer.Option(help="`auto` is rich on a terminal, else plain.")] = "auto",
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as problems.")] = False,
    dialect: Dialect = "canonical",
) -> None:
    """Say everything that is wrong with playbooks, and where.

    Exits with 0 when there are no errors, with 2 when there are.

    \b
    Examples:
      noetl check hello.yaml
      noetl check playbooks/*.yaml --strict
      noetl check old.yaml --dialect auto --format json
    """

    def command() -> int:
        from noetl.cli.checking import run_check

        return run_check(files, format, dialect, strict=strict)

    raise typer.Exit(run(command))


@app.command()
def explain(
    file: File,
    *,
    graph: Annotated[GraphChoice | None, typer.Option(help="Draw it instead of telling it.")] = None,
    task: Annotated[
        str | None,
        typer.Option(metavar="STEP.TASK", help="One task: its effective spec, fields, rules and reads."),
    ] = None,
    output: Out = None,
    dialect: Dialect = "canonical",
) -> None:
    """Show a playbook as a person would draw it.

    \b
    Examples:
      noetl explain hello.yaml
      noetl explain hello.yaml --graph svg -o hello.svg
      noetl explain paginate.yaml --task fetch_all_endpoints.fetch_page
    """

    def command() -> int:
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
