"""`noetl secrets`: stored secrets. Values go in; none is ever printed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from noetl.cli.execute import Reporter
from noetl.cli.options import Db, Format, Server, app, nothing_to_list, on_session
from noetl.cli.secret_values import VALUE_BYTES_MAX, decoded, from_file, from_person
from noetl.errors import NotFound
from noetl.escape import visible
from noetl.session.errors import UsageError

if TYPE_CHECKING:
    from noetl.session.protocol import Session

HELP = """Store encrypted secrets. Keychain entries of kind `stored`, and entries without fields, read them.

\b
Examples:
  noetl secrets set api_token
  noetl secrets list
  noetl secrets rotate
"""
secrets = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")
app.add_typer(secrets, name="secrets", help=HELP)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name, or the `key`, of a keychain entry.")]


@secrets.command(name="set")
def set_secret(
    name: Name,
    *,
    value: Annotated[
        str | None,
        typer.Option(
            "--value",
            metavar="TEXT|@FILE|-",
            help="`@FILE` reads a file, `-` reads standard input. Other users of this machine can see a value that is"
            " written here.",
        ),
    ] = None,
    db: Db = None,
    server: Server = None,
    format: Format = "auto",
) -> None:
    """Store a secret, or a new version of it.

    Without `--value` the command asks for the value without echo. If standard input is not a terminal, it reads the
    value from there.
    The key is `NOETL_KEY` (32 bytes in base64), or a file beside the database that is created on first use;
    a server has its own key.
    JSON is `{name, version}`.

    \b
    Examples:
      noetl secrets set pg_password
      noetl secrets set api_token --value @token.txt
      pass show api | noetl secrets set api_token
    """

    text: list[str] = []

    def before(reporter: Reporter) -> None:
        text.append(_read_value(reporter, name, value))

    async def work(reporter: Reporter, session: Session) -> int:
        version = await session.secrets.set(name, text[0])
        line = f"{visible(name)}: version {version} is stored"
        return reporter.show({"name": name, "version": version}, [[line]])

    on_session(format, db, server, work, create=True, before=before)


def _read_value(reporter: Reporter, name: str, value: str | None) -> str:
    """From the command line only with a warning: others may see it there. Raises UsageError."""
    if value is None and sys.stdin is not None and sys.stdin.isatty():
        return from_person(name, "--value")
    if value is None or value == "-":
        if sys.stdin is None:
            raise UsageError("there is no standard input to read the value from")
        return decoded(sys.stdin.buffer.read(VALUE_BYTES_MAX + 1), "standard input")
    if value.startswith("@"):
        return from_file(value[1:], "--value")
    reporter.errors.line(
        "the value is on the command line, where other users and your shell's history may see it:"
        " use @FILE or standard input"
    )
    return value


@secrets.command(name="list")
def list_secrets(*, db: Db = None, server: Server = None, format: Format = "auto") -> None:
    """List stored secrets: names, versions, and when they were set; never a value.

    JSON is an array of `{name, version, at}`.

    \b
    Examples:
      noetl secrets list
      noetl secrets list --format json
    """

    nothing = "nothing to list: no secret is stored here"

    async def work(reporter: Reporter, session: Session) -> int:
        from noetl.cli.output.tables import secret_document, secret_table

        found = await session.secrets.list()
        if not found:
            return nothing_to_list(reporter, nothing)
        documents = [secret_document(each) for each in found]
        return reporter.show(documents, secret_table(found, session.clock.now()))

    on_session(format, db, server, work, if_missing=lambda reporter: nothing_to_list(reporter, nothing))


@secrets.command(name="rm")
def remove_secret(name: Name, *, db: Db = None, server: Server = None, format: Format = "auto") -> None:
    """Remove a stored secret. If it is set again, its version number continues.

    Exits with 1 when there is no secret of that name.

    \b
    Examples:
      noetl secrets rm api_token
    """

    async def work(reporter: Reporter, session: Session) -> int:
        await session.secrets.remove(name)
        return reporter.show({"name": name}, [[f"{visible(name)}: removed"]])

    def if_missing(_reporter: Reporter) -> int:
        raise NotFound(f'no secret "{name}" is stored')

    on_session(format, db, server, work, if_missing=if_missing)


@secrets.command(name="rotate")
def rotate_key(*, db: Db = None, format: Format = "auto") -> None:
    """Encrypt all stored secrets with a new key. An interrupted rotation loses nothing: run it again.

    With `NOETL_KEY`, put the new key first and the old one after a comma. JSON is `{count}`.

    \b
    Examples:
      noetl secrets rotate
      NOETL_KEY=$NEW,$OLD noetl secrets rotate
    """

    async def work(reporter: Reporter, session: Session) -> int:
        count = await session.secrets.rotate()
        return reporter.show({"count": count}, [[f"{count:,} stored under a new key"]])

    def if_missing(_reporter: Reporter) -> int:
        raise NotFound("no secret is stored, so there is no key to change")

    on_session(format, db, None, work, if_missing=if_missing)
