"""`transfer`: rows from one database, file or object to another, in batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from noetl.output import Output
from noetl.playbook.kinds import Fixed, Sql
from noetl.tool import Call, Tool

if TYPE_CHECKING:
    from noetl.tools.transfer.transfer import TransferRunner

SystemField: TypeAlias = Annotated[
    Literal["postgres", "sqlite", "duckdb", "object"],
    Meta(description="`postgres`, `sqlite`, `duckdb`, or `object`: an object in a store, or a file"),
]
AuthField: TypeAlias = Annotated[Fixed | None, Meta(description="keychain entry with the credentials of this side")]
PathField: TypeAlias = Annotated[str | None, Meta(description="for `sqlite` and `duckdb`: the database file")]
UrlField: TypeAlias = Annotated[
    str | None,
    Meta(
        description="for `object`: `s3://bucket/path`, `gs://bucket/path`, `az://container/path`, `file:///path`, or a "
        "path relative to the playbook"
    ),
]
EndpointField: TypeAlias = Annotated[str | None, Meta(description="for `object`: address of another service")]


class TransferSource(Struct, kw_only=True):
    """Where the rows come from."""

    kind: SystemField
    auth: AuthField = None
    path: PathField = None
    query: Annotated[Sql | None, Meta(description="for databases: a SELECT; every `{{ }}` is a bound value")] = None
    table: Annotated[str | None, Meta(description="for databases: a table, instead of `query`")] = None
    url: UrlField = None
    format: Annotated[
        Literal["csv", "ndjson", "json", "parquet"] | None,
        Meta(description="for `object`: the format; default: by the ending of the name"),
    ] = None
    endpoint: EndpointField = None


class TransferTarget(Struct, kw_only=True):
    """Where the rows go to. A table must exist; a file or object is created."""

    kind: SystemField
    auth: AuthField = None
    path: PathField = None
    table: Annotated[str | None, Meta(description="for databases: the table, for example `schema.table`")] = None
    url: UrlField = None
    format: Annotated[
        Literal["csv", "ndjson", "parquet"] | None,
        Meta(description="for `object`: the format; default: by the ending of the name"),
    ] = None
    endpoint: EndpointField = None


class TransferInput(Struct, kw_only=True):
    """Source, target, and how rows are written."""

    source: Annotated[TransferSource, Meta(description="where the rows come from")]
    target: Annotated[TransferTarget, Meta(description="where the rows go to")]
    mode: Annotated[
        Literal["append", "replace", "upsert"] | None,
        Meta(
            description="`append` adds rows, `replace` first deletes all rows of the table, `upsert` updates the rows "
            "that have the same `key` and adds the others; default: `append`; a file or object is always replaced"
        ),
    ] = None
    key: Annotated[
        list[str] | None,
        Meta(description="for `upsert`: the columns of the target that identify a row, which need a unique index"),
    ] = None
    columns: Annotated[
        list[str] | dict[str, str] | None,
        Meta(
            description="columns to transfer: a list of names, or a mapping from columns of the target to columns of "
            "the source; default: all columns, with the same names"
        ),
    ] = None


class TransferPart(Struct, kw_only=True):
    """What was transferred."""

    rows: Annotated[int | None, Meta(description="number of rows that were read and written")] = None
    columns: Annotated[list[str] | None, Meta(description="columns of the target that were written")] = None
    bytes: Annotated[int | None, Meta(description="size of the file or object that was written")] = None
    side: Annotated[
        Literal["source", "target"] | None, Meta(description="the side that failed, if the error belongs to one")
    ] = None


class TransferTool(Tool):
    """Copies rows from a database, file or object to another. Rows pass in batches, so memory stays small.

    Rows are written in one transaction, and a file or object appears when it is complete: a transfer that
    fails, is cancelled or loses its worker before the end changes nothing. It can then be repeated. If the
    worker or the connection is lost during the commit, or before the result is recorded, a repetition writes
    the same rows again: `replace`, `upsert` and objects end with the same content, `append` has the rows
    twice. With `upsert`, the last of several rows with the same key counts.

    Values pass as JSON, by the rules of the SQL tools; text becomes the type of the target column. A field
    of CSV that is empty and not quoted is null. `output.data` is `{rows}`, and `output.ref` is a Ref to the
    table or object. The message of an error begins with the side that failed, and its kind is that of
    the system: `postgres`, `sqlite`, `duckdb` or `object`.
    """

    kind = "transfer"
    connects = True
    ignores = ("auth",)
    failures = ("transfer", "postgres", "sqlite", "duckdb", "object")
    Input = TransferInput
    defaults = {"timeout": 3600}
    output = "transfer"
    OutputPart = TransferPart
    example = """\
kind: transfer
source: {kind: postgres, auth: warehouse, query: "SELECT id, name FROM customers WHERE city = {{ workload.city }}"}
target: {kind: object, url: "out/customers.parquet"}
"""

    def __init__(self, *, allow_private: bool = True, allow: Sequence[str] = ()) -> None:
        """The fields of AddressPolicy (D88)."""
        self._policy = (allow_private, tuple(allow))
        self._runner: TransferRunner | None = None

    async def run(self, input: TransferInput, call: Call) -> Output:
        if self._runner is None:
            from noetl.tools.transfer.transfer import TransferRunner

            allow_private, allow = self._policy
            self._runner = TransferRunner(allow_private=allow_private, allow=allow)
        return await self._runner.run(input, call)

    async def close(self) -> None:
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.close()
