"""Rows of PostgreSQL in batches, for tools that pass rows on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager

from noetl.output import Output
from noetl.tool import Auth, Call
from noetl.tools.postgres.pool import Connection, ConnectionPools
from noetl.tools.postgres.session import PostgresSession, connection_failure, failure_of, is_credential_error
from noetl.tools.postgres.tool import connect_seconds
from noetl.tools.postgres.values import RowConverter
from noetl.tools.sql.rows import OpenRows
from noetl.tools.sql.statements import Statement


class PostgresRows:
    """Implements RowSource with one credential."""

    def __init__(self, pools: ConnectionPools, auth: Auth, call: Call) -> None:
        self._pools = pools
        self._auth = auth
        self._call = call
        self._connected = False

    @asynccontextmanager
    async def open(self, statement: Statement) -> AsyncIterator[OpenRows]:
        async with self.connected() as connection:
            session = PostgresSession(connection, self._call)
            await session.set_timeout()
            prepared, values = await session.prepare(statement)
            columns = RowConverter(prepared.get_attributes()).names
            async with aclosing(session.batches(statement, prepared, values)) as batches:
                yield OpenRows(columns, batches)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Connection]:
        """A connection. A credential that the server refuses is fetched once more."""
        seconds = connect_seconds(self._call.spec)
        async with AsyncExitStack() as stack:
            try:
                connection = await stack.enter_async_context(self._pools.connection(self._auth.values, seconds))
            except Exception as error:
                if not is_credential_error(error):
                    raise
                self._auth = await self._auth.renew()
                connection = await stack.enter_async_context(self._pools.connection(self._auth.values, seconds))
            self._connected = True
            yield connection

    def failure(self, error: Exception) -> Output:
        return failure_of(error, unknown=False) if self._connected else connection_failure(error)
