"""`resolve`: fetches the payload behind a reference, the whole or a part of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from noetl.errors import NoetlError, Unavailable
from noetl.output import JSON, REF_FIELDS, Output, failed
from noetl.tool import Call, Tool

if TYPE_CHECKING:
    from noetl.ports import ResultStore

WHOLE_BYTES_MAX = 256 * 1024 * 1024  # of a payload that comes whole
LINE_BYTES_MAX = 64 * 1024 * 1024  # of one row of NDJSON
_SLICE = re.compile(r"\s*(-?\d{1,18})?\s*:\s*(-?\d{1,18})?\s*")


class ResolveInput(Struct, kw_only=True):
    """Which reference, and how much of it."""

    ref: Annotated[JSON, Meta(description="a Ref", examples=['"{{ ctx.rows_ref }}"'])]
    path: Annotated[str | None, Meta(description="a JSONPath into the payload")] = None
    slice: Annotated[str | list[int] | None, Meta(description="`from:to` of a list of rows")] = None
    columns: Annotated[list[str] | None, Meta(description="only these columns of rows")] = None


class Unfit(Exception):
    """A field does not fit the payload; the message is for the author."""


class ResolveTool(Tool):
    """Fetches what a Ref points at, whole or in part, also the results of a loop."""

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
        from noetl.tools.json_values import NotPlain
        from noetl.tools.jsonpath import PathError, find

        ref = input.ref
        if not is_ref(ref):
            return failed(
                "input", "`ref` takes a Ref, a mapping with type, locator and meta, as output.ref is"
            )
        try:
            data, sliced = await _fetched(call.results, ref, input)
        except Unfit as error:
            return failed("input", str(error))
        except Unavailable as error:
            return failed("reference", str(error), retryable=True)
        except NoetlError as error:
            return failed("reference", str(error))
        except NotPlain as error:
            return failed("reference", f"the payload {error}")
        try:
            if input.path is not None:
                data = find(input.path, data)
            if input.slice is not None and not sliced:
                data = _sliced(data, input.slice)
            if input.columns is not None:
                data = _cut(data, input.columns)
        except (PathError, Unfit) as error:
            return failed("input", str(error))
        return Output(data=data)

    async def close(self) -> None:
        """It holds nothing."""


def is_ref(value: JSON) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("type"), str)
        and isinstance(value.get("locator"), dict)
        and isinstance(value.get("meta", {}), dict)
        and value.keys() <= set(REF_FIELDS)
    )


async def _fetched(results: ResultStore, ref: dict[str, JSON], input: ResolveInput) -> tuple[JSON, bool]:
    """What lies there, or only the rows that are asked for where it can be had by rows; and which of both.

    Raises Unfit or NotPlain, and what a store raises.
    """
    from noetl.paging import SliceableStore, is_ndjson

    meta = ref.get("meta", {})
    if input.slice is not None and input.path is None:
        first, last = _bounds(input.slice)
        if isinstance(results, SliceableStore) and (rows := await results.part(ref, first, last)) is not None:
            return rows, True
        if is_ndjson(str(meta.get("content_type"))):
            return await _rows(results, ref, (first, last)), True
    size = meta.get("unpacked_bytes", meta.get("bytes", 0))
    if isinstance(size, int) and size > WHOLE_BYTES_MAX:
        raise Unfit(
            f"the payload has {size:,} bytes, and the limit is {WHOLE_BYTES_MAX:,} (WHOLE_BYTES_MAX): take a "
            "`slice` of rows, or hand the Ref to a tool that reads files"
        )
    if is_ndjson(str(meta.get("content_type"))):
        return await _rows(results, ref, (None, None)), False
    return _payload(await results.get(ref), ref), False


async def _rows(results: ResultStore, ref: dict[str, JSON], wanted: tuple[int | None, int | None]) -> JSON:
    """Rows of NDJSON, read to its end so that damage is seen, held only as far as they are asked for."""
    from noetl.paging import lines
    from noetl.tools.json_values import NotPlain, parsed

    first, last = wanted
    from_end = (first or 0) < 0 or (last or 0) < 0
    begin, end = (0, None) if from_end else (first or 0, last)
    found: list[bytes] = []
    count = 0
    try:
        async for line in lines(results.read(ref), LINE_BYTES_MAX):
            if begin <= count and (end is None or count < end):
                found.append(line)
            count += 1
    except ValueError as error:
        raise NotPlain(f"can not be read by rows: {error}") from error
    return [parsed(line) for line in (found[first:last] if from_end else found)]


def _payload(body: bytes, ref: dict[str, JSON]) -> JSON:
    """JSON and text by the content type on the Ref; what is neither comes as {"base64": …}."""
    from noetl.tools.json_values import is_json, parsed, text_or_base64

    if is_json(str(ref.get("meta", {}).get("content_type", "application/json"))):
        return parsed(body)
    return text_or_base64(body)


def _sliced(data: JSON, wanted: str | list[int]) -> JSON:
    """As Python slices: from the first up to and without the second, negative ones from the end."""
    if not isinstance(data, list):
        raise Unfit("`slice` takes rows of a list, and what is there is none; `path` may lead to one")
    first, last = _bounds(wanted)
    return data[first:last]


def _bounds(wanted: str | list[int]) -> tuple[int | None, int | None]:
    """Raises Unfit."""
    if isinstance(wanted, str):
        found = _SLICE.fullmatch(wanted)
        if found is None:
            raise Unfit(f'`slice` takes "from:to", as in "0:100", and not "{wanted}"')
        first, last = (None if each is None else int(each) for each in found.groups())
        return first, last
    if len(wanted) != 2:
        raise Unfit(f"`slice` takes two numbers, from and to, and not {len(wanted)}")
    return wanted[0], wanted[1]


def _cut(data: JSON, columns: list[str]) -> JSON:
    """Rows with nothing in them but these columns. One that no row has is taken for a slip of the pen."""
    rows = data if isinstance(data, list) else [data]
    odd = next((place for place, row in enumerate(rows) if not isinstance(row, dict)), None)
    if odd is not None:
        raise Unfit(f"`columns` takes rows that are mappings, and row {odd} is none")
    for column in columns:
        if rows and not any(column in row for row in rows):
            known = ", ".join(list(rows[0])[:8])
            raise Unfit(f'no row has a column "{column}"; the first one has {known}')
    cut = [{column: row[column] for column in columns if column in row} for row in rows]
    return cut if isinstance(data, list) else cut[0]
