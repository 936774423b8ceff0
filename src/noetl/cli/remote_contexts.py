"""`noetl context set`, `list`, `use`, `rm` and `show`: tokens come in, and none ever goes out."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from noetl.cli import contexts
from noetl.cli.choices import FormatChoice
from noetl.cli.contexts import LOCAL, Context, Contexts
from noetl.cli.encoded import as_document
from noetl.cli.exits import OK, Usage
from noetl.cli.looking import screen_for
from noetl.cli.screen import Screen
from noetl.client.http import address, is_private, token_value
from noetl.errors import NotFound
from noetl.escape import visible
from noetl.output import JSON
from noetl.runtime.settings import DATABASE, SERVER, TOKEN, contexts_path, database_path
from noetl.secret import Secret
from noetl.views.styled_text import Styled, table


def run_set(name: str, url: str, token: str | None, token_file: str | None, form: FormatChoice) -> int:
    if not contexts.is_name(name):
        words = (
            f"`{LOCAL}` is the database, and always there" if name == LOCAL else "write it in small letters"
        )
        raise Usage(f'"{name}" can not be the name of a context: {words}, as prod or team-2')
    if token is not None and token_file is not None:
        raise Usage("--token and --token-file exclude each other")
    context = Context(address(url), _given(token), _file(token_file))
    path = contexts_path()
    kept = contexts.load(path)
    contexts.save(path, kept._replace(known={**kept.known, name: context}))
    if (token or token_file) and not is_private(context.url):
        words = "others on the way can read what is sent to it, the token too: use https"
        Screen(sys.stderr).line(Styled(f"{context.url}: {words}", "warning"))
    hint = "" if kept.current == name else f"; noetl context use {name} sends commands there"
    return _tell(form, _document(name, context, kept.current), f"{name}: {context.url} is kept{hint}")


def _given(token: str | None) -> Secret | None:
    if token is None:
        return None
    if token != "-":
        raise Usage("--token takes `-` only, and reads standard input: others can see a command line")
    if sys.stdin is None:
        raise Usage("there is no standard input to read the token from")
    return token_value(sys.stdin.readline(contexts.TOKEN_BYTES_MAX))


def _file(given: str | None) -> str | None:
    """It is read now too, so that a slip of the pen is told at once."""
    if given is None:
        return None
    file = os.path.abspath(os.path.expanduser(given))
    token_value(contexts.read_token(file))
    return file


def run_list(form: FormatChoice) -> int:
    kept = contexts.load(contexts_path())
    if form == "json":
        told = [_document(name, each, kept.current) for name, each in kept.known.items()]
        sys.stdout.write(as_document([_local(kept), *told]))
        return OK
    titles = [Styled(title, "faint") for title in ("", "NAME", "URL", "TOKEN")]
    screen_for(form).lines(table([titles, *_rows(kept)], indent=""))
    return OK


def _rows(kept: Contexts) -> Iterator[list[Styled]]:
    yield [
        _mark(LOCAL, kept),
        Styled(LOCAL, "name"),
        Styled(str(database_path(None))),
        Styled(""),
    ]
    for name, each in kept.known.items():
        yield [
            _mark(name, kept),
            Styled(name, "name"),
            Styled(visible(each.url)),
            Styled(_token(each), "faint"),
        ]


def _mark(name: str, kept: Contexts) -> Styled:
    return Styled("*" if name == kept.current else "", "good")


def run_use(name: str, form: FormatChoice) -> int:
    path = contexts_path()
    kept = contexts.load(path)
    if name != LOCAL and name not in kept.known:
        raise NotFound(_unknown(name, kept))
    contexts.save(path, kept._replace(current=name))
    for variable in (SERVER, DATABASE):
        if os.environ.get(variable):
            words = f"{variable} is set here, and beats the current context"
            Screen(sys.stderr).line(Styled(words, "warning"))
    where = database_path(None) if name == LOCAL else kept.known[name].url
    return _tell(form, {"name": name, "current": True}, f"commands go to {where} from now on")


def run_remove(name: str, form: FormatChoice) -> int:
    path = contexts_path()
    kept = contexts.load(path)
    if name not in kept.known:
        raise NotFound(_unknown(name, kept))
    known = {other: each for other, each in kept.known.items() if other != name}
    was_current = kept.current == name
    contexts.save(path, Contexts(LOCAL if was_current else kept.current, known))
    more = "; commands go to the database again" if was_current else ""
    return _tell(form, {"name": name}, f"{name}: forgotten{more}")


def run_show(name: str | None, form: FormatChoice) -> int:
    kept = contexts.load(contexts_path())
    if name is None:
        return _show_present(form)
    if name != LOCAL and name not in kept.known:
        raise NotFound(_unknown(name, kept))
    if name == LOCAL:
        return _tell(form, _local(kept), str(database_path(None)))
    each = kept.known[name]
    token = _token(each)
    return _tell(
        form, _document(name, each, kept.current), f"{each.url}{f', token {token}' if token else ''}"
    )


def _show_present(form: FormatChoice) -> int:
    """Where a command goes that says nothing of it."""
    server = contexts.server_at(None)
    why = next((each for each in (SERVER, DATABASE) if os.environ.get(each)), "the current context")
    if server is None:
        said = {"name": LOCAL, "url": None, "token": None, "by": why}
        return _tell(form, said, f"{database_path(None)}, by {why}")
    token = None if server.token is None else "environment" if os.environ.get(TOKEN) else "stored"
    said = {"name": server.name, "url": server.url, "token": token, "by": why}
    named = f" ({server.name})" if server.name else ""
    return _tell(form, said, f"{server.url}{named}, by {why}{', with a token' if token else ''}")


def _unknown(name: str, kept: Contexts) -> str:
    names = ", ".join((LOCAL, *kept.known))
    return f'there is no context "{name}"; there are {names}; noetl context set NAME URL keeps one more'


def _local(kept: Contexts) -> dict[str, JSON]:
    return {"name": LOCAL, "url": None, "token": None, "current": kept.current == LOCAL}


def _document(name: str, each: Context, current: str) -> dict[str, JSON]:
    token = "file" if each.token_file is not None else "stored" if each.token is not None else None
    return {"name": name, "url": each.url, "token": token, "current": name == current}


def _token(each: Context) -> str:
    if each.token_file is not None:
        return f"from {visible(each.token_file)}"
    return "stored" if each.token is not None else ""


def _tell(form: FormatChoice, document: dict[str, JSON], words: str) -> int:
    if form == "json":
        sys.stdout.write(as_document(document))
    else:
        screen_for(form).line(words)
    return OK
