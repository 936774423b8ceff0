"""`postgres`: SQL on a PostgreSQL database, with bound values; COPY in both directions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from noetl.output import JSON, Output, failed
from noetl.playbook.kinds import Sql
from noetl.tool import Auth, Call, Tool
from noetl.tools.errors import ToolError, not_installed
from noetl.tools.sql import CommandField, MaxRowsField, QueryField
from noetl.tools.sql.stored import StoredField

if TYPE_CHECKING:
    from noetl.tools.postgres.pool import ConnectionPools

CONNECT_S = 10.0
CONNECTIONS = 10  # the default of spec.connections
CONNECTIONS_MAX = 100  # the maximum of spec.connections, and the size of a pool


class Copy(Struct, kw_only=True):
    """Bulk transfer: rows of a Ref into a table, or rows of a query into a Ref."""

    table: Annotated[str | None, Meta(description="table to fill, for example `schema.table`")] = None
    columns: Annotated[
        list[str] | None, Meta(description="columns of the table; default: the columns of the first row")
    ] = None
    from_ref: Annotated[
        dict[str, JSON] | None, Meta(description="Ref of the rows: NDJSON, a JSON list, or CSV with a header line")
    ] = None
    query: Annotated[Sql | None, Meta(description="query whose rows are stored; `output.ref` is the Ref")] = None
    to: Annotated[Literal["ndjson", "csv"], Meta(description="format of the stored rows")] = "ndjson"


class PostgresInput(Struct, kw_only=True):
    """SQL and its parameters."""

    query: QueryField = None
    command: CommandField = None
    copy: Annotated[
        Copy | None,
        Meta(description="bulk transfer with COPY: `table` and `from_ref` load rows, `query` and `to` store rows"),
    ] = None
    params: Annotated[
        list[JSON] | dict[str, JSON] | None,
        Meta(description="values for `$1`, … (a list) or `:name` (a mapping) in the SQL; not needed for `{{ }}`"),
    ] = None
    stored: StoredField = None


class PostgresSpec(Struct, kw_only=True):
    """Limits of a call."""

    max_rows: MaxRowsField = None
    connections: Annotated[
        int,
        Meta(
            ge=1,
            le=CONNECTIONS_MAX,
            description="maximum number of connections that one worker uses at the same time for tasks with the same "
            "credential and the same number here; further calls wait for a free one",
        ),
    ] = CONNECTIONS
    connection_wait_s: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(
            description="seconds to wait for a free connection, after which the call fails with kind `timeout` and is "
            "retryable; default: the timeout of the task"
        ),
    ] = None


class PostgresPart(Struct, kw_only=True):
    """The answer of the database."""

    code: Annotated[str | None, Meta(description="SQLSTATE of the error; the same as `sqlstate`")] = None
    sqlstate: Annotated[str | None, Meta(description="SQLSTATE of the error, for example `23505`")] = None
    message: Annotated[str | None, Meta(description="message of the error")] = None
    rowcount: Annotated[int | None, Meta(description="number of rows that the last statement returned or changed")] = (
        None
    )


class PostgresTool(Tool):
    """Runs SQL on PostgreSQL. Every `{{ }}` becomes a bound value, never part of the SQL text.

    `auth` names the keychain entry with the connection and the credentials. `output.data` is a list of
    objects, one for each row. A `command` returns the rows of the last statement that returns rows. With
    `stored`, `output.ref` is a Ref to rows in the database, and `resolve` fetches them with the same
    credential.
    """

    kind = "postgres"
    failures = ("postgres",)
    ignores = ("timeout.read",)
    connects = True
    Input = PostgresInput
    Spec = PostgresSpec
    one_of = (("query", "command", "copy"),)
    defaults = {"timeout": 60}
    output = "pg"
    OutputPart = PostgresPart
    example = """\
kind: postgres
auth: warehouse
query: SELECT id, name FROM customers WHERE city = {{ workload.city }}
"""

    def __init__(self, *, allow_private: bool = True, allow: Sequence[str] = ()) -> None:
        """The fields of AddressPolicy (D88)."""
        self._allow_private = allow_private
        self._allow = tuple(allow)
        self._pools: ConnectionPools | None = None

    async def run(self, input: PostgresInput, call: Call) -> Output:
        try:
            import asyncpg  # noqa: F401  # an optional dependency
        except ImportError:
            return not_installed("the PostgreSQL driver", "postgres")
        if call.auth is None:
            return failed("input", "`auth` is required: the name of a keychain entry for PostgreSQL")
        from noetl.tools.postgres.session import connection_failure, is_credential_error

        try:
            spec = msgspec.convert(call.spec, PostgresSpec)
        except msgspec.ValidationError as error:
            return failed("input", f"spec: {error}")
        try:
            return await self._run_as(input, call, call.auth, spec)
        except ToolError as error:
            return error.output()
        except Exception as error:  # noqa: BLE001  # anything that the driver raises while it connects
            if not is_credential_error(error):
                return connection_failure(error)
        try:
            return await self._run_as(input, call, await call.auth.renew(), spec)
        except ToolError as error:
            return error.output()
        except Exception as error:  # noqa: BLE001  # the same, with the renewed credential
            return connection_failure(error)

    async def _run_as(self, input: PostgresInput, call: Call, auth: Auth, spec: PostgresSpec) -> Output:
        """Raises only errors from before a statement was sent."""
        from ipaddress import ip_network

        from noetl.tools.postgres.pool import ConnectionPools
        from noetl.tools.postgres.session import PostgresSession

        if self._pools is None:
            networks = [ip_network(each) for each in self._allow]
            self._pools = ConnectionPools(allow_private=self._allow_private, allow=networks)
        async with self._pools.connection(
            auth.values, connect_seconds(call.spec), spec.connections, spec.connection_wait_s
        ) as connection:
            return await PostgresSession(connection, call).run(input)

    async def close(self) -> None:
        if self._pools is not None:
            pools, self._pools = self._pools, None
            await pools.close()


def connect_seconds(spec: dict[str, JSON]) -> float:
    timeout = spec.get("timeout")
    seconds = timeout.get("connect") if isinstance(timeout, dict) else None
    return float(seconds) if isinstance(seconds, int | float) and seconds > 0 else CONNECT_S
