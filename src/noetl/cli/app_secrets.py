"""`noetl secrets`: the commands that keep stored secrets. What a command does is imported when it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, NoReturn

import typer

from noetl.cli.app import Db, Format, Server, app
from noetl.cli.choices import FormatChoice
from noetl.cli.contexts import place_of
from noetl.cli.running import run

HELP = """Keep secrets, encrypted, for keychain entries of kind `stored`.

\b
Examples:
  noetl secrets set api_token
  noetl secrets list
  noetl secrets rotate
"""
secrets = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")
app.add_typer(secrets, name="secrets", help=HELP)

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="What a keychain entry calls it, by name or `key`.")
]


def _answer(form: FormatChoice, work: Callable[[], int]) -> NoReturn:
    def command() -> int:
        from noetl.cli.answering import answered

        return answered(form, lambda _voice: work())

    raise typer.Exit(run(command))


@secrets.command(name="set")
def set_secret(
    name: Name,
    *,
    value: Annotated[
        str | None,
        typer.Option(
            "--value",
            metavar="TEXT|@FILE|-",
            help="`@FILE` is a file, `-` standard input; text here can be seen by others on this machine.",
        ),
    ] = None,
    db: Db = None,
    server: Server = None,
    format: Format = "auto",
) -> None:
    """Store a secret, or a new version of it.

    Without `--value` it is asked for, unseen; or read from standard input when that is no terminal.
    The key is `NOETL_KEY` (32 bytes in base64), or a file beside the database that is made for it; a
    server has its own.
    JSON is `{name, version}`.

    \b
    Examples:
      noetl secrets set pg_password
      noetl secrets set api_token --value @token.txt
      pass show api | noetl secrets set api_token
    """

    def work() -> int:
        from noetl.cli.secrets_keeping import run_set

        return run_set(name, value, place_of(db, server), format)

    _answer(format, work)


@secrets.command(name="list")
def list_secrets(*, db: Db = None, server: Server = None, format: Format = "auto") -> None:
    """List stored secrets: names, versions, and when they were set; never a value.

    JSON is an array of `{name, version, at}`.

    \b
    Examples:
      noetl secrets list
      noetl secrets list --format json
    """

    def work() -> int:
        from noetl.cli.secrets_keeping import run_list

        return run_list(place_of(db, server), format)

    _answer(format, work)


@secrets.command(name="rm")
def remove_secret(name: Name, *, db: Db = None, server: Server = None, format: Format = "auto") -> None:
    """Remove a stored secret. Its next version goes on counting.

    Exits with 1 when there is none of that name.

    \b
    Examples:
      noetl secrets rm api_token
    """

    def work() -> int:
        from noetl.cli.secrets_keeping import run_remove

        return run_remove(name, place_of(db, server), format)

    _answer(format, work)


@secrets.command(name="rotate")
def rotate_key(*, db: Db = None, format: Format = "auto") -> None:
    """Encrypt all stored secrets under a new key. When it is interrupted, nothing is lost: do it again.

    With `NOETL_KEY`, put the new key first and the old one behind a comma. JSON is `{count}`.

    \b
    Examples:
      noetl secrets rotate
      NOETL_KEY=$NEW,$OLD noetl secrets rotate
    """

    def work() -> int:
        from noetl.cli.secrets_keeping import run_rotate

        return run_rotate(db, format)

    _answer(format, work)
