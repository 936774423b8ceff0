"""CSV as rows: the reader gives back what the writer has written, wherever the chunks end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.output import JSON
from noetl.tools.errors import InvalidInput
from noetl.tools.sql.formats import csv_lines
from noetl.tools.transfer.csv_reader import CsvReader
from tests.sizes import examples


def read(body: bytes, sizes: list[int]) -> list[JSON]:
    async def chunks() -> AsyncIterator[bytes]:
        start = 0
        for size in sizes:
            yield body[start : start + size]
            start += size
        yield body[start:]

    async def work() -> list[JSON]:
        return [row async for batch in CsvReader().rows(chunks()) for row in batch]

    return asyncio.run(work())


texts = st.one_of(st.none(), st.text(alphabet=st.sampled_from(list('a",\n\rü ')), max_size=6))


@settings(max_examples=examples(300))
@given(st.lists(st.tuples(texts, texts, texts), max_size=8), st.lists(st.integers(1, 7), max_size=30))
def test_written_rows_are_read_again(rows: list[tuple[str | None, ...]], sizes: list[int]) -> None:
    body = csv_lines([["a", "b", "c"], *rows])
    assert read(body, sizes) == [dict(zip("abc", row, strict=True)) for row in rows]


@pytest.mark.parametrize("sizes", [[], [1] * 40])
@pytest.mark.parametrize(
    ("body", "rows"),
    [
        (b"a,b\r\n1,\r\n\r\n,2", [{"a": "1", "b": None}, {"a": None, "b": "2"}]),
        (b'\xef\xbb\xbfa\n\n""\nx\n', [{"a": None}, {"a": ""}, {"a": "x"}]),
        (b"a,a\n1,2\n", [{"a": "1", "a_2": "2"}]),
        (b"a,b\n", []),
        (b"", []),
    ],
)
def test_other_programs_write_csv_too(body: bytes, rows: list[JSON], sizes: list[int]) -> None:
    assert read(body, sizes) == rows


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"a,b\n1\n", "record 2 of the CSV has 1 fields, but the header has 2"),
        (b'a,b\n1,"x\n', "record 2 of the CSV has a quote at the wrong place"),
        (b'a\nx"y\n', "record 2 of the CSV has a quote at the wrong place"),
        (b'a\n"x"y\n', "record 2 of the CSV has a quote at the wrong place"),
        (b"a\n\xff\n", "the CSV is not valid UTF-8 after record 0"),
    ],
)
def test_damaged_csv_is_an_error(body: bytes, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read(body, [])
