"""Helpers for tests of SQL tools: SQL as the compiler makes it, and `postgres` on a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec import convert

from noetl.output import JSON, Output
from noetl.playbook.kinds import Sql
from noetl.secret import Secret
from noetl.template.compile import compile_value
from noetl.tool import Auth
from noetl.tools.postgres.tool import PostgresInput, PostgresTool
from tests.services import database, postgres
from tests.unit.tools.calls import call


def sql(source: str, scope: dict[str, JSON] | None = None) -> Sql:
    """A field of type Sql, as a worker evaluates it."""
    built = compile_value({"sql": source}, sql=frozenset({("sql",)}))(scope or {})
    return convert(built["sql"], Sql)


def credential(**values: str) -> Auth:
    async def renew() -> Auth:
        return auth

    auth = Auth("pg", "postgres_credential", {name: Secret(value) for name, value in values.items()}, renew)
    return auth


class PostgresOn:
    """The tool on one database."""

    def __init__(self, tool: PostgresTool, name: str) -> None:
        self.tool = tool
        self.name = name
        self.auth = credential(dsn=postgres().dsn(name))

    async def query(self, source: str, /, *, params: JSON = None, spec: JSON = None, **scope: JSON) -> Output:
        return await self.run(PostgresInput(query=sql(source, scope), params=params), spec)

    async def command(self, source: str, /, *, params: JSON = None, spec: JSON = None, **scope: JSON) -> Output:
        return await self.run(PostgresInput(command=sql(source, scope), params=params), spec)

    async def run(self, input: PostgresInput, spec: JSON = None) -> Output:
        return await self.tool.run(input, call(spec=spec or {"timeout": 60})._replace(auth=self.auth))

    async def rows(self, source: str, /, **named: JSON) -> list[dict[str, JSON]]:
        """The rows of a query, which must succeed."""
        output = await self.query(source, **named)
        assert output.error is None, output.error
        rows: list[dict[str, JSON]] = output.data
        return rows

    async def make(self, source: str, /, **named: JSON) -> None:
        output = await self.command(source, **named)
        assert output.error is None, output.error


@asynccontextmanager
async def new_database() -> AsyncIterator[PostgresOn]:
    """A new database and a tool for it; both are removed at the end."""
    tool = PostgresTool()
    async with database() as name:
        try:
            yield PostgresOn(tool, name)
        finally:
            await tool.close()
