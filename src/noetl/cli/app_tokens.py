"""`noetl token`: the commands and their help. What a command does is imported when it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, NoReturn

import typer

from noetl.cli.app import Db, Format, Server, app
from noetl.cli.choices import FormatChoice
from noetl.cli.contexts import place_of
from noetl.cli.running import run

HELP = """Make tokens for those who ask a server, and take them back.

\b
Examples:
  noetl token create ci --scope read --scope run
  noetl token list
  noetl token revoke 4f1c2a9be07d3358
"""
token = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")
app.add_typer(token, name="token", help=HELP)


def _answer(form: FormatChoice, work: Callable[[], int]) -> NoReturn:
    def command() -> int:
        from noetl.cli.answering import answered

        return answered(form, lambda _voice: work())

    raise typer.Exit(run(command))


@token.command(name="create")
def create_token(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="Whose it is; so it stands on record for what is done with it."),
    ],
    *,
    scopes: Annotated[
        list[str] | None,
        typer.Option(
            "--scope", metavar="SCOPE", help="`read`, `run`, `write` or `admin`; may be given more than once."
        ),
    ] = None,
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="TIME", help="In how long: 12h, 30d, 52w; else never.")
    ] = None,
    db: Db = None,
    server: Server = None,
    format: Format = "auto",
) -> None:
    """Make a token, and print it: this once, since only its digest is kept.

    `read` looks, `run` starts executions and commands them, `write` changes playbooks and secrets,
    `admin` may do everything.
    JSON is `{id, name, scopes, created_at, expires_at, token}`.

    \b
    Examples:
      noetl token create ci --scope read --scope run --expires 30d
      noetl token create ann --scope admin --format json
    """

    def work() -> int:
        from noetl.cli.tokens import TokenAsked, run_create

        return run_create(TokenAsked(name, tuple(scopes or ()), expires, place_of(db, server), format))

    _answer(format, work)


@token.command(name="list")
def list_tokens(*, db: Db = None, server: Server = None, format: Format = "auto") -> None:
    """List tokens: ids, names and scopes; never what opens a door.

    JSON is an array of `{id, name, scopes, created_at, expires_at}`.

    \b
    Examples:
      noetl token list
    """

    def work() -> int:
        from noetl.cli.tokens import run_list

        return run_list(place_of(db, server), format)

    _answer(format, work)


@token.command(name="revoke")
def revoke_token(
    id: Annotated[str, typer.Argument(metavar="ID", help="The id of a token, see `noetl token list`.")],
    *,
    db: Db = None,
    server: Server = None,
    format: Format = "auto",
) -> None:
    """Take a token back: it opens nothing any more.

    Exits with 1 when there is none of that id. JSON is `{id}`.

    \b
    Examples:
      noetl token revoke 4f1c2a9be07d3358
    """

    def work() -> int:
        from noetl.cli.tokens import run_revoke

        return run_revoke(id, place_of(db, server), format)

    _answer(format, work)
