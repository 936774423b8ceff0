"""`noetl playbooks`: the registered playbooks; the text of a version, the difference of two, archiving."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from noetl.cli.completion import complete_path
from noetl.cli.execute import Reporter
from noetl.cli.options import Db, Format, Server, Yes, app, confirmed, nothing_to_list, on_session
from noetl.cli.output.screen import diff_lines, is_terminal
from noetl.escape import visible

if TYPE_CHECKING:
    from noetl.session.protocol import Session

playbooks = typer.Typer(no_args_is_help=False, rich_markup_mode="rich", invoke_without_command=True)
app.add_typer(playbooks, name="playbooks")

Path = Annotated[
    str, typer.Argument(metavar="PATH", help="The `metadata.path` of a playbook.", autocompletion=complete_path)
]


@playbooks.callback()
def list_playbooks(
    context: typer.Context,
    *,
    archived: Annotated[bool, typer.Option("--archived", help="Include archived playbooks.")] = False,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="The maximum number of playbooks to list.")] = 1_000,
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

    nothing = "nothing to list: no playbook is registered here"

    async def work(reporter: Reporter, session: Session) -> int:
        from noetl.cli.output.tables import playbook_table, version_document

        found = await session.playbooks.list(limit=limit, archived=archived)
        if not found:
            return nothing_to_list(reporter, nothing)
        documents = [version_document(each) for each in found]
        return reporter.show(documents, playbook_table(found, session.clock.now()))

    on_session(format, db, server, work, if_missing=lambda reporter: nothing_to_list(reporter, nothing))


@playbooks.command(name="show")
def show_playbook(
    path: Path,
    *,
    version: Annotated[int | None, typer.Option("--version", metavar="N", help="Default: the current version.")] = None,
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
        from noetl.cli.output.documents import put
        from noetl.cli.output.tables import version_document

        found, text = await session.playbooks.text(path, version)
        if reporter.json or is_terminal(sys.stdout):
            return reporter.show({**version_document(found), "text": text}, ([line] for line in text.splitlines()))
        put(text.encode(), None)  # unchanged, so that its digest is the same
        return 0

    on_session(format, db, server, work)


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

    on_session(format, db, server, work)


@playbooks.command(name="diff")
def show_difference(
    path: Path,
    *,
    old: Annotated[int | None, typer.Option("--from", metavar="N", help="Default: the version before `--to`.")] = None,
    new: Annotated[int | None, typer.Option("--to", metavar="M", help="Default: the current version.")] = None,
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
        found = await session.playbooks.diff(path, old, new)
        document = {"path": found.path, "from": found.old, "to": found.new, "diff": found.diff}
        return reporter.show(document, diff_lines(found.diff.splitlines()))

    on_session(format, db, server, work)


@playbooks.command(name="rollback")
def roll_back(
    path: Path,
    version: Annotated[int, typer.Argument(metavar="VERSION", min=1, help="The version to return to.")],
    *,
    yes: Yes = False,
    format: Format = "auto",
    db: Db = None,
    server: Server = None,
) -> None:
    """Make an older version of a playbook the current one again. It keeps its number.

    It prints the difference to the current version first. On a terminal it asks for confirmation; elsewhere it does
    nothing unless --yes is given. New executions and the triggers use the older version; running executions continue.
    JSON is `{path, version, replaces, digest, triggers, stopped, done}`.

    \b
    Examples:
      noetl playbooks rollback examples/hello 1
    """

    async def work(reporter: Reporter, session: Session) -> int:
        plan = await session.rollback(path, version, dry_run=True)
        if not reporter.json:
            difference = await session.playbooks.diff(path, plan.replaces, version)
            reporter.screen.lines(diff_lines(difference.diff.splitlines()))
            for name in plan.stopped:
                reporter.screen.line(f"the trigger {visible(name)} no longer fires")
        if confirmed(reporter, f"replace version {plan.replaces} with version {version}?", yes=yes):
            plan = await session.rollback(path, version)
        line = f"{visible(path)}: version {version} is current again, instead of version {plan.replaces}"
        return reporter.show(plan, [[line]] if plan.done else [])

    on_session(format, db, server, work)


@playbooks.command(name="archive")
def archive_playbook(path: Path, *, format: Format = "auto", db: Db = None, server: Server = None) -> None:
    """Archive a playbook: it can no longer be started. Running executions continue.

    Registering it again makes it available again. Exits with 1 when the path is unknown.
    JSON is `{path, archived}`.

    \b
    Examples:
      noetl playbooks archive examples/hello
    """

    async def work(reporter: Reporter, session: Session) -> int:
        await session.playbooks.archive(path)
        line = f"{visible(path)}: archived: it can no longer be started"
        return reporter.show({"path": path, "archived": True}, [[line]])

    on_session(format, db, server, work)
