"""`noetl register` and `noetl playbooks`: the catalog. What a command does is imported when it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, NoReturn

import typer

from noetl.cli.app import Db, Dialect, Format, Server, app
from noetl.cli.choices import FormatChoice
from noetl.cli.contexts import place_of
from noetl.cli.running import run

playbooks = typer.Typer(no_args_is_help=False, rich_markup_mode="rich", invoke_without_command=True)
app.add_typer(playbooks, name="playbooks")

Path = Annotated[str, typer.Argument(metavar="PATH", help="The `metadata.path` of a playbook.")]


def _answer(form: FormatChoice, work: Callable[[], int]) -> NoReturn:
    def command() -> int:
        from noetl.cli.answering import answered

        return answered(form, lambda _voice: work())

    raise typer.Exit(run(command))


@app.command()
def register(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE|DIR", help="Playbooks, or folders of them; `-` is standard input."),
    ],
    *,
    dialect: Dialect = "canonical",
    format: Format = "auto",
    db: Db = None,
    server: Server = None,
) -> None:
    """Put playbooks into the catalog: each new text of a path is its next version, the same text is not.

    All of them are checked first; when one has errors nothing is registered, and it exits with 2.
    Of a folder and those below it: all `*.yaml` and `*.yml` that are playbooks.
    JSON is an array of `{file, path, version, digest, created}`.

    \b
    Examples:
      noetl register hello.yaml
      noetl register playbooks/ --format json
      noetl register old.yaml --dialect auto
    """

    def command() -> int:
        from noetl.cli.registering import RegisterAsked, run_register

        return run_register(RegisterAsked(tuple(files), place_of(db, server), dialect, format))

    raise typer.Exit(run(command))


@playbooks.callback()
def list_playbooks(
    context: typer.Context,
    *,
    archived: Annotated[bool, typer.Option("--archived", help="Also those that are archived.")] = False,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="At most so many.")] = 1_000,
    format: Format = "auto",
    db: Db = None,
    server: Server = None,
) -> None:
    """List the playbooks that are registered, by path; or look at one.

    JSON is an array of `{path, version, digest, at, current, archived}`.

    \b
    Examples:
      noetl playbooks
      noetl playbooks --archived --format json
      noetl playbooks versions examples/hello
    """
    if context.invoked_subcommand is not None:
        if archived or db is not None or server is not None or format != "auto":
            raise typer.BadParameter(f"options of `{context.invoked_subcommand}` stand behind it")
        return

    def work() -> int:
        from noetl.cli.cataloguing import Place, run_playbooks

        return run_playbooks(Place(place_of(db, server), format), limit, archived=archived)

    _answer(format, work)


@playbooks.command(name="show")
def show_playbook(
    path: Path,
    *,
    version: Annotated[
        int | None, typer.Option("--version", metavar="N", help="Which one; else what starts now.")
    ] = None,
    format: Format = "auto",
    db: Db = None,
    server: Server = None,
) -> None:
    """Print the text of a playbook, to the byte as it was registered.

    JSON is `{path, version, digest, at, current, archived, text}`.

    \b
    Examples:
      noetl playbooks show examples/hello
      noetl playbooks show examples/hello --version 2 > hello.yaml
    """

    def work() -> int:
        from noetl.cli.cataloguing import Place, run_text

        return run_text(Place(place_of(db, server), format), path, version)

    _answer(format, work)


@playbooks.command(name="versions")
def list_versions(path: Path, *, format: Format = "auto", db: Db = None, server: Server = None) -> None:
    """List all versions of a playbook, the newest first.

    JSON is an array of `{path, version, digest, at, current, archived}`.

    \b
    Examples:
      noetl playbooks versions examples/hello
    """

    def work() -> int:
        from noetl.cli.cataloguing import Place, run_versions

        return run_versions(Place(place_of(db, server), format), path)

    _answer(format, work)


@playbooks.command(name="diff")
def show_difference(
    path: Path,
    *,
    old: Annotated[
        int | None, typer.Option("--from", metavar="N", help="The older one; else the one before `--to`.")
    ] = None,
    new: Annotated[
        int | None, typer.Option("--to", metavar="M", help="The newer one; else what starts now.")
    ] = None,
    format: Format = "auto",
    db: Db = None,
    server: Server = None,
) -> None:
    """Show what changed between two versions of a playbook.

    JSON is `{path, from, to, diff}`.

    \b
    Examples:
      noetl playbooks diff examples/hello
      noetl playbooks diff examples/hello --from 1 --to 3
    """

    def work() -> int:
        from noetl.cli.cataloguing import Place, run_diff

        return run_diff(Place(place_of(db, server), format), path, old, new)

    _answer(format, work)


@playbooks.command(name="archive")
def archive_playbook(path: Path, *, format: Format = "auto", db: Db = None, server: Server = None) -> None:
    """Let nothing new start from a playbook. What runs goes on; to register it again opens it again.

    Exits with 1 when there is none of that path. JSON is `{path, archived}`.

    \b
    Examples:
      noetl playbooks archive examples/hello
    """

    def work() -> int:
        from noetl.cli.cataloguing import Place, run_archive

        return run_archive(Place(place_of(db, server), format), path)

    _answer(format, work)
