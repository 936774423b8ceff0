"""`resolve`: fetches the payload behind a reference, the whole or a part of it."""

from __future__ import annotations

import re
from typing import Annotated

from msgspec import Meta, Struct

from noetl.errors import NoetlError, Unavailable
from noetl.output import JSON, REF_FIELDS, Output, failed
from noetl.tool import Call, Tool

_SLICE = re.compile(r"\s*(-?\d{1,18})?\s*:\s*(-?\d{1,18})?\s*")


class ResolveInput(Struct, kw_only=True):
    """Which reference, and how much of it."""

    ref: Annotated[JSON, Meta(description="a Ref", examples=['"{{ ctx.rows_ref }}"'])]
    path: Annotated[str | None, Meta(description="a JSONPath into the payload")] = None
    slice: Annotated[str | list[int] | None, Meta(description="`from:to` of a list of rows")] = None
    columns: Annotated[list[str] | None, Meta(description="only these columns of rows")] = None


class Unfit(Exception):
    """A field does not fit the payload; the message is for the author."""


class Resolve(Tool):
    """Fetches what a Ref points at, whole or in part, also the results of a loop."""

    kind = "resolve"
    decoded = True
    Input = ResolveInput
    pure = True
    defaults = {"timeout": 60}

    async def run(self, input: ResolveInput, call: Call) -> Output:
        from noetl.tools.jsonpath import PathError, find
        from noetl.tools.plain import NotPlain

        ref = input.ref
        if not is_ref(ref):
            return failed(
                "input", "`ref` takes a Ref, a mapping with type, locator and meta, as output.ref is"
            )
        try:
            data = _payload(await call.results.get(ref), ref)
        except Unavailable as error:
            return failed("reference", str(error), retryable=True)
        except NoetlError as error:
            return failed("reference", str(error))
        except NotPlain as error:
            return failed("reference", f"the payload {error}")
        try:
            if input.path is not None:
                data = find(input.path, data)
            if input.slice is not None:
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


def _payload(body: bytes, ref: dict[str, JSON]) -> JSON:
    """JSON and text by the content type on the Ref; what is neither comes as {"base64": …}."""
    from noetl.tools.plain import is_json, parsed, text_or_base64

    if is_json(str(ref.get("meta", {}).get("content_type", "application/json"))):
        return parsed(body)
    return text_or_base64(body)


def _sliced(data: JSON, wanted: str | list[int]) -> JSON:
    """As Python slices: from the first up to and without the second, negative ones from the end."""
    if not isinstance(data, list):
        raise Unfit("`slice` takes rows of a list, and what is there is none; `path` may lead to one")
    if isinstance(wanted, str):
        found = _SLICE.fullmatch(wanted)
        if found is None:
            raise Unfit(f'`slice` takes "from:to", as in "0:100", and not "{wanted}"')
        first, last = (None if each is None else int(each) for each in found.groups())
        return data[first:last]
    if len(wanted) != 2:
        raise Unfit(f"`slice` takes two numbers, from and to, and not {len(wanted)}")
    return data[wanted[0] : wanted[1]]


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
