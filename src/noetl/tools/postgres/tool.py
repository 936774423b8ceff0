"""`postgres`: SQL on a PostgreSQL database, values bound and never pasted; COPY in and out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from noetl.errors import install_hint
from noetl.output import JSON, Output, failed
from noetl.playbook.kinds import Sql
from noetl.tool import Auth, Call, Tool

if TYPE_CHECKING:
    from noetl.tools.postgres.pool import Pools

CONNECT_S = 10.0


class Copy(Struct, kw_only=True):
    """Many rows at once: from a reference into a table, or from a query into a reference."""

    table: Annotated[str | None, Meta(description="the table to fill, `schema.table`")] = None
    columns: Annotated[
        list[str] | None, Meta(description="its columns; without them those of the first row")
    ] = None
    from_ref: Annotated[
        dict[str, JSON] | None, Meta(description="the rows: NDJSON, a JSON list, or CSV with a header")
    ] = None
    query: Annotated[Sql | None, Meta(description="the rows to store")] = None
    to: Annotated[Literal["ndjson", "csv"], Meta(description="how they are stored")] = "ndjson"


class PostgresInput(Struct, kw_only=True):
    """SQL and its parameters."""

    query: Annotated[Sql | None, Meta(description="one statement, rows come back")] = None
    command: Annotated[Sql | None, Meta(description="one or more statements, in one transaction")] = None
    copy: Annotated[
        Copy | None, Meta(description="many rows: `table` and `from_ref`, or `query` and `to`")
    ] = None
    params: Annotated[
        list[JSON] | dict[str, JSON] | None,
        Meta(description="values for `$1`, … (a list) or `:name` (a mapping); `{{ }}` needs none"),
    ] = None


class PostgresSpec(Struct, kw_only=True):
    """Limits of a call."""

    max_rows: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="more rows than that are an error")
    ] = None


class PostgresTool(Tool):
    """Runs SQL on PostgreSQL, signed in by `auth`. Every `{{ }}` in it is bound, never pasted into the text.

    `output.data` is a list of objects; of a `command`, the rows of the last statement that gives some.
    """

    kind = "postgres"
    connects = True
    Input = PostgresInput
    Spec = PostgresSpec
    one_of = (("query", "command", "copy"),)
    defaults = {"timeout": 60}
    output = "pg"
    example = """\
kind: postgres
auth: warehouse
query: SELECT id, name FROM customers WHERE city = {{ workload.city }}
"""

    def __init__(self, *, allow_private: bool = True, allow: Sequence[str] = ()) -> None:
        """Where it may connect to (D88): `allow` lists networks that are open besides those of the world."""
        self._allow_private = allow_private
        self._allow = tuple(allow)
        self._pools: Pools | None = None

    async def run(self, input: PostgresInput, call: Call) -> Output:
        output = await self._run(input, call)
        if output.own:
            return output
        # Rules may ask for output.pg.code, whatever went wrong.
        return replace(output, own={"pg": {"code": None, "sqlstate": None, "rowcount": None}})

    async def _run(self, input: PostgresInput, call: Call) -> Output:
        try:
            import asyncpg  # noqa: F401  # an extra, and of no use to a playbook without this tool
        except ImportError:
            return failed("tool", f"the PostgreSQL driver is not installed: {install_hint('postgres')}")
        if call.auth is None:
            return failed("input", "`auth` must name a credential of the keychain for PostgreSQL")
        from noetl.tools.postgres.errors import is_credential, unreachable

        try:
            return await self._signed_in(input, call, call.auth)
        except Exception as error:  # noqa: BLE001  # whatever the driver raises before anything was sent
            if not is_credential(error):
                return _no_connection(error)
        try:
            return await self._signed_in(input, call, await call.auth.renew())
        except Exception as error:  # noqa: BLE001  # the same, with the credential as it is now
            return unreachable(error) if is_credential(error) else _no_connection(error)

    async def _signed_in(self, input: PostgresInput, call: Call, auth: Auth) -> Output:
        """Raises only what went wrong before anything was sent."""
        from ipaddress import ip_network

        from noetl.tools.postgres.pool import Pools
        from noetl.tools.postgres.session import Session

        if self._pools is None:
            networks = [ip_network(each) for each in self._allow]
            self._pools = Pools(allow_private=self._allow_private, allow=networks)
        async with self._pools.connection(auth.values, _connect_s(call.spec)) as connection:
            return await Session(connection, call).run(input)

    async def close(self) -> None:
        if self._pools is not None:
            pools, self._pools = self._pools, None
            await pools.close()


def _no_connection(error: Exception) -> Output:
    from noetl.tools.postgres.errors import unreachable
    from noetl.tools.postgres.pool import BadCredential, Refused

    if isinstance(error, BadCredential):
        return failed("credential", str(error))
    if isinstance(error, Refused):
        return failed("postgres", f"there is no way to this server: {error}")
    return unreachable(error)


def _connect_s(spec: dict[str, JSON]) -> float:
    timeout = spec.get("timeout")
    given = timeout.get("connect") if isinstance(timeout, dict) else None
    return float(given) if isinstance(given, int | float) and given > 0 else CONNECT_S
