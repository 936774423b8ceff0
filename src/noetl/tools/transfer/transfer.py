"""One transfer: both sides are opened, and the rows of one are written to the other."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from noetl.errors import NoetlError, Unavailable
from noetl.output import JSON, Failure, Output, failed
from noetl.tool import Auth, Call
from noetl.tools.errors import InvalidInput, ToolError
from noetl.tools.systems import NotInstalled, Systems
from noetl.tools.transfer.rows import Batches, ColumnMapping, TransferReader, TransferSide, TransferWriter, Written
from noetl.tools.transfer.sources import DatabaseSource, ObjectSource, format_of
from noetl.tools.transfer.targets.table import TableWrite
from noetl.tools.transfer.tool import TransferInput, TransferSource, TransferTarget

if TYPE_CHECKING:
    from noetl.tools.object.stores import ObjectUrl

SideName = Literal["source", "target"]


class CredentialMissing(ToolError):
    """The keychain entry of a side has no value."""

    kind = "credential"

    def __init__(self, error: NoetlError) -> None:
        super().__init__(str(error))
        self._retryable = isinstance(error, Unavailable)

    def output(self) -> Output:
        return failed(self.kind, str(self), retryable=self._retryable)


class TransferRunner:
    """The transfers of one worker, which share its connections."""

    def __init__(self, *, allow_private: bool, allow: Sequence[str]) -> None:
        self._systems = Systems(allow_private=allow_private, allow=allow)

    async def run(self, input: TransferInput, call: Call) -> Output:
        try:
            key = _key(input)
        except InvalidInput as error:
            return error.output()
        side: SideName = "source"
        try:
            reader = await self._reader(input.source, call)
            side = "target"
            writer = await self._writer(input, call)
        except ImportError as error:
            return _failed(NotInstalled.of(error).output(), side)
        except ToolError as error:
            return _failed(error.output(), side)
        return await _Transfer(reader, writer, call).run(input, key)

    async def _reader(self, source: TransferSource, call: Call) -> TransferReader:
        """Raises ToolError and ImportError."""
        _refuse_fields(source, ("path", "query", "table"))
        auth = await _auth(source.auth, call)
        if source.kind != "object":
            return DatabaseSource(source, self._systems, auth, call)
        url = _url(source, call)
        return ObjectSource(url, format_of(url.path, source.format), self._systems, auth, source.endpoint)

    async def _writer(self, input: TransferInput, call: Call) -> TransferWriter:
        """Raises ToolError and ImportError."""
        target = input.target
        _refuse_fields(target, ("path", "table"))
        auth = await _auth(target.auth, call)
        if target.kind == "object":
            return self._object(input, auth, call)
        if target.table is None:
            raise InvalidInput("`table` is required")
        write = TableWrite(target.table, input.mode or "append", tuple(input.key or ()))
        if target.kind == "postgres":
            from noetl.tools.transfer.targets.postgres import PostgresTarget

            database = self._systems.postgres(auth, call)
            assert auth is not None
            return PostgresTarget(database, write, auth, call)
        path = _database_path(target, call)
        if input.source.kind == target.kind and os.path.realpath(_database_path(input.source, call)) == path:
            message = f"both sides are the same file; use a task of kind `{target.kind}` with INSERT … SELECT"
            raise InvalidInput(message)
        if target.kind == "sqlite":
            from noetl.tools.sqlite.session import DatabaseFile
            from noetl.tools.transfer.targets.sqlite import SqliteTarget

            return SqliteTarget(DatabaseFile(path, target.path or ""), write, self._systems.threads())
        from noetl.tools.transfer.targets.duckdb import DuckdbTarget

        return DuckdbTarget(path, write, self._systems.threads())

    def _object(self, input: TransferInput, auth: Auth | None, call: Call) -> TransferWriter:
        from noetl.tools.object.stores import Access
        from noetl.tools.transfer.targets.object import ObjectTarget

        if input.mode not in (None, "replace"):
            raise InvalidInput(f"`mode: {input.mode}` is for tables; a file or object is always replaced")
        url = _url(input.target, call)
        form = input.target.format or format_of(url.path, None)
        if form == "json":
            raise InvalidInput("a JSON list cannot be written in a stream; use `format: ndjson`")
        return ObjectTarget(url, form, self._systems, Access(auth, input.target.endpoint))

    async def close(self) -> None:
        await self._systems.close()


class _Transfer:
    """One call. An error of the source can reach us through the target, which was reading from it."""

    def __init__(self, reader: TransferReader, writer: TransferWriter, call: Call) -> None:
        self._reader = reader
        self._writer = writer
        self._call = call
        self._read_error: Exception | None = None

    async def run(self, input: TransferInput, key: Sequence[str]) -> Output:
        writing = False
        try:
            async with self._reader.open() as rows:
                mapping = ColumnMapping(rows, input.columns, key)
                if not mapping.targets:
                    raise InvalidInput("the source has no columns: name them in `columns`")
                writing = True
                written = await self._writer.write(mapping.targets, self._read(mapping))
                writing = False
        except Exception as error:  # noqa: BLE001  # the drivers raise errors of their own
            if self._read_error is not None or not writing:
                return _failed(_failure(self._reader, self._read_error or error), "source")
            return _failed(_failure(self._writer, error), "target")
        return _output(mapping, written)

    async def _read(self, mapping: ColumnMapping) -> Batches:
        try:
            async for batch in mapping.batches():
                self._call.progress(mapping.count, None)
                yield batch
        except Exception as error:
            self._read_error = error
            raise


def _output(mapping: ColumnMapping, written: Written) -> Output:
    part = {"rows": mapping.count, "columns": mapping.targets, "bytes": written.size, "side": None}
    return Output(data={"rows": mapping.count}, ref=written.ref, own={"transfer": part})


def _failure(side: TransferSide, error: Exception) -> Output:
    return error.output() if isinstance(error, ToolError) else side.failure(error)


def _failed(output: Output, side: SideName) -> Output:
    """The same failure, with the side in its message and in the tool's own part."""
    error = output.error or Failure(kind="transfer", message="unknown error")
    part: dict[str, JSON] = {"rows": None, "columns": None, "bytes": None, "side": side}
    named = replace(error, message=f"{side}: {error.message}")
    return Output(status="error", error=named, own={"transfer": part})


