"""`snowflake`: SQL on Snowflake, with bound values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from noetl.output import JSON, Output, failed
from noetl.playbook.kinds import Sql
from noetl.tool import Auth, Call, Tool

if TYPE_CHECKING:
    from noetl.tools.sql.threads import StoppableThreads

THREADS = 10  # calls at the same time in one worker


class SnowflakeInput(Struct, kw_only=True):
    """SQL, its values, and where it runs."""

    query: Annotated[Sql | None, Meta(description="one SQL statement; `output.data` is its rows")] = None
    command: Annotated[
        Sql | None,
        Meta(description="one or more SQL statements in one transaction; a DDL statement commits what was before it"),
    ] = None
    params: Annotated[
        list[JSON] | dict[str, JSON] | None,
        Meta(description="values for `?` (a list) or `:name` (a mapping) in the SQL; not needed for `{{ }}`"),
    ] = None
    rows: Annotated[
        list[list[JSON] | dict[str, JSON]] | None,
        Meta(
            description="the only statement of `command` runs for each of these rows, in one transaction; its `?` are "
            "the values of the row, in their order"
        ),
    ] = None
    row_format: Annotated[
        Literal["objects", "lists"],
        Meta(description="rows of `output.data`: objects with the names of the columns, or lists of values"),
    ] = "objects"
    warehouse: Annotated[str | None, Meta(description="warehouse; default: that of the credential")] = None
    database: Annotated[str | None, Meta(description="database; default: that of the credential")] = None
    schema: Annotated[str | None, Meta(description="schema; default: that of the credential")] = None
    role: Annotated[str | None, Meta(description="role; default: that of the credential")] = None


class SnowflakeSpec(Struct, kw_only=True):
    """Limits of a call."""

    max_rows: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="maximum number of rows; if there are more, the task fails; default: no limit"),
    ] = None


class SnowflakePart(Struct, kw_only=True):
    """The answer of Snowflake, `output.snowflake`."""

    code: Annotated[int | None, Meta(description="number of the error, for example 2003: an object does not exist")] = (
        None
    )
    sqlstate: Annotated[str | None, Meta(description="SQLSTATE of the error")] = None
    message: Annotated[str | None, Meta(description="message of the error")] = None
    rowcount: Annotated[int | None, Meta(description="number of rows that the last statement returned or changed")] = (
        None
    )
    query_id: Annotated[str | None, Meta(description="id of the last statement, as in the query history")] = None


class SnowflakeTool(Tool):
    """Runs SQL on Snowflake. Every `{{ }}` becomes a bound value, never part of the SQL text.

    `auth` names a credential with the fields `account`, `user`, and `password`, `private_key` (PEM) or `token`
    (OAuth); it may also have `role`, `warehouse`, `database` and `schema`. A stored secret is a JSON mapping of them.
    `output.data` is a list of rows. A `command` returns the rows of the last statement that returns rows. Values of
    VARIANT, OBJECT and ARRAY columns are JSON; a list or mapping is bound as JSON text, for PARSE_JSON.
    """

    kind = "snowflake"
    failures = ("snowflake",)
    ignores = ("timeout.read",)
    Input = SnowflakeInput
    Spec = SnowflakeSpec
    one_of = (("query", "command"),)
    defaults = {"timeout": 300}
    output = "snowflake"
    OutputPart = SnowflakePart
    example = """\
kind: snowflake
auth: warehouse
query: SELECT id, name FROM customers WHERE city = {{ workload.city }}
"""

    def __init__(self, connect: Callable[..., Any] | None = None) -> None:
        """`connect`: in place of the function of Snowflake's driver."""
        self._connect = connect
        self._threads: StoppableThreads | None = None

    async def run(self, input: SnowflakeInput, call: Call) -> Output:
        from noetl.tools.errors import ToolError
        from noetl.tools.sql.threads import StoppableThreads
        from noetl_snowflake.session import SnowflakeSession, connect_options

        if call.auth is None:
            return failed("input", "`auth` is required: the name of a credential for Snowflake")
        connect = self._connect or _driver()
        if connect is None:
            hint = "pip install './plugins/snowflake[connector]' in the checkout of NoETL"
            return failed("tool", f"Snowflake's driver is not installed on this worker: {hint}")
        try:
            options = connect_options(_fields(call.auth), input, call)
            session = SnowflakeSession(lambda: connect(**options), input, call.spec)
        except msgspec.ValidationError as error:
            return failed("input", f"spec: {error}")
        except ToolError as error:
            return error.output()
        if self._threads is None:
            self._threads = StoppableThreads(THREADS, "snowflake")
        return await self._threads.run(session.run, session.stop)

    async def close(self) -> None:
        if self._threads is not None:
            threads, self._threads = self._threads, None
            threads.close()


def _driver() -> Callable[..., Any] | None:
    try:
        from snowflake import connector
    except ImportError:
        return None
    made: Callable[..., Any] = connector.connect
    return made


def _fields(auth: Auth) -> dict[str, str]:
    """The fields of the credential; a single value is a JSON mapping of them."""
    fields = {name: secret.reveal() for name, secret in auth.values.items()}
    single = fields.pop("", None)
    if single is not None:
        try:
            fields |= {str(name): str(value) for name, value in dict(msgspec.json.decode(single)).items()}
        except (msgspec.DecodeError, TypeError, ValueError):
            return {}
    return fields
