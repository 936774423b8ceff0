"""`duckdb`: analytical SQL inside the worker, on rows, files and Refs.

DuckDB itself runs in a thread (session.py). This module has the fields, the output and the cancellation.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from noetl.errors import NoetlError
from noetl.output import JSON, Output, failed
from noetl.playbook.kinds import Sql
from noetl.tool import Call, Tool
from noetl.tools.errors import InvalidInput, TooLarge, ToolError, not_installed, store_failure
from noetl.tools.sql import QueryField
from noetl.tools.sql.stored import Stored, StoredField, stored_ref

if TYPE_CHECKING:
    from noetl.tools.duckdb.session import DuckdbResult, DuckdbSession
    from noetl.tools.sql.threads import StoppableThreads


class DuckdbInput(Struct, kw_only=True):
    """SQL and its parameters."""

    query: QueryField = None
    command: Annotated[Sql | None, Meta(description="one or more SQL statements")] = None
    params: Annotated[
        list[JSON] | dict[str, JSON] | None,
        Meta(description="values for `?` and `$1` (a list) or `:name` (a mapping) in the SQL; not needed for `{{ }}`"),
    ] = None
    tables: Annotated[
        dict[str, JSON] | None,
        Meta(
            description="tables for the SQL, by name; each is a list of rows, or a Ref of a JSON, NDJSON, "
            "CSV or Parquet file",
            examples=['{orders: "{{ fetch.ref }}"}'],
        ),
    ] = None
    database: Annotated[
        str | None,
        Meta(
            description="DuckDB file for the tables that the SQL creates, relative to the playbook; it is created if "
            "it does not exist; default: the tables exist during one call"
        ),
    ] = None
    stored: StoredField = None
    to: Annotated[
        Literal["parquet", "csv", "json"] | None,
        Meta(description="write the rows of `query` to a file of this format; `output.ref` is its Ref"),
    ] = None


class DuckdbSpec(Struct, kw_only=True):
    """Limits of the database, and its access to files."""

    memory_mb: Annotated[int, Meta(ge=16, description="memory that DuckDB may use, in MiB")] = 1024
    disk_mb: Annotated[
        int,
        Meta(
            ge=0,
            description="disk space in MiB, separately for the tables, for intermediate data that does not "
            "fit into memory, and for the file of `to`",
        ),
    ] = 4096
    threads: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="number of threads of one call; default: the number of CPU cores"),
    ] = None
    folders: Annotated[
        list[str] | None,
        Meta(description="directories that SQL may read and write, relative to the playbook; default: none"),
    ] = None
    external_access: Annotated[
        bool,
        Meta(description="allow SQL to access all files and the network, to load extensions and to change settings"),
    ] = False


class DuckdbPart(Struct, kw_only=True):
    """The size and the columns of the result."""

    rows: Annotated[int | None, Meta(description="number of rows that the last statement returned or changed")] = None
    columns: Annotated[list[str] | None, Meta(description="names of the columns of `query`")] = None


class DuckdbTool(Tool):
    """Runs SQL in DuckDB. Each call has its own in-memory database, which is empty at the start.

    With `database`, the SQL works on a file. One call at a time can use it: others wait for up to 10 seconds.
    With `stored`, `output.ref` is a Ref to rows in that file, which `resolve` fetches.

    `output.data` is a list of objects, one for each row. Decimals are numbers if these have all their digits,
    otherwise text. `NaN` and `Infinity` are text. Dates and times are RFC 3339 text, BLOBs are
    `{base64: …}`, and structs and maps are mappings.
    """

    kind = "duckdb"
    failures = ("duckdb",)
    ignores = ("auth", "timeout.connect", "timeout.read")
    Input = DuckdbInput
    Spec = DuckdbSpec
    one_of = (("query", "command"),)
    defaults = {"timeout": 300, "memory_mb": 1024}
    output = "duckdb"
    OutputPart = DuckdbPart
    example = """\
