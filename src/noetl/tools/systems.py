"""The author's own systems, as Refs name them (D98): databases and object stores, connected when needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from noetl.output import JSON
from noetl.tool import Auth, Call
from noetl.tools.errors import InvalidInput, ToolError

if TYPE_CHECKING:
    from noetl.tools.object.payload import ObjectPayload
    from noetl.tools.object.stores import ObjectStores
    from noetl.tools.postgres.pool import ConnectionPools
    from noetl.tools.postgres.rows import PostgresRows
    from noetl.tools.sql.rows import RowSource
    from noetl.tools.sql.threads import StoppableThreads

DATABASES: Final = ("postgres", "sqlite", "duckdb")
OBJECT_STORES: Final = ("s3", "gs", "az", "file")
THREADS_MAX: Final = 4  # of SQLite and DuckDB calls at the same time


class NotInstalled(ToolError):
    """The library for a system is an optional dependency, and it is missing."""

    kind = "tool"

    @classmethod
    def of(cls, error: ImportError) -> NotInstalled:
        return cls(f"a library of this system is not installed on this worker: {error.name}")


class Systems:
    """The connections of one tool to systems of authors."""

    def __init__(self, *, allow_private: bool = True, allow: Sequence[str] = ()) -> None:
        """The fields of AddressPolicy (D88)."""
        self._allow_private = allow_private
        self._allow = tuple(allow)
        self._pools: ConnectionPools | None = None
        self._threads: StoppableThreads | None = None
        self._stores: ObjectStores | None = None

    def rows(self, where: Mapping[str, JSON], auth: Auth | None, call: Call) -> RowSource:
        """The database that a locator names. Raises ToolError."""
        try:
            match where.get("system"):
                case "postgres":
                    return self.postgres(auth, call)
                case "sqlite":
                    from noetl.tools.sqlite.rows import SqliteRows
                    from noetl.tools.sqlite.session import DatabaseFile
                    from noetl.tools.sqlite.tool import database_path

                    path = database_path(_path(where), call.folder)
                    return SqliteRows(DatabaseFile(path, _path(where)), self.threads())
                case "duckdb":
                    from noetl.tools.duckdb.rows import DuckdbRows
                    from noetl.tools.duckdb.tool import database_path as duckdb_path

                    return DuckdbRows(duckdb_path(_path(where), call.folder), self.threads())
        except ImportError as error:
            raise NotInstalled.of(error) from None
        known = ", ".join((*DATABASES, *OBJECT_STORES))
        raise InvalidInput(f'"{str(where.get("system"))[:40]}" is not a system that can be read; known: {known}')

    async def payload(self, where: Mapping[str, JSON], auth: Auth | None) -> ObjectPayload:
        """The object that a locator names. Raises ToolError."""
        try:
            from noetl.tools.object.payload import ObjectPayload
            from noetl.tools.object.stores import Access, parse_url
        except ImportError as error:
            raise NotInstalled.of(error) from None
        address, endpoint = where.get("url"), where.get("endpoint")
        if not isinstance(address, str) or not isinstance(endpoint, str | None):
            raise InvalidInput("the Ref names no object")
        url = parse_url("the address in the Ref", address, None)
        return ObjectPayload(await self.stores().store(url, Access(auth, endpoint)), url)

    def stores(self) -> ObjectStores:
        """Raises ImportError."""
        from noetl.tools.object.stores import ObjectStores

        if self._stores is None:
            self._stores = ObjectStores(allow_private=self._allow_private, allow=self._allow)
        return self._stores

    def postgres(self, auth: Auth | None, call: Call) -> PostgresRows:
        """Raises ImportError and InvalidInput."""
        from ipaddress import ip_network

        import asyncpg  # noqa: F401  # an optional dependency

        from noetl.tools.postgres.pool import ConnectionPools
        from noetl.tools.postgres.rows import PostgresRows

        if auth is None:
            raise InvalidInput("PostgreSQL needs a keychain entry, and none is named")
        if self._pools is None:
            networks = [ip_network(each) for each in self._allow]
            self._pools = ConnectionPools(allow_private=self._allow_private, allow=networks)
        return PostgresRows(self._pools, auth, call)

    def threads(self) -> StoppableThreads:
        if self._threads is None:
            from noetl.tools.sql.threads import StoppableThreads

            self._threads = StoppableThreads(THREADS_MAX, "systems")
        return self._threads

    async def close(self) -> None:
        if self._pools is not None:
            pools, self._pools = self._pools, None
            await pools.close()
        if self._threads is not None:
            self._threads.close()
            self._threads = None


def _path(where: Mapping[str, JSON]) -> str:
    path = where.get("path")
    if not isinstance(path, str):
        raise InvalidInput("the Ref names no file")
    return path
