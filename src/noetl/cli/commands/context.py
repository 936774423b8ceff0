"""`noetl context`: servers by name, and which of them commands use. Tokens are stored and never printed."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from noetl.cli.execute import Reporter
from noetl.cli.options import Format, app, finish
from noetl.errors import NotFound
from noetl.escape import visible
from noetl.session.connect import (
    LOCAL,
    TOKEN_BYTES_MAX,
    Contexts,
    ServerContext,
    is_context_name,
    load_contexts,
    read_token,
    save_contexts,
)
from noetl.session.errors import UsageError
from noetl.views.styled_text import Styled

if TYPE_CHECKING:
    from noetl.output import JSON
    from noetl.secret import Secret

HELP = """Store servers by name, and choose the one that commands use.

The choice applies when none of `--server`, `--db`, `NOETL_SERVER` and `NOETL_DB` is given.

\b
Examples:
  noetl context set prod https://noetl.example.com --token-file ~/prod.token
  noetl context use prod
  noetl context use local
"""
context = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")
app.add_typer(context, name="context", help=HELP)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the context.")]


@context.command(name="set")
def set_context(
    name: Name,
    url: Annotated[str, typer.Argument(metavar="URL", help="The address of the server: https://host:port.")],
    *,
    token_file: Annotated[
        str | None, typer.Option("--token-file", metavar="FILE", help="Read the token from this file at each use.")
    ] = None,
    token: Annotated[
        str | None, typer.Option("--token", metavar="-", help="`-`: read the token from standard input and store it.")
    ] = None,
    format: Format = "auto",
) -> None:
    """Store a server under a name, or change it.

    A token is stored in a file that only you can read. JSON is the entry of `list`.

    \b
    Examples:
      noetl context set here http://127.0.0.1:8080
      noetl context set prod https://noetl.example.com --token-file ~/prod.token
      pass show noetl | noetl context set prod https://noetl.example.com --token -
    """

    def command(reporter: Reporter) -> int:
        from noetl.client.http import address, is_private
        from noetl.runtime.settings import contexts_path

        if not is_context_name(name):
            reason = f"`{LOCAL}` is the database" if name == LOCAL else "use lower-case letters"
            raise UsageError(f'"{name}" cannot be the name of a context: {reason}; write it as prod or team-2')
        if token is not None and token_file is not None:
            raise UsageError("--token and --token-file exclude each other")
        stored = ServerContext(address(url), _read_token(token), _checked_file(token_file))
        contexts = load_contexts(contexts_path())
        save_contexts(contexts_path(), contexts._replace(known={**contexts.known, name: stored}))
        if (token or token_file) and not is_private(stored.url):
            text = f"{stored.url}: the connection is not encrypted, so others can read the token: use https"
            reporter.errors.line(Styled(text, "warning"))
        hint = "" if contexts.current == name else f"; to send commands there: noetl context use {name}"
        line = f"{name}: {stored.url} is stored{hint}"
        return reporter.show(_document(name, stored, contexts.current), [[line]])

    finish(format, command)


def _read_token(token: str | None) -> Secret | None:
    from noetl.client.http import token_value

    if token is None:
        return None
    if token != "-":
        raise UsageError("--token takes only `-` and reads standard input: other users can see a command line")
    if sys.stdin is None:
        raise UsageError("there is no standard input to read the token from")
    return token_value(sys.stdin.readline(TOKEN_BYTES_MAX))


def _checked_file(name: str | None) -> str | None:
    """The file is read now too, so that a mistake is noticed at once."""
    from noetl.client.http import token_value

    if name is None:
        return None
    file = os.path.abspath(os.path.expanduser(name))
    token_value(read_token(file))
    return file


@context.command(name="list")
def list_contexts(*, format: Format = "auto") -> None:
    """List the stored servers, and which one is current; never a token.

    JSON is an array of `{name, url, token, current}`; `token` is `stored`, `file` or null.

    \b
    Examples:
      noetl context list
    """

    def command(reporter: Reporter) -> int:
        from noetl.cli.output.tables import titled
        from noetl.runtime.settings import contexts_path, database_path

        contexts = load_contexts(contexts_path())
        documents = [_local(contexts)]
        rows = [(LOCAL, str(database_path(None)), "")]
        for name, each in contexts.known.items():
            documents.append(_document(name, each, contexts.current))
            rows.append((name, visible(each.url), _token(each)))
        styled = [
            [
                Styled("*" if name == contexts.current else "", "good"),
                Styled(name, "name"),
                Styled(url),
                Styled(token, "faint"),
            ]
            for name, url, token in rows
        ]
        return reporter.show(documents, titled(("", "NAME", "URL", "TOKEN"), styled))

    finish(format, command)


@context.command(name="use")
def use_context(name: Name, *, format: Format = "auto") -> None:
    """Send commands to this server from now on; `local` is the database file.

    \b
    Examples:
      noetl context use prod
      noetl context use local
    """

    def command(reporter: Reporter) -> int:
        from noetl.runtime.settings import DATABASE, SERVER, contexts_path, database_path

        contexts = load_contexts(contexts_path())
        url = str(database_path(None)) if name == LOCAL else _known(contexts, name).url
        save_contexts(contexts_path(), contexts._replace(current=name))
        for variable in (SERVER, DATABASE):
            if os.environ.get(variable):
                text = f"{variable} is set in this environment and overrides the current context"
                reporter.errors.line(Styled(text, "warning"))
        return reporter.show({"name": name, "current": True}, [[f"commands go to {url} from now on"]])

    finish(format, command)


@context.command(name="rm")
def remove_context(name: Name, *, format: Format = "auto") -> None:
    """Remove a server and its token.

    \b
    Examples:
      noetl context rm prod
    """

    def command(reporter: Reporter) -> int:
        from noetl.runtime.settings import contexts_path

        contexts = load_contexts(contexts_path())
        _known(contexts, name)
        known = {other: each for other, each in contexts.known.items() if other != name}
        was_current = contexts.current == name
        save_contexts(contexts_path(), Contexts(LOCAL if was_current else contexts.current, known))
        more = "; commands go to the database file again" if was_current else ""
        return reporter.show({"name": name}, [[f"{name}: removed{more}"]])

    finish(format, command)


@context.command(name="show")
def show_context(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One context; default: where commands go now.")
    ] = None,
    *,
    format: Format = "auto",
) -> None:
    """Show where commands go, and why; or one stored server. A token is never shown.

    \b
    Examples:
      noetl context show
      noetl context show prod --format json
    """

    def command(reporter: Reporter) -> int:
        from noetl.runtime.settings import contexts_path, database_path

        if name is None:
            return _show_current(reporter)
        contexts = load_contexts(contexts_path())
        if name == LOCAL:
            return reporter.show(_local(contexts), [[str(database_path(None))]])
        found = _known(contexts, name)
        token = _token(found)
        line = f"{found.url}{f', token {token}' if token else ''}"
        return reporter.show(_document(name, found, contexts.current), [[line]])

    finish(format, command)


def _show_current(reporter: Reporter) -> int:
    """Where a command without options goes."""
    from noetl.runtime.settings import DATABASE, SERVER, TOKEN
    from noetl.session.connect import Server, resolve

    target = resolve()
    why = next((each for each in (SERVER, DATABASE) if os.environ.get(each)), "the current context")
    if not isinstance(target, Server):
        document: dict[str, JSON] = {"name": LOCAL, "url": None, "token": None, "by": why}
        return reporter.show(document, [[f"{target.path}, by {why}"]])
    token = None if target.token is None else "environment" if os.environ.get(TOKEN) else "stored"
    document = {"name": target.context, "url": target.url, "token": token, "by": why}
    named = f" ({target.context})" if target.context else ""
    return reporter.show(document, [[f"{target.url}{named}, by {why}{', with a token' if token else ''}"]])


def _known(contexts: Contexts, name: str) -> ServerContext:
    if name not in contexts.known:
        raise NotFound(contexts.unknown(name))
    return contexts.known[name]


def _local(contexts: Contexts) -> dict[str, JSON]:
    return {"name": LOCAL, "url": None, "token": None, "current": contexts.current == LOCAL}


def _document(name: str, each: ServerContext, current: str) -> dict[str, JSON]:
    token = "file" if each.token_file is not None else "stored" if each.token is not None else None
    return {"name": name, "url": each.url, "token": token, "current": name == current}


def _token(each: ServerContext) -> str:
    if each.token_file is not None:
        return f"from {visible(each.token_file)}"
    return "stored" if each.token is not None else ""
