"""`sqlite`: SQL on a SQLite file, with bound values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from noetl.output import JSON, Output, failed
from noetl.tool import Call, Tool
from noetl.tools.errors import InvalidInput
from noetl.tools.sql import CommandField, MaxRowsField, QueryField
from noetl.tools.sql.stored import Stored, StoredField, count_statement, rows_in, stored_ref

if TYPE_CHECKING:
    from noetl.tools.sql.threads import StoppableThreads

THREADS_MAX = 8  # calls at the same time


class SqliteInput(Struct, kw_only=True):
    """A database file, SQL and its parameters."""

    path: Annotated[
        str,
        Meta(
            description="database file, relative to the playbook; it is created if it does not exist. "
            "`:memory:` is a database that exists during one call"
        ),
    ]
    query: QueryField = None
    command: CommandField = None
    params: Annotated[
        list[JSON] | dict[str, JSON] | None,
        Meta(description="values for `?` (a list) or `:name` (a mapping) in the SQL; not needed for `{{ }}`"),
    ] = None
    stored: StoredField = None


class SqliteSpec(Struct, kw_only=True):
    """Limits of a call."""

    attach: Annotated[bool, Meta(description="allow SQL to open other files with ATTACH")] = False
    max_rows: MaxRowsField = None


class SqlitePart(Struct, kw_only=True):
    """The answer of the database."""

    code: Annotated[
        str | None, Meta(description="result code of the error, for example `SQLITE_CONSTRAINT_UNIQUE`")
    ] = None
    message: Annotated[str | None, Meta(description="message of the error")] = None
    rowcount: Annotated[int | None, Meta(description="number of rows that the last statement returned or changed")] = (
        None
    )


class SqliteTool(Tool):
    """Runs SQL on a SQLite file. Every `{{ }}` becomes a bound value, never part of the SQL text.

    `output.data` is a list of objects, one for each row. A `command` returns the rows of the last statement
    that returns rows. With `stored`, `output.ref` is a Ref to rows in the file, which `resolve` fetches.
    """

    kind = "sqlite"
    failures = ("sqlite",)
    ignores = ("auth", "timeout.connect", "timeout.read")
    Input = SqliteInput
    Spec = SqliteSpec
    one_of = (("query", "command"),)
    defaults = {"timeout": 60, "attach": False}
    output = "sqlite"
    OutputPart = SqlitePart
    example = """\
kind: sqlite
path: ":memory:"
query: SELECT 3 + 4 AS n
"""

    def __init__(self) -> None:
        self._threads: StoppableThreads | None = None

    async def run(self, input: SqliteInput, call: Call) -> Output:
        from noetl.tools.sql.statements import RowLimit, parse_statement, parse_statements, refuse_transactions
        from noetl.tools.sqlite.session import DatabaseFile, SqliteSession

        try:
            if input.query is not None:
                statements = [parse_statement(input.query, input.params, style="?")]
            elif input.command is not None:
                statements = parse_statements(input.command, input.params, style="?")
            else:
                return failed("input", "`query` or `command` is required")
            for statement in statements:
                refuse_transactions(statement)
            file = DatabaseFile(database_path(input.path, call.folder), input.path)
            ref = None if input.stored is None else _ref(input.stored, file.path)
        except InvalidInput as error:
            return error.output()
        counts = ref is not None and input.stored is not None and input.stored.count
        session = SqliteSession(
            file,
            statements,
            attach=call.spec.get("attach") is True,
            limit=RowLimit(call.spec),
            count=count_statement(rows_in(ref["locator"])) if ref is not None and counts else None,
        )
        if self._threads is None:
            from noetl.tools.sql.threads import StoppableThreads

            self._threads = StoppableThreads(THREADS_MAX, "sqlite")
        output = await self._threads.run(session.run, session.stop)
        if input.stored is None or output.status == "error":
            return output
        ref = _ref(input.stored, file.path, session.counted)
        return replace(output, data={"rows": output.own["sqlite"]["rowcount"]}, ref=ref)

    async def close(self) -> None:
        if self._threads is not None:
            self._threads.close()
            self._threads = None


def _ref(stored: Stored, path: str, count: int | None = None) -> dict[str, JSON]:
    """Raises InvalidInput."""
    if path == ":memory:":
        raise InvalidInput("`stored` needs a file: `:memory:` exists during one call only")
    return stored_ref(stored, {"system": "sqlite", "path": path}, count=count)


def database_path(path: str, folder: str | None) -> str:
    """Raises InvalidInput."""
    from noetl.tools.paths import path_inside

    if path == ":memory:":
        return path
    if not path:
        raise InvalidInput("`path` is empty")
    return str(path_inside("`path`", path, folder))
