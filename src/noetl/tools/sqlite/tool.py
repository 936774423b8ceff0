"""`sqlite`: SQL on a file of SQLite, values bound and never pasted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from noetl.output import JSON, Output, failed
from noetl.playbook.kinds import Sql
from noetl.tool import Call, Tool

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

THREADS_MAX = 8  # databases that are worked on at one time


class SqliteInput(Struct, kw_only=True):
    """A file, SQL and its parameters."""

    path: Annotated[
        str, Meta(description="the file, relative to the playbook; `:memory:` lives for one call")
    ]
    query: Annotated[Sql | None, Meta(description="one statement, rows come back")] = None
    command: Annotated[Sql | None, Meta(description="one or more statements, in one transaction")] = None
    params: Annotated[
        list[JSON] | dict[str, JSON] | None,
        Meta(description="values for `?` (a list) or `:name` (a mapping); `{{ }}` needs none"),
    ] = None


class SqliteSpec(Struct, kw_only=True):
    """Limits of a call."""

    attach: Annotated[bool, Meta(description="let SQL open other files with ATTACH")] = False
    max_rows: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="more rows than that are an error")
    ] = None


class SqliteTool(Tool):
    """Runs SQL on a file of SQLite. Every `{{ }}` in it is bound, never pasted into the text.

    `output.data` is a list of objects; of a `command`, the rows of the last statement that gives some.
    """

    kind = "sqlite"
    Input = SqliteInput
    Spec = SqliteSpec
    one_of = (("query", "command"),)
    defaults = {"timeout": 60, "attach": False}
    output = "sqlite"
    example = """\
kind: sqlite
path: ":memory:"
query: SELECT 3 + 4 AS n
"""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None

    async def run(self, input: SqliteInput, call: Call) -> Output:
        output = await self._run(input, call)
        # Rules may ask for output.sqlite.code, whatever went wrong.
        return output if output.own else replace(output, own={"sqlite": {"code": None, "rowcount": None}})

    async def _run(self, input: SqliteInput, call: Call) -> Output:
        import asyncio

        from noetl.tools.sql_text import BadSql, one_statement, statements
        from noetl.tools.sqlite.call import File, Work

        try:
            if input.query is not None:
                found = [one_statement(input.query, input.params, style="?")]
            elif input.command is not None:
                found = statements(input.command, input.params, style="?")
            else:
                return failed("input", "`query` or `command` must be given")
            file = File(_path(input.path, call.folder), input.path)
        except (BadSql, _OutOfPlace) as error:
            return failed("input", str(error))
        limit = call.spec.get("max_rows")
        work = Work(file, found, attach=call.spec.get("attach") is True, max_rows=limit)
        if self._threads is None:
            from concurrent.futures import ThreadPoolExecutor

            self._threads = ThreadPoolExecutor(THREADS_MAX, "sqlite")
        working = asyncio.get_running_loop().run_in_executor(self._threads, work.run)
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            work.stop()
            await asyncio.wait([working])  # what it has begun is rolled back before anyone goes on
            raise

    async def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False)
            self._threads = None


class _OutOfPlace(Exception):
    """The path can not be used; the message is for the author."""


def _path(path: str, folder: str | None) -> str:
    from pathlib import Path

    if path == ":memory:":
        return path
    if not path or "\0" in path:
        raise _OutOfPlace("`path` is no name of a file")
    if Path(path).is_absolute():
        return path
    if folder is None:
        raise _OutOfPlace(f'path "{path}" is relative to the playbook, and this one came from no file')
    whole = Path(folder) / path
    if not whole.resolve().is_relative_to(Path(folder).resolve()):
        raise _OutOfPlace(f'path "{path}" lies outside the folder of the playbook; give its full path')
    return str(whole)
