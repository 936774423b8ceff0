"""Which deployment is meant: a database or a server, named by an option, the environment or a context.

Every command resolves its target, so this imports little and looks for one file at most.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from noetl.runtime.settings import DATABASE, SERVER, TOKEN, contexts_path, database_path, database_url
from noetl.secret import Secret
from noetl.session.contexts import LOCAL, ServerContext, load, read_token
from noetl.session.errors import UsageError

if TYPE_CHECKING:
    from noetl.session.protocol import Session, TokenAdmin


class Server(NamedTuple):
    """A server, and the token for it."""

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
    return _server(load(path).current, environment) or DatabaseTarget()


def is_url(text: str) -> bool:
    return text[:8].lower().startswith(("http://", "https://"))


def _server(name: str, environment: Mapping[str, str]) -> Server | None:
    """`name` is an address or a context; None: the database."""
    if name == LOCAL:
        return None
    contexts = load(contexts_path(environment))
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
        from noetl.session.local import StoredTokens

        async with open_tokens(url) as tokens:
            yield StoredTokens(tokens, SystemClock())
        return
    async with open_session(target, create=create) as session:
        yield session.tokens
