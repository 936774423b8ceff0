"""`resolve`: fetches the payload behind a Ref, as a whole or in part."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from noetl.errors import NoetlError
from noetl.output import JSON, Output, failed
from noetl.tool import Call, Tool
from noetl.tools.errors import InvalidInput, store_failure

if TYPE_CHECKING:
    from noetl.ports import ResultStore

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
    columns: Annotated[list[str] | None, Meta(description="columns to keep in each row; default: all of them")] = None


class ResolveTool(Tool):
    """Fetches the payload behind a Ref, as a whole or in part. It also fetches the results of a loop."""

    kind = "resolve"
    unjudged = "depth"
    Input = ResolveInput
    pure = True
    defaults = {"timeout": 60}
    example = """\
kind: resolve
ref: "{{ ctx.rows_ref }}"
slice: "0:100"
"""

    async def run(self, input: ResolveInput, call: Call) -> Output:
        from noetl.tools.jsonpath import find
        from noetl.tools.payload import InvalidJson, is_ref

        ref = input.ref
        if not is_ref(ref):
            return failed("input", "`ref` must be a Ref, the value of `output.ref` of an earlier task")
        try:
            data, sliced = await _fetch(call.results, ref, input)
            if input.path is not None:
                data = find(input.path, data)
            if input.slice is not None and not sliced:
                data = _slice(data, input.slice)
            if input.columns is not None:
                data = _select_columns(data, input.columns)
        except InvalidInput as error:
            return error.output()
        except NoetlError as error:
            return store_failure(error)
        except InvalidJson as error:
            return failed("reference", f"the payload {error}")
        return Output(data=data)

    async def close(self) -> None:
        """Nothing to release."""


async def _fetch(results: ResultStore, ref: dict[str, JSON], input: ResolveInput) -> tuple[JSON, bool]:
    """The payload, or only the rows of `slice` if they can be read without the rest; True: only the rows.

    Raises InvalidInput, InvalidJson and the errors of the store.
    """
    from noetl.paging import SliceableStore, is_ndjson

    meta = ref.get("meta", {})
    if input.slice is not None and input.path is None:
        first, last = _bounds(input.slice)
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
    return _decode(await results.get(ref), ref), False


async def _read_rows(results: ResultStore, ref: dict[str, JSON], bounds: tuple[int | None, int | None]) -> JSON:
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


def _decode(body: bytes, ref: dict[str, JSON]) -> JSON:
    """JSON or text, by the content type of the Ref; other bytes become {"base64": …}."""
    from noetl.tools.payload import decode_json, is_json, text_or_base64

    if is_json(str(ref.get("meta", {}).get("content_type", "application/json"))):
        return decode_json(body)
    return text_or_base64(body)


def _slice(data: JSON, bounds: str | list[int]) -> JSON:
    if not isinstance(data, list):
        raise InvalidInput("`slice` needs a list of rows, and the value is not a list; select one with `path`")
    first, last = _bounds(bounds)
    return data[first:last]


def _bounds(bounds: str | list[int]) -> tuple[int | None, int | None]:
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
