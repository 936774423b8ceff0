"""`resolve` for Refs to the author's own systems: rows of a database, or an object, with the credential of the Ref."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

import msgspec

from noetl.errors import NoetlError, Unavailable
from noetl.output import JSON, Output, failed
from noetl.tool import Auth, Call
from noetl.tools.errors import InvalidInput, TooLarge, ToolError, store_failure
from noetl.tools.jsonpath import find
from noetl.tools.sql.formats import CONTENT_TYPES, encoded
from noetl.tools.sql.rows import OpenRows
from noetl.tools.sql.stored import RowRange, keychain_entry, rows_in, rows_statement
from noetl.tools.systems import OBJECT_STORES, Systems

if TYPE_CHECKING:
    from noetl.tools.resolve import ResolveInput

ROWS_BYTES_MAX: Final = 64 * 1024 * 1024  # of rows that are returned as data, as JSON
ROWS_MAX: Final = 2**62  # a number that every database accepts
_encode = msgspec.json.Encoder().encode


class SystemReader:
    """Resolves Refs whose locator names a system."""

    def __init__(self, *, allow_private: bool, allow: Sequence[str]) -> None:
        self._systems = Systems(allow_private=allow_private, allow=allow)

    async def resolve(self, ref: dict[str, JSON], input: ResolveInput, call: Call) -> Output:
        if ref not in call.refs:
            # Otherwise data from outside could choose what is read with the credential of the playbook (D99).
            message = "a Ref to another system must be `output.ref`, or the value of a name that ends in _ref"
            return failed("reference", f"`ref` is data that looks like a Ref: {message}")
        seconds = _seconds(call.spec)
        try:
            async with asyncio.timeout(seconds):
                try:
                    auth = await _credential(ref, call)
                except NoetlError as error:
                    return failed("credential", str(error), retryable=isinstance(error, Unavailable))
                if ref["locator"]["system"] in OBJECT_STORES:
                    return await self._object(ref, input, call, auth)
                return await self._rows(ref, input, call, auth)
        except TimeoutError:
            return failed("timeout", f"the data took longer than the timeout of {seconds:g} s", retryable=True)

    async def _object(self, ref: dict[str, JSON], input: ResolveInput, call: Call, auth: Auth | None) -> Output:
        from noetl.tools.resolve import selected

        payload = await self._systems.payload(ref["locator"], auth)
        if input.to is None:
            return Output(data=await selected(payload, ref, input))
        if input.to != "file":
            raise InvalidInput(f"`to: {input.to}` is for rows of a database; an object needs `to: file`")
        content_type = str((ref.get("meta") or {}).get("content_type", "application/octet-stream"))
        return Output(ref=await call.results.write(call.execution_id, payload.read(ref), content_type))

    async def _rows(self, ref: dict[str, JSON], input: ResolveInput, call: Call, auth: Auth | None) -> Output:
        where = ref["locator"]
        if input.to == "file":
            raise InvalidInput("`to: file` is for objects; rows of a database need `to: ndjson` or `to: csv`")
        source = self._systems.rows(where, auth, call)
        statement = rows_statement(rows_in(where), _range(input), input.columns)
        try:
            async with source.open(statement) as rows:
                if input.to is not None:
                    return await _store(rows, input, call)
                data: JSON = await _read(rows)
        except ToolError:
            raise
        except NoetlError as error:
            return store_failure(error)
        except Exception as error:  # noqa: BLE001  # the driver of the database raises errors of its own
            return source.failure(error)
        return Output(data=data if input.path is None else find(input.path, data))

    async def close(self) -> None:
        await self._systems.close()


async def _credential(ref: dict[str, JSON], call: Call) -> Auth | None:
    name = keychain_entry(ref)
    return None if name is None else await call.credential(name)


async def _read(rows: OpenRows) -> list[dict[str, JSON]]:
    """Raises TooLarge."""
    data: list[dict[str, JSON]] = []
    size = 0
    async for batch in rows.batches:
        size += len(_encode(batch))
        if size > ROWS_BYTES_MAX:
            limit = f"limit ROWS_BYTES_MAX: {ROWS_BYTES_MAX:,} bytes"
            raise TooLarge(f"the rows are too large for `output.data` ({limit}); use `limit`, `slice`, or `to: ndjson`")
        data += batch
    return data


async def _store(rows: OpenRows, input: ResolveInput, call: Call) -> Output:
    assert input.to in ("ndjson", "csv")
    if input.path is not None:
        raise InvalidInput("`path` selects a part of `output.data`, and `to` writes the rows to the result store")
    count = 0

    async def counted() -> AsyncIterator[list[dict[str, JSON]]]:
        nonlocal count
        async for batch in rows.batches:
            count += len(batch)
            call.progress(count, None)
            yield batch

    async with aclosing(encoded(counted(), rows.columns, input.to)) as chunks:
        ref = await call.results.write(call.execution_id, chunks, CONTENT_TYPES[input.to])
    return Output(data={"rows": count}, ref={**ref, "meta": {**ref["meta"], "count": count}})


def _range(input: ResolveInput) -> RowRange:
    """The rows that `slice` and `limit` select. Raises InvalidInput."""
    from noetl.tools.resolve import slice_bounds

    first, last = (None, None) if input.slice is None else slice_bounds(input.slice)
    if (first or 0) < 0 or (last or 0) < 0:
        raise InvalidInput("`slice` of rows in a database needs numbers of at least 0: the number of rows is not known")
    counts = [] if last is None else [max(0, last - (first or 0))]
    counts += [] if input.limit is None else [input.limit]
    limit = min(counts, default=None)
    return RowRange(min(first or 0, ROWS_MAX), None if limit is None else min(limit, ROWS_MAX))


def _seconds(spec: dict[str, JSON]) -> float | None:
    timeout = spec.get("timeout")
    if isinstance(timeout, dict):
        timeout = timeout.get("total")
    return float(timeout) if isinstance(timeout, int | float) and timeout > 0 else None
