"""`resolve`: fetches the payload behind a Ref, as a whole or in part."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

from msgspec import Meta, Struct

from noetl.errors import NoetlError
from noetl.output import JSON, Output, failed
from noetl.tool import Call, Tool
from noetl.tools.errors import InvalidInput, ToolError, store_failure

if TYPE_CHECKING:
    from noetl.tools.system_reader import SystemReader

WHOLE_BYTES_MAX = 256 * 1024 * 1024  # of a payload that is fetched as a whole
LINE_BYTES_MAX = 64 * 1024 * 1024  # of one row of NDJSON
_SLICE = re.compile(r"\s*(-?\d{1,18})?\s*:\s*(-?\d{1,18})?\s*")


class ResolveInput(Struct, kw_only=True):
    """The Ref, and which part of its payload to fetch."""

    ref: Annotated[JSON, Meta(description="Ref of the payload, as in `output.ref`", examples=['"{{ ctx.rows_ref }}"'])]
    path: Annotated[str | None, Meta(description="JSONPath of the part to fetch", examples=["$.rows"])] = None
    slice: Annotated[
        str | list[int] | None,
        Meta(
            description="range of rows, `from:to`, as in Python: `to` is excluded, negative numbers count from the end"
        ),
    ] = None
    limit: Annotated[
        Annotated[int, Meta(ge=0)] | None, Meta(description="maximum number of rows; default: all of them")
    ] = None
    columns: Annotated[list[str] | None, Meta(description="columns to keep in each row; default: all of them")] = None
    to: Annotated[
        Literal["ndjson", "csv", "file"] | None,
        Meta(
            description="write rows of a database (`ndjson`, `csv`) or an object (`file`) to the result store, without "
            "holding them in memory; `output.ref` is the Ref"
        ),
    ] = None


class ResolveTool(Tool):
    """Fetches the payload behind a Ref, as a whole or in part. It also fetches the results of a loop.

    A Ref to rows in a database (see `stored` of `postgres`, `sqlite` and `duckdb`) or to an object (see
    `object`) is read with the keychain entry that its `auth_reference` names. For rows, `slice` and `limit`
    become part of the query. Rows of more than 64 MiB need `to`.
    """

    kind = "resolve"
    ignores = ("timeout.connect", "timeout.read", "retry")
    unjudged = "depth"
    Input = ResolveInput
    pure = True
    connects = True
    defaults = {"timeout": 60}
    example = """\
