"""`noetl context`: the commands that keep servers by name. What a command does is imported when it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, NoReturn

import typer

from noetl.cli.app import Format, app
from noetl.cli.choices import FormatChoice
from noetl.cli.running import run

HELP = """Keep servers by name, and choose which one commands go to.

The choice is used where neither `--server` nor `--db`, `NOETL_SERVER` nor `NOETL_DB` says otherwise.

\b
Examples:
  noetl context set prod https://noetl.example.com --token-file ~/prod.token
  noetl context use prod
  noetl context use local
"""
context = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")
app.add_typer(context, name="context", help=HELP)

Name = Annotated[str, typer.Argument(metavar="NAME", help="How the server is called here.")]


def _answer(form: FormatChoice, work: Callable[[], int]) -> NoReturn:
    def command() -> int:
        from noetl.cli.answering import answered

        return answered(form, lambda _voice: work())

    raise typer.Exit(run(command))


@context.command(name="set")
def set_context(
    name: Name,
    url: Annotated[str, typer.Argument(metavar="URL", help="Its address, as https://host:port.")],
    *,
    token_file: Annotated[
        str | None,
        typer.Option("--token-file", metavar="FILE", help="Read the token from here, each time anew."),
    ] = None,
    token: Annotated[
        str | None, typer.Option("--token", metavar="-", help="`-`: keep the token that standard input has.")
    ] = None,
    format: Format = "auto",
) -> None:
    """Keep a server under a name, or change what is kept.

    A token is kept in a file that only you can read. JSON is what `list` gives of it.

    \b
    Examples:
      noetl context set here http://127.0.0.1:8080
      noetl context set prod https://noetl.example.com --token-file ~/prod.token
      pass show noetl | noetl context set prod https://noetl.example.com --token -
    """

    def work() -> int:
        from noetl.cli.remote_contexts import run_set

        return run_set(name, url, token, token_file, format)

    _answer(format, work)


@context.command(name="list")
def list_contexts(*, format: Format = "auto") -> None:
    """List the servers that are kept, and which one is used; never a token.

    JSON is an array of `{name, url, token, current}`; of the token it says `stored`, `file` or null.

    \b
    Examples:
      noetl context list
    """

    def work() -> int:
        from noetl.cli.remote_contexts import run_list

        return run_list(format)

    _answer(format, work)


@context.command(name="use")
def use_context(name: Name, *, format: Format = "auto") -> None:
    """Let commands go to this server from now on; `local` is the database again.

    \b
    Examples:
      noetl context use prod
      noetl context use local
    """

    def work() -> int:
        from noetl.cli.remote_contexts import run_use

        return run_use(name, format)

    _answer(format, work)


@context.command(name="rm")
def remove_context(name: Name, *, format: Format = "auto") -> None:
    """Forget a server and its token.

    \b
    Examples:
      noetl context rm prod
    """

    def work() -> int:
        from noetl.cli.remote_contexts import run_remove

        return run_remove(name, format)

    _answer(format, work)


@context.command(name="show")
def show_context(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One of them; without it, where commands go.")
    ] = None,
    *,
    format: Format = "auto",
) -> None:
    """Show where commands go, and why; or one server that is kept. A token is never shown.

    \b
    Examples:
      noetl context show
      noetl context show prod --format json
    """

    def work() -> int:
        from noetl.cli.remote_contexts import run_show

        return run_show(name, format)

    _answer(format, work)
