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
    from noetl.ports import RoleGrant
    from noetl.session.connect import Target
    from noetl.session.protocol import TokenAdmin

T = TypeVar("T")
LASTS_S_MAX: Final = 100 * 365 * 86_400.0  # a longer one need not expire
HELP = """Create and revoke the tokens with which clients use a server.

\b
Examples:
  noetl token create ci --scope read --scope run
  noetl token create ann --role operator --path 'orders/*'
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


Scopes = Annotated[
    list[str] | None,
    typer.Option("--scope", metavar="SCOPE", help="`read`, `run`, `write` or `admin`; may be repeated."),
]
Role = Annotated[
    str | None,
    typer.Option("--role", metavar="ROLE", help="`viewer`, `operator`, `author` or `admin`, instead of scopes."),
]
Paths = Annotated[
    list[str] | None,
    typer.Option("--path", metavar="PATH", help="With --role: `orders/import` or `orders/*`; may be repeated."),
]
Pools = Annotated[
    list[str] | None, typer.Option("--pool", metavar="POOL", help="With --role: a pool of workers; may be repeated.")
]
Expires = Annotated[
    str | None,
    typer.Option("--expires", metavar="TIME", help="The token expires after 12h, 30d, 52w, … Default: never."),
]


@token.command(name="create")
def create_token(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its owner, whom the log names as author of requests.")],
    *,
    scopes: Scopes = None,
    role: Role = None,
    paths: Paths = None,
    pools: Pools = None,
    expires: Expires = None,
    db: Db = None,
    server: Server = None,
    format: Format = "auto",
) -> None:
    """Create a token and print it. It is shown only once, because only its digest is stored.

    `read` reads, `run` starts and controls executions, `write` changes playbooks and secrets,
    `admin` allows everything.

    A role is a set of scopes that --path and --pool limit: `viewer` reads, `operator` also starts and controls
    executions, `author` also changes playbooks and secrets, `admin` also creates tokens with limits within its own.
    Without --path or --pool the role applies to all paths or pools.
    JSON is `{id, name, scopes, created_at, expires_at, token}`, and `roles` with --role.

    \b
    Examples:
      noetl token create ci --scope read --scope run --expires 30d
      noetl token create ann --scope admin --format json
      noetl token create team --role author --path 'orders/*' --path shared/mail --pool default
    """

    def command(reporter: Reporter) -> int:
        from noetl.cli.output.tables import token_document
        from noetl.control.api_tokens import SCOPES
        from noetl.session.connect import resolve

        lasts_s = None if expires is None else _seconds(expires)
        if not scopes and role is None:
            raise UsageError(f"a token needs a scope: give --scope once or more, with {', '.join(SCOPES)}, or --role")
        roles = _roles(role, paths, pools)

        made, text = _administer(
            resolve(db, server),
            lambda tokens: tokens.create(name, frozenset(scopes or ()), lasts_s, roles),
            create=True,
        )
        if not reporter.json:
            reporter.errors.line(f"{visible(made.name)}: store it safely, it is not shown again")
        return reporter.show({**token_document(made, SCOPES), "token": text}, [[text]])

    finish(format, command)


def _roles(role: str | None, paths: list[str] | None, pools: list[str] | None) -> tuple[RoleGrant, ...]:
    from noetl.ports import RoleGrant

    if role is not None:
        return (RoleGrant(role=role, paths=tuple(paths or ("*",)), pools=tuple(pools or ("*",))),)
    if paths or pools:
        raise UsageError("--path and --pool limit a role: give --role as well")
    return ()


def _seconds(expires: str) -> float:
    from noetl.worker.result_stores import seconds_of

    seconds = seconds_of(expires)
    if seconds is None or not 0 < seconds <= LASTS_S_MAX:
        raise UsageError(f'--expires "{expires}" is not a duration up to 100 years: write 12h, 30d or 52w')
    return seconds


@token.command(name="list")
def list_tokens(*, db: Db = None, server: Server = None, format: Format = "auto") -> None:
    """List tokens: ids, names and scopes; never the token itself.

    JSON is an array of `{id, name, scopes, created_at, expires_at}`, with `roles` for a token that has roles.

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
        return reporter.show(documents, token_table(found, SystemClock().now()))

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