kind: resolve
ref: "{{ ctx.rows_ref }}"
slice: "0:100"
"""

    def __init__(self, *, allow_private: bool = True, allow: Sequence[str] = ()) -> None:
        """The fields of AddressPolicy (D88)."""
        self._policy = (allow_private, allow)
        self._reader: SystemReader | None = None

    async def run(self, input: ResolveInput, call: Call) -> Output:
        from noetl.tools.payload import InvalidJson, is_ref

        ref = input.ref
        if not is_ref(ref):
            return failed("input", "`ref` must be a Ref, the value of `output.ref` of an earlier task")
        try:
            if "system" in ref["locator"]:
                return await self._systems().resolve(ref, input, call)
            if input.to is not None:
                raise InvalidInput("`to` is for Refs to another system; this Ref names a stored result")
            data = await selected(call.results, ref, input)
        except ToolError as error:
            return error.output()
        except NoetlError as error:
            return store_failure(error)
        except InvalidJson as error:
            return failed("reference", f"the payload {error}")
        return Output(data=data)

    def _systems(self) -> SystemReader:
        if self._reader is None:
            from noetl.tools.system_reader import SystemReader

            allow_private, allow = self._policy
            self._reader = SystemReader(allow_private=allow_private, allow=allow)
        return self._reader

    async def close(self) -> None:
        if self._reader is not None:
            await self._reader.close()


class PayloadSource(Protocol):
    """A store that can be read."""

    async def get(self, ref: dict[str, JSON]) -> bytes: ...

    def read(self, ref: dict[str, JSON]) -> AsyncIterator[bytes]: ...


async def selected(results: PayloadSource, ref: dict[str, JSON], input: ResolveInput) -> JSON:
    """The payload, or the part that the fields select. Raises ToolError, InvalidJson and the errors of the store."""
    from noetl.tools.jsonpath import find

    data, sliced = await _fetch(results, ref, input)
    if input.path is not None:
        data = find(input.path, data)
    if input.slice is not None and not sliced:
        data = _slice(data, input.slice)
    if input.limit is not None:
        data = _slice(data, [0, input.limit], "limit")
    return data if input.columns is None else _select_columns(data, input.columns)


async def _fetch(results: PayloadSource, ref: dict[str, JSON], input: ResolveInput) -> tuple[JSON, bool]:
    """The payload, or only the rows of `slice` if they can be read without the rest; True: only the rows.

    Raises InvalidInput, InvalidJson and the errors of the store.
    """
    from noetl.paging import SliceableStore, is_ndjson

    meta = ref.get("meta", {})
    if input.slice is not None and input.path is None:
        first, last = slice_bounds(input.slice)
        if isinstance(results, SliceableStore) and (rows := await results.part(ref, first, last)) is not None:
            return rows, True
        if is_ndjson(str(meta.get("content_type"))):
            return await _read_rows(results, ref, (first, last)), True
    size = meta.get("unpacked_bytes", meta.get("bytes", 0))
    if isinstance(size, int) and size > WHOLE_BYTES_MAX:
        raise InvalidInput(
            f"the payload has {size:,} bytes (limit WHOLE_BYTES_MAX: {WHOLE_BYTES_MAX:,}); fetch a `slice` "
            "of its rows, or pass the Ref to a tool that reads files"
        )
    if is_ndjson(str(meta.get("content_type"))):
        return await _read_rows(results, ref, (None, None)), False
    return await _decode(await results.get(ref), ref), False


async def _read_rows(results: PayloadSource, ref: dict[str, JSON], bounds: tuple[int | None, int | None]) -> JSON:
    """Rows of NDJSON. All lines are read, because only that detects damage; only the slice is kept."""
    from noetl.paging import lines
    from noetl.tools.payload import InvalidJson, decode_json

    first, last = bounds
    from_end = (first or 0) < 0 or (last or 0) < 0
    begin, end = (0, None) if from_end else (first or 0, last)
    kept: list[bytes] = []
    count = 0
    try:
        async for line in lines(results.read(ref), LINE_BYTES_MAX):
            if begin <= count and (end is None or count < end):
                kept.append(line)
            count += 1
    except ValueError as error:
        raise InvalidJson(f"cannot be read as rows: {error}") from error
    return [decode_json(line) for line in (kept[first:last] if from_end else kept)]


async def _decode(body: bytes, ref: dict[str, JSON]) -> JSON:
    """JSON or text, by the content type of the Ref; other bytes become {"base64": …}."""
    from noetl.tools.payload import decode_large_json, is_json, text_or_base64

    if is_json(str(ref.get("meta", {}).get("content_type", "application/json"))):
        return await decode_large_json(body)
    return text_or_base64(body)


def _slice(data: JSON, bounds: str | list[int], field: str = "slice") -> JSON:
    if not isinstance(data, list):
        raise InvalidInput(f"`{field}` needs a list of rows, and the value is not a list; select one with `path`")
    first, last = slice_bounds(bounds)
    return data[first:last]


def slice_bounds(bounds: str | list[int]) -> tuple[int | None, int | None]:
    """Raises InvalidInput."""
    if isinstance(bounds, str):
        match = _SLICE.fullmatch(bounds)
        if match is None:
            raise InvalidInput(f'`slice` must be "from:to", for example "0:100", not "{bounds}"')
        first, last = (None if each is None else int(each) for each in match.groups())
        return first, last
    if len(bounds) != 2:
        raise InvalidInput(f"`slice` must have two numbers, from and to, not {len(bounds)}")
    return bounds[0], bounds[1]


def _select_columns(data: JSON, columns: list[str]) -> JSON:
    """Rows with only these columns. A column that no row has is treated as a typing error."""
    rows = data if isinstance(data, list) else [data]
    wrong = next((index for index, row in enumerate(rows) if not isinstance(row, dict)), None)
    if wrong is not None:
        raise InvalidInput(f"`columns` needs rows that are mappings, and row {wrong} is not a mapping")
    for column in columns:
        if rows and not any(column in row for row in rows):
            known = ", ".join(list(rows[0])[:8])
            raise InvalidInput(f'no row has a column "{column}"; the columns of the first row are: {known}')
    selected = [{column: row[column] for column in columns if column in row} for row in rows]
    return selected if isinstance(data, list) else selected[0]
