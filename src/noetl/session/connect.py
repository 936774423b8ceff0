"""Which deployment is meant: a database or a server, named by an option, the environment or a context.

Every command resolves its target, so this imports little and looks for one file at most.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from noetl.runtime.settings import DATABASE, SERVER, TOKEN, contexts_path, database_path, database_url
from noetl.secret import Secret
from noetl.session.errors import UsageError

if TYPE_CHECKING:
    from noetl.session.protocol import AuditReader, Session, TokenAdmin


LOCAL: Final = "local"  # the name of the database, which is always there
BYTES_MAX: Final = 1 << 20
TOKEN_BYTES_MAX: Final = 4_096
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


class ServerContext(NamedTuple):
    url: str
    token: Secret | None = None
    token_file: str | None = None  # read each time


class Contexts(NamedTuple):
    """All of them, and the current one."""

    current: str = LOCAL
    known: Mapping[str, ServerContext] = {}

    def unknown(self, name: str) -> str:
        """The message for a name that is none of them."""
        names = ", ".join((LOCAL, *self.known))
        return f'there is no context "{name}"; known contexts: {names}; add one with: noetl context set NAME URL'


def is_context_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None and text != LOCAL


def read_token(file: str) -> Secret:
    """Raises UsageError."""
    try:
        with open(os.path.expanduser(file), encoding="ascii") as stream:
            text = stream.read(TOKEN_BYTES_MAX).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not ASCII text"
        raise UsageError(f"{file}: the token cannot be read: {reason}") from error
    if not text:
        raise UsageError(f"{file}: the file contains no token")
    return Secret(text)


def load_contexts(path: str) -> Contexts:
    """Empty when there is no file. Raises UsageError when it cannot be read, or when others can read it."""
    try:
        with open(path, "rb") as stream:
            if stat.S_IMODE(os.fstat(stream.fileno()).st_mode) & 0o077:
                raise UsageError(f"{path}: other users may read this file, and it may contain tokens: chmod 600 {path}")
            body = stream.read(BYTES_MAX)
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    return _decoded(path, body)


def _decoded(path: str, body: bytes) -> Contexts:
    import json

    try:
        match json.loads(body):
            case {"current": str(current), "contexts": {**found}}:
                return Contexts(current, {str(name): _context(each) for name, each in found.items()})
    except ValueError:
        pass
    raise UsageError(f"{path}: this is not a file of contexts; remove it, and add them with `noetl context set`")


def _context(found: object) -> ServerContext:
    match found:
        case {"url": str(url), "token": str(token)}:
            return ServerContext(url, Secret(token))
        case {"url": str(url), "token_file": str(file)}:
            return ServerContext(url, token_file=file)
        case {"url": str(url)}:
            return ServerContext(url)
    raise ValueError


def save_contexts(path: str, contexts: Contexts) -> None:
    """Replace the file in one step; only its owner can read it."""
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
        raise UsageError(f"{path}: {error.strerror}") from error


# Targets


class Server(NamedTuple):
    url: str
    token: Secret | None = None
    context: str | None = None  # the name of the context that it comes from
    option: str | None = None  # the value of --server; None: the environment or the current context named it

    @property
    def hint(self) -> str:
        if self.option is None:
            return ""
        from shlex import quote

        return f" --server {quote(self.option)}"

    @property
    def exists(self) -> bool:
        return True

    @property
    def is_new_file(self) -> bool:
        return False


class DatabaseTarget(NamedTuple):
    """A database file, or the address of a PostgreSQL."""

    option: str | None = None  # the value of --db; None: NOETL_DB, else the default file

    @property
    def path(self) -> Path:
        """Raises Rejected for a PostgreSQL: its executions belong to its servers."""
        return database_path(self.option)

    @property
    def hint(self) -> str:
        """The address of a PostgreSQL is not repeated: it may contain a password."""
        if self.option is None or database_url(self.option) is not None:
            return ""
        from shlex import quote

        return f" --db {quote(self.option)}"

    @property
    def exists(self) -> bool:
        return database_url(self.option) is not None or self.path.exists()

    @property
    def is_new_file(self) -> bool:
        """A file was named that does not exist: possibly a typing error."""
        return self.option is not None and not self.exists


Target: TypeAlias = Server | DatabaseTarget


def resolve(db: str | None = None, server: str | None = None, environment: Mapping[str, str] = os.environ) -> Target:
    """`db` and `server` are the values of --db and --server. Raises UsageError."""
    if server is not None:
        if server != LOCAL and db is not None:
            raise UsageError("--db and --server exclude each other: name a file or a server")
        found = _server(server, environment)
        return DatabaseTarget(db) if found is None else found._replace(option=server)
    if db is not None:
        return DatabaseTarget(db)
    if named := environment.get(SERVER):
        return _server(named, environment) or DatabaseTarget()
    if environment.get(DATABASE):
        return DatabaseTarget()
    path = contexts_path(environment)
    if not os.path.exists(path):
        return DatabaseTarget()
    return _server(load_contexts(path).current, environment) or DatabaseTarget()


def is_url(text: str) -> bool:
    return text[:8].lower().startswith(("http://", "https://"))


def _server(name: str, environment: Mapping[str, str]) -> Server | None:
    """`name` is an address or a context; None: the database."""
    if name == LOCAL:
        return None
    contexts = load_contexts(contexts_path(environment))
    if is_url(name):
        url = name.strip().rstrip("/")
        context = next((each for each in contexts.known.values() if each.url == url), ServerContext(url))
        return Server(url, _token(context, environment))
    if name not in contexts.known:
        raise UsageError(f"{contexts.unknown(name)}; an address starts with https://")
    context = contexts.known[name]
    return Server(context.url, _token(context, environment), name)


def _token(context: ServerContext, environment: Mapping[str, str]) -> Secret | None:
    """NOETL_TOKEN belongs to the server in NOETL_SERVER, if that names one."""
    given, named = environment.get(TOKEN), environment.get(SERVER) or ""
    if given and (not is_url(named) or named.strip().rstrip("/") == context.url):
        return Secret(given)
    if context.token_file is not None:
        return read_token(context.token_file)
    return context.token


def open_session(target: Target, *, create: bool = False, dedicated: bool = False) -> Session:
    """`create`: make the database file when it does not exist; else UsageError.

    `dedicated`: this process does nothing but run executions, so that its garbage collector can be tuned.
    """
    if isinstance(target, Server):
        from noetl.session.remote import RemoteSession

        return RemoteSession(target.url, target.token, hint=target.hint)
    from noetl.session.local import LocalSession

    return LocalSession(target.path, hint=target.hint, create=create, dedicated=dedicated)


@asynccontextmanager
async def open_token_admin(target: Target, *, create: bool = False) -> AsyncIterator[TokenAdmin]:
    """Also for a PostgreSQL: the first token cannot be requested from its servers."""
    if isinstance(target, DatabaseTarget) and (url := database_url(target.option)) is not None:
        from noetl.clock import SystemClock
        from noetl.runtime.adapters import open_tokens
        from noetl.session.local_admin import StoredTokens

        async with open_tokens(url) as stores:
            yield StoredTokens(stores.tokens, SystemClock(), stores.audit)
        return
    async with open_session(target, create=create) as session:
        yield session.tokens


@asynccontextmanager
async def open_audit(target: Target) -> AsyncIterator[AuditReader]:
    """The audit trail of a server, of a database file, or of a PostgreSQL. Raises UsageError without a file."""
    if isinstance(target, DatabaseTarget) and (url := database_url(target.option)) is not None:
        from noetl.runtime.adapters import open_tokens

        async with open_tokens(url) as stores:
            yield stores.audit.read
    elif isinstance(target, Server):
        from noetl.session.remote import RemoteSession

        async with RemoteSession(target.url, target.token, hint=target.hint) as remote:
            yield remote.client.audit
    else:
        from noetl.session.local import LocalSession

        async with LocalSession(target.path, hint=target.hint, create=False) as local:
            yield local.store.audit.read
