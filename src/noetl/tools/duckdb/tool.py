"""`duckdb`: analytical SQL inside the worker, over rows, files and references.

The work itself is done in duckdb_session, by a thread: here is what goes in, what comes out, and the end of a
call that is cancelled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from noetl.errors import NoetlError, Unavailable, install_hint
from noetl.output import JSON, Failure, Output, failed
from noetl.playbook.kinds import Sql
from noetl.tool import Call, Tool

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from noetl.tools.duckdb.session import Session

INTERRUPT_S = 0.02  # between two interrupts: one that comes before the statement has begun is lost


class DuckdbInput(Struct, kw_only=True):
    """SQL and its parameters."""

    query: Annotated[Sql | None, Meta(description="one statement, rows come back")] = None
    command: Annotated[Sql | None, Meta(description="one or more statements")] = None
    params: Annotated[
        list[JSON] | dict[str, JSON] | None,
        Meta(description="bound parameters: a list for `?` and `$1`, a mapping for `:name`"),
    ] = None
    tables: Annotated[
        dict[str, JSON] | None,
        Meta(
            description="tables by name: a Ref to JSON, lines of JSON, CSV or Parquet, or a list of rows",
            examples=['{orders: "{{ fetch.ref }}"}'],
        ),
    ] = None
    to: Annotated[
        Literal["parquet", "csv", "json"] | None,
        Meta(description="write the rows of `query` to a file; `output.ref` says where it is"),
    ] = None


class DuckdbSpec(Struct, kw_only=True):
    """Limits of the database, and what it may reach."""

    memory_mb: Annotated[int, Meta(ge=16, description="memory that DuckDB may use")] = 1024
    disk_mb: Annotated[
        int, Meta(ge=0, description="what the tables, the data that does not fit and a file may each take")
    ] = 4096
    threads: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="threads of one call; all cores without it")
    ] = None
    folders: Annotated[
        list[str] | None,
        Meta(description="folders that SQL may read and write, relative to the playbook's; none without it"),
    ] = None
    external_access: Annotated[
        bool, Meta(description="let SQL reach all files, the network and extensions, and change settings")
    ] = False


class DuckdbTool(Tool):
    """Runs SQL on a DuckDB of its own, in memory: it begins empty and is gone after the call.
    Decimals are numbers where these hold all their digits, else texts; so are `NaN` and `Infinity`. Instants
    are texts as RFC 3339 writes them, BLOBs `{base64: …}`, structs and maps mappings.
    """

    kind = "duckdb"
    Input = DuckdbInput
    Spec = DuckdbSpec
    one_of = (("query", "command"),)
    defaults = {"timeout": 300, "memory_mb": 1024}
    output = "duckdb"
    example = """\
kind: duckdb
query: SELECT city, sum(amount) AS total FROM orders GROUP BY city ORDER BY city
tables:
  orders: [{city: Bern, amount: 3}, {city: Bern, amount: 4}, {city: Uster, amount: 5}]
"""

    def __init__(self, threads: int | None = None) -> None:
        self._count = threads  # calls at once; None: as many as there are cores
        self._threads: ThreadPoolExecutor | None = None

    async def run(self, input: DuckdbInput, call: Call) -> Output:
        """Every call has a database, a thread and a folder of its own, and nothing stays of them."""
        output = await self._run(input, call)
        # Rules may ask for output.duckdb.rows, whatever went wrong.
        return output if output.own else replace(output, own={"duckdb": {"rows": None, "columns": None}})

    async def _run(self, input: DuckdbInput, call: Call) -> Output:
        try:
            from noetl.tools.duckdb.session import Session, Unfit, granted
            from noetl.tools.duckdb.tables import stage
        except ImportError:
            return failed("tool", f"DuckDB is not installed: {install_hint('duckdb')}")
        try:
            spec = msgspec.convert(call.spec, DuckdbSpec)
            spec = replace(spec, folders=granted(spec.folders or [], call.folder))
        except msgspec.ValidationError as error:
            return failed("input", f"spec: {error}")
        except Unfit as error:
            return failed("input", str(error))
        if input.to is not None and input.query is None:
            return failed("input", "`to` writes the rows of a `query`, and there is none")
        session = Session(input, spec)
        try:
            session.make_folder()
            await stage(input.tables or {}, session, call)
            await self._in_thread(session)
            return await _output(session, call)
        except Unfit as error:
            return failed(error.kind, str(error))
        except NoetlError as error:
            return failed("reference", str(error), retryable=isinstance(error, Unavailable))
        except OSError as error:
            return failed("duckdb", f"no space to work in: {error.strerror}", retryable=True)
        finally:
            session.clear()

    async def _in_thread(self, session: Session) -> None:
        """Until the thread is done with it, also when we are cancelled: nothing is taken from under it."""
        import asyncio

        work = asyncio.get_running_loop().run_in_executor(self._pool(), session.work)
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            session.stop()
            while not work.cancel() and not work.done():
                try:
                    await asyncio.wait((work,), timeout=INTERRUPT_S)
                except asyncio.CancelledError:
                    continue  # Whoever is in a hurry still can not have the thread back before it ends.
                finally:
                    session.stop()
            if not work.cancelled():
                work.exception()  # It was interrupted; nobody asks how.
            raise

    def _pool(self) -> ThreadPoolExecutor:
        if self._threads is None:
            import os
            from concurrent.futures import ThreadPoolExecutor

            self._threads = ThreadPoolExecutor(
                self._count or os.cpu_count() or 1, thread_name_prefix="duckdb"
            )
        return self._threads

    async def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None


async def _output(session: Session, call: Call) -> Output:
    """What the thread found; a file goes to the result store."""
    from noetl.tools.duckdb.tables import CONTENT_TYPES, chunks

    found = session.found
    own: dict[str, JSON] = {"duckdb": {"rows": found.rows, "columns": found.columns}}
    if found.error is not None:
        return Output(status="error", error=found.error)
    if found.file is None:
        return Output(data=found.data, own=own)
    size = found.file.stat().st_size
    if size > session.disk_bytes:
        message = f"the file has {size:,} bytes (the limit is spec.disk_mb)"
        return Output(status="error", error=Failure(kind="payload-too-large", message=message), own=own)
    content_type = CONTENT_TYPES[found.file.suffix.removeprefix(".")]
    ref = await call.results.write(call.execution_id, chunks(found.file), content_type)
    return Output(ref=ref, own=own)