def _key(input: TransferInput) -> list[str]:
    """Raises InvalidInput."""
    if input.mode == "upsert" and not input.key:
        raise InvalidInput("`mode: upsert` needs `key`, the columns that identify a row")
    if input.mode != "upsert" and input.key is not None:
        raise InvalidInput("`key` is for `mode: upsert`")
    return input.key or []


def _refuse_fields(side: TransferSource | TransferTarget, of_databases: Sequence[str]) -> None:
    """Fields of the other kind would have no effect. Raises InvalidInput."""
    wrong = of_databases if side.kind == "object" else ("url", "format", "endpoint")
    if side.kind == "postgres":
        wrong = ("path", *wrong)
    elif side.kind != "object":
        wrong = ("auth", *wrong)
    given = next((name for name in wrong if getattr(side, name) is not None), None)
    if given is not None:
        raise InvalidInput(f"`{given}` has no effect on kind `{side.kind}`")


async def _auth(name: str | None, call: Call) -> Auth | None:
    """Raises CredentialMissing."""
    try:
        return None if name is None else await call.credential(name)
    except NoetlError as error:
        raise CredentialMissing(error) from error


def _url(side: TransferSource | TransferTarget, call: Call) -> ObjectUrl:
    from noetl.tools.object.stores import parse_url

    if side.url is None:
        raise InvalidInput("`url` is required")
    return parse_url("`url`", side.url, call.folder)


def _database_path(side: TransferSource | TransferTarget, call: Call) -> str:
    """Raises InvalidInput."""
    from noetl.tools.paths import path_inside

    if not side.path or side.path == ":memory:":
        raise InvalidInput("`path`, the database file, is required")
    return os.path.realpath(path_inside("`path`", side.path, call.folder))