kind: duckdb
query: SELECT city, sum(amount) AS total FROM orders GROUP BY city ORDER BY city
tables:
  orders: [{city: Bern, amount: 3}, {city: Bern, amount: 4}, {city: Uster, amount: 5}]
"""

    def __init__(self, threads: int | None = None) -> None:
        self._count = threads  # calls at the same time; None: one for each CPU core
        self._threads: StoppableThreads | None = None

    async def run(self, input: DuckdbInput, call: Call) -> Output:
        """Every call has its own database, thread and directory, and leaves nothing behind."""
        try:
            from noetl.tools.duckdb.session import DuckdbSession
        except ImportError:
            return not_installed("DuckDB", "duckdb")
        try:
            spec = msgspec.convert(call.spec, DuckdbSpec)
            spec = replace(spec, folders=_absolute(spec.folders or [], call.folder))
        except msgspec.ValidationError as error:
            return failed("input", f"spec: {error}")
        except InvalidInput as error:
            return error.output()
        if input.to is not None and input.query is None:
            return failed("input", "`to` writes the rows of a `query`, but the task has no `query`")
        if input.stored is not None and (input.database is None or input.to is not None):
            return failed("input", "`stored` needs `database`, the file with the rows, and cannot be used with `to`")
        session = DuckdbSession(input, spec)
        session.mask = call.mask
        try:
            if input.database is not None:
                session.database = database_path(input.database, call.folder)
            if input.stored is not None:
                session.ref = _ref(input.stored, session.database)
            session.make_folder()
            await session.write_tables(input.tables or {}, call)
            result = await self._pool().run(session.run, session.stop)
            return await _output(session, result, call)
        except ToolError as error:
            return error.output()
        except NoetlError as error:
            return store_failure(error)
        except OSError as error:
            message = f"the worker cannot write temporary files: {error.strerror}"
            return failed("duckdb", message, retryable=True)
        finally:
            session.remove_folder()

    def _pool(self) -> StoppableThreads:
        if self._threads is None:
            from noetl.tools.sql.threads import StoppableThreads

            self._threads = StoppableThreads(self._count or os.cpu_count() or 1, "duckdb")
        return self._threads

    async def close(self) -> None:
        if self._threads is not None:
            self._threads.close()
            self._threads = None


def _ref(stored: Stored, path: str, count: int | None = None) -> dict[str, JSON]:
    """Raises InvalidInput."""
    return stored_ref(stored, {"system": "duckdb", "path": path}, count=count)


def database_path(path: str, folder: str | None) -> str:
    """Raises InvalidInput."""
    from noetl.tools.paths import path_inside

    if not path or path == ":memory:":
        raise InvalidInput("`database` must be the path of a file")
    return str(path_inside("`database`", path, folder))


def _absolute(folders: list[str], folder: str | None) -> list[str]:
    """Raises InvalidInput."""
    from noetl.tools.paths import absolute_path

    return [str(absolute_path("spec.folders:", each, folder)) for each in folders]


async def _output(session: DuckdbSession, result: DuckdbResult, call: Call) -> Output:
    """A file is copied to the result store."""
    from noetl.tools.duckdb.session import CONTENT_TYPES, read_chunks

    own: dict[str, JSON] = {"duckdb": {"rows": result.rows, "columns": result.columns}}
    if result.error is not None:
        return Output(status="error", error=result.error)
    if session.input.stored is not None:
        ref = _ref(session.input.stored, session.database, result.counted)
        return Output(data={"rows": result.rows}, ref=ref, own=own)
    if result.file is None:
        return Output(data=result.data, own=own)
    size = result.file.stat().st_size
    if size > session.disk_bytes:
        error = TooLarge(f"the file has {size:,} bytes, more than spec.disk_mb allows")
        return Output(status="error", error=error.failure(), own=own)
    content_type = CONTENT_TYPES[result.file.suffix.removeprefix(".")]
    ref = await call.results.write(call.execution_id, read_chunks(result.file), content_type)
    counted = {} if result.rows is None else {"count": result.rows}
    return Output(ref={**ref, "meta": {**ref["meta"], **counted}}, own=own)
