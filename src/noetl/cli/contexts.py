"""Where commands go: to a file, or to a server that a command line, the environment or a context names.

It imports next to nothing and costs one look for a file: every command asks.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from typing import Final, NamedTuple

from noetl.cli.exits import Usage
from noetl.runtime.settings import DATABASE, SERVER, TOKEN, contexts_path, database_path, database_url
from noetl.secret import Secret

LOCAL: Final = "local"
BYTES_MAX: Final = 1 << 20  # of the file of contexts
TOKEN_BYTES_MAX: Final = 4_096
_CONTEXT: Final = "context:"  # before the name of one, where a place is one text
_NAME: Final = r"[a-z0-9][a-z0-9._-]{0,62}"


class Context(NamedTuple):
    """A server that has a name here."""

    url: str
    token: Secret | None = None
    token_file: str | None = None  # where it is read from, each time anew


class Contexts(NamedTuple):
    current: str = LOCAL
    known: Mapping[str, Context] = {}


class Server(NamedTuple):
    """Where to ask, and with what right."""

    url: str
    token: Secret | None
    name: str | None = None  # of the context
    given: str | None = None  # by the command line; None: by the environment, or it is the current context

    @property
    def flag(self) -> str:
        """What commands in hints carry, so that they go to the same server."""
        if self.given is None:
            return ""
        from shlex import quote

        return f" --server {quote(self.given)}"


def place_of(db: str | None, server: str | None) -> str | None:
    """`--db` and `--server` as one text: a path, an address, or the name of a context; None: neither."""
    if server is None:
        return db
    if server == LOCAL:
        return str(database_path(db))
    if db is not None:
        raise Usage("--db and --server exclude each other: it is a file, or a server")
    return server if _is_url(server) else _CONTEXT + server


def server_at(place: str | None, environment: Mapping[str, str] = os.environ) -> Server | None:
    """The server that is meant; None: the file. Raises Usage when nobody knows which."""
    if place is not None:
        meant = place.removeprefix(_CONTEXT)
        if meant == place and not _is_url(place):
            return None
        server = _named(meant, environment)
        return server and server._replace(given=meant)
    if given := environment.get(SERVER):
        return _named(given, environment)
    if environment.get(DATABASE):
        return None
    path = contexts_path(environment)
    if not os.path.exists(path):
        return None
    return _named(load(path).current, environment)


def flag_at(place: str | None) -> str:
    """What commands in hints carry, so that they find the same file; nothing where none was named.

    The address of a PostgreSQL is not repeated: it may hold a password.
    """
    if place is None or database_url(place) is not None:
        return ""
    from shlex import quote

    return f" --db {quote(place)}"


def _named(given: str, environment: Mapping[str, str]) -> Server | None:
    if given == LOCAL:
        return None
    contexts = load(contexts_path(environment))
    if _is_url(given):
        url = given.strip().rstrip("/")
        known = next((each for each in contexts.known.values() if each.url == url), Context(url))
        return Server(url, _token(known, environment))
    if given not in contexts.known:
        names = ", ".join((LOCAL, *contexts.known))
        cure = f"there are {names}; noetl context set NAME URL keeps one more"
        raise Usage(f'there is no context "{given}", and it is no address as https://host; {cure}')
    context = contexts.known[given]
    return Server(context.url, _token(context, environment), given)


def _token(context: Context, environment: Mapping[str, str]) -> Secret | None:
    """That of the environment is for the server of the environment, if it names one."""
    given, meant = environment.get(TOKEN), environment.get(SERVER) or ""
    if given and (not _is_url(meant) or meant.strip().rstrip("/") == context.url):
        return Secret(given)
    if context.token_file is not None:
        return read_token(context.token_file)
    return context.token


def read_token(file: str) -> Secret:
    """Raises Usage."""
    try:
        with open(os.path.expanduser(file), encoding="ascii") as stream:
            text = stream.read(TOKEN_BYTES_MAX).strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it holds what is no token"
        raise Usage(f"{file}: the token can not be read: {why}") from error
    if not text:
        raise Usage(f"{file}: there is no token in it")
    return Secret(text)


def _is_url(text: str) -> bool:
    return text[:8].lower().startswith(("http://", "https://"))


def is_name(text: str) -> bool:
    return re.fullmatch(_NAME, text) is not None and text != LOCAL


# The file


def load(path: str) -> Contexts:
    """Empty when there is no file. Raises Usage when it can not be read, or when others can."""
    try:
        with open(path, "rb") as stream:
            if stat.S_IMODE(os.fstat(stream.fileno()).st_mode) & 0o077:
                raise Usage(f"{path}: others may read it, and it may hold tokens: chmod 600 {path}")
            body = stream.read(BYTES_MAX)
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise Usage(f"{path}: {error.strerror}") from error
    return _decoded(path, body)


def _decoded(path: str, body: bytes) -> Contexts:
    import json

    try:
        match json.loads(body):
            case {"current": str(current), "contexts": {**found}}:
                known = {str(name): _context(each) for name, each in found.items()}
                return Contexts(current, known)
    except ValueError:
        pass
    raise Usage(f"{path}: it is no file of contexts; remove it, and set them anew by `noetl context set`")


def _context(found: object) -> Context:
    match found:
        case {"url": str(url), "token": str(token)}:
            return Context(url, Secret(token))
        case {"url": str(url), "token_file": str(file)}:
            return Context(url, token_file=file)
        case {"url": str(url)}:
            return Context(url)
    raise ValueError


def save(path: str, contexts: Contexts) -> None:
    """Whole or not at all, for nobody else to read."""
    import json

    known = {
        name: {
            "url": each.url,
            **({} if each.token is None else {"token": each.token.reveal()}),
            **({} if each.token_file is None else {"token_file": each.token_file}),
        }
        for name, each in contexts.known.items()
    }
    body = json.dumps({"current": contexts.current, "contexts": known}, indent=2) + "\n"
    beside = f"{path}.{os.getpid()}.tmp"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            with open(descriptor, "w", encoding="utf-8") as stream:
                stream.write(body)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(beside, path)
        except BaseException:
            os.unlink(beside)
            raise
    except OSError as error:
        raise Usage(f"{path}: {error.strerror}") from error
