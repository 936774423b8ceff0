"""`noetl playbooks`: the registered playbooks; the text of a version, the difference of two, archiving."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from noetl.cli.choices import FormatChoice
from noetl.cli.options import Db, Format, Server, app, finish

if TYPE_CHECKING:
    from noetl.cli.execute import Reporter
    from noetl.session.protocol import Session

playbooks = typer.Typer(no_args_is_help=False, rich_markup_mode="rich", invoke_without_command=True)
app.add_typer(playbooks, name="playbooks")

Path = Annotated[str, typer.Argument(metavar="PATH", help="The `metadata.path` of a playbook.")]


def _finish(
    format: FormatChoice,
    db: str | None,
    server: str | None,
    work: Callable[[Reporter, Session], Awaitable[int]],
) -> NoReturn:
    def command(reporter: Reporter) -> int:
        from noetl.cli.connected import on_session
        from noetl.session.connect import resolve

        return on_session(resolve(db, server), lambda session: work(reporter, session))

    finish(format, command)


@playbooks.callback()
def list_playbooks(
    context: typer.Context,
    *,
    archived: Annotated[bool, typer.Option("--archived", help="Include archived playbooks.")] = False,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="At most this many.")] = 1_000,
    format: Format = "auto",
    db: Db = None,
    server: Server = None,
) -> None:
    """List the registered playbooks by path; the subcommands work on one of them.

    JSON is an array of `{path, version, digest, at, current, archived}`.

    \b
    Examples:
      noetl playbooks
      noetl playbooks --archived --format json
      noetl playbooks versions examples/hello
    """
    if context.invoked_subcommand is not None:
        if archived or db is not None or server is not None or format != "auto":
            raise typer.BadParameter(f"put the options of `{context.invoked_subcommand}` after it")
        return

    def command(reporter: Reporter) -> int:
        from noetl.cli.connected import on_session
        from noetl.session.connect import resolve

        target = resolve(db, server)

        async def work(session: Session) -> int:
            from noetl.cli.output.tables import playbook_table, version_document

            found = await session.playbooks.list(limit=limit, archived=archived)
            if not found:
                return _none_registered(reporter)
            documents = [version_document(each) for each in found]
            return reporter.show(documents, playbook_table(found, session.clock.now()))

        return on_session(target, work) if target.exists else _none_registered(reporter)

    finish(format, command)


def _none_registered(reporter: Reporter) -> int:
    reporter.document([])
    if not reporter.json:
        reporter.errors.line("nothing to list: no playbook is registered here")
    return 0


@playbooks.command(name="show")
def show_playbook(
    path: Path,
    *,
    version: Annotated[
        int | None, typer.Option("--version", metavar="N", help="Default: the current version.")
    ] = None,
    format: Format = "auto",
    db: Db = None,
    server: Server = None,
) -> None:
    """Print the text of a playbook exactly as it was registered.

    JSON is `{path, version, digest, at, current, archived, text}`.

    \b
    Examples:
      noetl playbooks show examples/hello
      noetl playbooks show examples/hello --version 2 > hello.yaml
    """

    async def work(reporter: Reporter, session: Session) -> int:
        from noetl.cli.output import files
        from noetl.cli.output.screen import is_terminal
        from noetl.cli.output.tables import version_document

        found, text = await session.playbooks.text(path, version)
        if reporter.json or is_terminal(sys.stdout):
            return reporter.show(
                {**version_document(found), "text": text}, ([line] for line in text.splitlines())
            )
        files.put(text.encode(), None)  # unchanged, so that its digest is the same
        return 0

    _finish(format, db, server, work)


@playbooks.command(name="versions")
def list_versions(path: Path, *, format: Format = "auto", db: Db = None, server: Server = None) -> None:
    """List all versions of a playbook, newest first.

    JSON is an array of `{path, version, digest, at, current, archived}`.

    \b
    Examples:
      noetl playbooks versions examples/hello
    """

    async def work(reporter: Reporter, session: Session) -> int:
        from noetl.cli.output.tables import version_document, version_table

        found = await session.playbooks.versions(path)
        documents = [version_document(each) for each in found]
        return reporter.show(documents, version_table(found, session.clock.now()))

    _finish(format, db, server, work)


@playbooks.command(name="diff")
def show_difference(
    path: Path,
    *,
    old: Annotated[
        int | None, typer.Option("--from", metavar="N", help="Default: the version before `--to`.")
    ] = None,
    new: Annotated[
        int | None, typer.Option("--to", metavar="M", help="Default: the current version.")
    ] = None,
    format: Format = "auto",
    db: Db = None,
    server: Server = None,
) -> None:
    """Show the difference between two versions of a playbook.

    JSON is `{path, from, to, diff}`.

    \b
    Examples:
      noetl playbooks diff examples/hello
      noetl playbooks diff examples/hello --from 1 --to 3
    """

    async def work(reporter: Reporter, session: Session) -> int:
        from noetl.cli.output.text import diff_lines

        found = await session.playbooks.diff(path, old, new)
        document = {"path": found.path, "from": found.old, "to": found.new, "diff": found.diff}
        return reporter.show(document, diff_lines(found.diff.splitlines()))

    _finish(format, db, server, work)


@playbooks.command(name="archive")
def archive_playbook(path: Path, *, format: Format = "auto", db: Db = None, server: Server = None) -> None:
    """Archive a playbook: it cannot be started any more. Running executions continue.

    Registering it again makes it available again. Exits with 1 when the path is unknown.
    JSON is `{path, archived}`.

    \b
    Examples:
      noetl playbooks archive examples/hello
    """

    async def work(reporter: Reporter, session: Session) -> int:
        from noetl.escape import visible

        await session.playbooks.archive(path)
        line = f"{visible(path)}: archived: it cannot be started any more"
        return reporter.show({"path": path, "archived": True}, [[line]])

    _finish(format, db, server, work)
