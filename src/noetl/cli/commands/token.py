"""`noetl token`: API tokens of a server. The text of a token is printed once, when it is created."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from noetl.cli.execute import Reporter
from noetl.cli.options import Db, Format, Server, app, finish
from noetl.escape import visible
from noetl.session.errors import UsageError

if TYPE_CHECKING:
    from noetl.session.connect import Target
    from noetl.session.protocol import TokenAdmin

T = TypeVar("T")
LASTS_S_MAX: Final = 100 * 365 * 86_400.0  # a longer one need not expire
HELP = """Create and revoke the tokens with which clients use a server.

\b
Examples:
  noetl token create ci --scope read --scope run
  noetl token list
  noetl token revoke 4f1c2a9be07d3358
"""
token = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")
app.add_typer(token, name="token", help=HELP)


def _administer(target: Target, work: Callable[[TokenAdmin], Awaitable[T]], *, create: bool = False) -> T:
    import asyncio

    from noetl.session.connect import open_token_admin

    async def run() -> T:
        async with open_token_admin(target, create=create) as tokens:
            return await work(tokens)

    return asyncio.run(run())


@token.command(name="create")
def create_token(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its owner; the log names it as the author of requests.")],
    *,
    scopes: Annotated[
        list[str] | None,
        typer.Option("--scope", metavar="SCOPE", help="`read`, `run`, `write` or `admin`; may be repeated."),
    ] = None,
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="TIME", help="After 12h, 30d, 52w, …; default: never.")
    ] = None,
    db: Db = None,
    server: Server = None,
    format: Format = "auto",
) -> None:
    """Create a token and print it. It is shown only once, because only its digest is stored.

    `read` reads, `run` starts and controls executions, `write` changes playbooks and secrets,
    `admin` allows everything.
    JSON is `{id, name, scopes, created_at, expires_at, token}`.

    \b
    Examples:
      noetl token create ci --scope read --scope run --expires 30d
      noetl token create ann --scope admin --format json
    """

    def command(reporter: Reporter) -> int:
        from noetl.cli.output.tables import token_document
        from noetl.control.api_tokens import SCOPES
        from noetl.session.connect import resolve

        lasts_s = None if expires is None else _seconds(expires)
        if not scopes:
            raise UsageError(f"a token needs a scope: give --scope once or more, with {', '.join(SCOPES)}")

        made, text = _administer(
            resolve(db, server), lambda tokens: tokens.create(name, frozenset(scopes), lasts_s), create=True
        )
        if not reporter.json:
            reporter.errors.line(f"{visible(made.name)}: store it safely, it is not shown again")
        return reporter.show({**token_document(made, SCOPES), "token": text}, [[text]])

    finish(format, command)


def _seconds(expires: str) -> float:
    from noetl.worker.result_stores import seconds_of

    seconds = seconds_of(expires)
    if seconds is None or not 0 < seconds <= LASTS_S_MAX:
        raise UsageError(f'--expires "{expires}" is not a duration up to 100 years: write 12h, 30d or 52w')
    return seconds


@token.command(name="list")
def list_tokens(*, db: Db = None, server: Server = None, format: Format = "auto") -> None:
    """List tokens: ids, names and scopes; never the token itself.

    JSON is an array of `{id, name, scopes, created_at, expires_at}`.

    \b
    Examples:
      noetl token list
    """

    def command(reporter: Reporter) -> int:
        from noetl.cli.output.tables import token_document, token_table
        from noetl.clock import SystemClock
        from noetl.control.api_tokens import SCOPES
        from noetl.session.connect import resolve

        target = resolve(db, server)

        found = _administer(target, lambda tokens: tokens.list()) if target.exists else []
        if not found and not reporter.json:
            reporter.errors.line("nothing to list: there is no token here")
            return 0
        documents = [token_document(each, SCOPES) for each in found]
        return reporter.show(documents, token_table(found, SCOPES, SystemClock().now()))

    finish(format, command)


@token.command(name="revoke")
def revoke_token(
    id: Annotated[str, typer.Argument(metavar="ID", help="The id of a token, see `noetl token list`.")],
    *,
    db: Db = None,
    server: Server = None,
    format: Format = "auto",
) -> None:
    """Revoke a token: the server no longer accepts it.

    Exits with 1 when there is no token with that id. JSON is `{id}`.

    \b
    Examples:
      noetl token revoke 4f1c2a9be07d3358
    """

    def command(reporter: Reporter) -> int:
        from noetl.session.connect import resolve

        _administer(resolve(db, server), lambda tokens: tokens.remove(id))
        return reporter.show({"id": id}, [[f"{visible(id)}: revoked"]])

    finish(format, command)
