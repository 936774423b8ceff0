"""`resolve` fetches the payload of a Ref, or the selected part of it (D83)."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from noetl.adapters.memory import MemoryResults
from noetl.errors import Unavailable
from noetl.output import JSON, Output, failed
from noetl.tools.resolve import WHOLE_BYTES_MAX, ResolveInput, ResolveTool
from tests.unit.tools.calls import call

ROWS = [{"id": number, "name": f"n{number}", "more": {"x": number}} for number in range(5)]


class Unreachable(MemoryResults):
    """A store that does not answer."""

    async def get(self, ref: dict[str, JSON]) -> bytes:
        raise Unavailable(f"no answer for {ref['type']}")


def resolved(
    body: bytes,
    path: str | None = None,
    part: str | list[int] | None = None,
    columns: list[str] | None = None,
    content_type: str = "application/json",
) -> Output:
    async def go() -> Output:
        results = MemoryResults()
        ref = await results.put("e1", body, content_type)
        input = ResolveInput(ref=ref, path=path, slice=part, columns=columns)
        return await ResolveTool().run(input, call(results=results))

    return asyncio.run(go())


def rows(path: str | None = None, part: str | list[int] | None = None, columns: list[str] | None = None) -> Output:
    return resolved(msgspec.json.encode({"rows": ROWS}), path, part, columns)


def test_the_default_is_the_whole_payload_d83() -> None:
    assert rows() == Output(data={"rows": ROWS})


@pytest.mark.parametrize(
    ("part", "numbers"),
    [
        ("1:3", [1, 2]),
        (":2", [0, 1]),
        ("-1:", [4]),
        (" 3 : ", [3, 4]),
        ([1, 3], [1, 2]),
        ([-2, 100], [3, 4]),
        ("9:", []),
    ],
)
def test_a_slice_selects_rows_as_in_python(part: str | list[int], numbers: list[int]) -> None:
    data = rows("$.rows", part).data
    assert [row["id"] for row in data] == numbers


def test_columns_removes_all_other_columns() -> None:
    assert rows("$.rows", "0:2", ["name", "id"]).data == [{"name": "n0", "id": 0}, {"name": "n1", "id": 1}]


def test_columns_of_one_row() -> None:
    assert rows("$.rows[2]", None, ["id"]).data == {"id": 2}


def test_a_column_missing_in_some_rows_is_omitted_there() -> None:
    assert resolved(b'[{"a":1},{"b":2}]', columns=["a"]).data == [{"a": 1}, {}]


@pytest.mark.parametrize(
    ("path", "part", "columns", "message"),
    [
        ("$.x", None, None, "path \"$.x\": $ has no key 'x'; its keys are: rows"),
        (
            None,
            "0:2",
            None,
            "`slice` needs a list of rows, and the value is not a list; select one with `path`",
        ),
        ("$.rows", "0-2", None, '`slice` must be "from:to", for example "0:100", not "0-2"'),
        ("$.rows", [1, 2, 3], None, "`slice` must have two numbers, from and to, not 3"),
        (
            "$.rows",
            None,
            ["nme"],
            'no row has a column "nme"; the columns of the first row are: id, name, more',
        ),
        ("$.rows[*].id", None, ["id"], "`columns` needs rows that are mappings, and row 0 is not a mapping"),
    ],
)
def test_a_missing_part_is_an_error_of_kind_input(
    path: str | None, part: str | list[int] | None, columns: list[str] | None, message: str
) -> None:
    assert rows(path, part, columns) == failed("input", message)


@pytest.mark.parametrize("ref", [None, "text", [], {}, {"type": "blob"}, {"type": "blob", "locator": {}, "other": 1}])
def test_a_value_that_is_not_a_ref_is_an_error_of_kind_input(ref: JSON) -> None:
    output = asyncio.run(ResolveTool().run(ResolveInput(ref=ref), call()))
    assert output.error is not None
    assert output.error.kind == "input"
    assert output.error.message.startswith("`ref` must be a Ref")


def test_a_missing_payload_is_an_error_of_kind_reference() -> None:
    ref = {"type": "blob", "locator": {"key": "e1/gone"}, "meta": {}}
    output = asyncio.run(ResolveTool().run(ResolveInput(ref=ref), call()))
    assert output == failed("reference", "no result e1/gone")


def test_an_unreachable_store_is_retryable() -> None:
    ref = {"type": "blob", "locator": {}, "meta": {}}
    output = asyncio.run(ResolveTool().run(ResolveInput(ref=ref), call(results=Unreachable())))
    assert output == failed("reference", "no answer for blob", retryable=True)


def test_text_is_returned_as_text_and_other_bytes_as_base64() -> None:
    assert resolved(b"a,b\n1,2", content_type="text/csv").data == "a,b\n1,2"
    assert resolved(b"\xff\x00", content_type="image/png").data == {"base64": "/wA="}


def test_a_payload_with_invalid_json_is_an_error() -> None:
    output = resolved(b"{oops")
    assert output.error is not None
    assert (output.error.kind, output.error.message[:31]) == ("reference", "the payload is not valid JSON: ")


NDJSON = b"".join(b'{"id":%d}\n' % number for number in range(1000)) + b"\n"


@pytest.mark.parametrize(
    ("part", "numbers"),
    [
        (None, list(range(1000))),
        ("2:5", [2, 3, 4]),
        (":2", [0, 1]),
        ("-2:", [998, 999]),
        ("998:-1", [998]),
        ("5000:", []),
    ],
)
def test_ndjson_is_read_line_by_line(part: str | None, numbers: list[int]) -> None:
    data = resolved(NDJSON, None, part, content_type="application/x-ndjson").data
    assert [row["id"] for row in data] == numbers


def test_a_damaged_row_outside_the_slice_is_detected() -> None:
    async def go() -> Output:
        results = MemoryResults()
        ref = await results.put("e1", NDJSON, "application/x-ndjson")
        key = ref["locator"]["key"]
        body, at = results.bodies[key]
        results.bodies[key] = body.replace(b"999", b"998"), at
        return await ResolveTool().run(ResolveInput(ref=ref, slice="0:2"), call(results=results))

    output = asyncio.run(go())
    assert output.error is not None
    assert output.error.kind == "reference"
    assert "has changed since it was stored" in output.error.message


def test_a_row_with_invalid_json_is_an_error() -> None:
    output = resolved(b"{}\nnone\n", None, "0:9", content_type="application/x-ndjson")
    assert output.error is not None
    assert output.error.kind == "reference"


def test_a_payload_above_the_limit_is_refused_before_it_is_read() -> None:
    ref = {
        "type": "blob",
        "locator": {"key": f"e1/{'0' * 64}"},
        "meta": {"bytes": WHOLE_BYTES_MAX + 1, "sha256": "0" * 64},
    }
    output = asyncio.run(ResolveTool().run(ResolveInput(ref=ref), call()))
    assert output.error is not None
    assert output.error.kind == "input"
    assert "WHOLE_BYTES_MAX" in output.error.message
