"""CSV as a stream of rows: an empty field without quotes is null, every other value is text.

The reader of the standard library does not tell an empty field from an empty text.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import AsyncIterator
from typing import Final

from noetl.output import JSON
from noetl.tools.errors import InvalidInput
from noetl.tools.sql.statements import unique_names

RECORD_CHARS_MAX: Final = 16 * 1024 * 1024
_FIELD: Final = re.compile(r'(?:"((?:[^"]|"")*+)"|([^",\r\n]*+))(,|\r\n|\n|\r|\Z)')


class CsvReader:
    """`rows` yields one list for each chunk that was read. The first record has the names of the columns."""

    def __init__(self) -> None:
        self.columns: list[str] = []
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text = ""
        self._records = 0

    async def rows(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[list[JSON]]:
        """Raises InvalidInput."""
        async for chunk in chunks:
            yield self._take(chunk, last=False)
        yield self._take(b"", last=True)

    def _take(self, chunk: bytes, *, last: bool) -> list[JSON]:
        try:
            self._text += self._decoder.decode(chunk, last)
        except UnicodeDecodeError:
            raise InvalidInput(f"the CSV is not valid UTF-8 after record {self._records:,}") from None
        made: list[JSON] = []
        start = 0
        while (found := self._record(start, last=last)) is not None:
            record, start = found
            self._records += 1
            if record == [None] and len(self.columns) != 1:
                continue  # an empty line
            if not self.columns:
                self.columns = unique_names("" if name is None else name for name in record)
                continue
            if len(record) != len(self.columns):
                message = f"record {self._records:,} of the CSV has {len(record)} fields"
                raise InvalidInput(f"{message}, but the header has {len(self.columns)}")
            made.append(dict(zip(self.columns, record, strict=True)))
        self._text = self._text[start:]
        if len(self._text) > RECORD_CHARS_MAX:
            raise InvalidInput(f"record {self._records + 1:,} of the CSV is too long (limit {RECORD_CHARS_MAX:,})")
        return made

    def _record(self, start: int, *, last: bool) -> tuple[list[str | None], int] | None:
        """The record that begins at `start`, and where it ends; None: the text has no complete record."""
        text, end = self._text, len(self._text)
        if start == end:
            return None
        record: list[str | None] = []
        while True:
            found = _FIELD.match(text, start)
            if found is None:
                # The end of a quoted text may be in the next chunk, unless there is a quote where none may be.
                if last or not _is_open(text, start):
                    raise InvalidInput(f"record {self._records + 1:,} of the CSV has a quote at the wrong place")
                return None
            quoted, plain, mark = found.groups()
            start = found.end()
            if not last and start == end and mark != "\n":
                return None  # more of the field, or the second half of \r\n, may follow
            record.append(quoted.replace('""', '"') if quoted is not None else plain or None)
            if mark != ",":
                return record, start


def _is_open(text: str, start: int) -> bool:
    """Whether a quoted field begins here and does not end in this text."""
    return text[start] == '"' and (text.count('"', start) % 2 == 1 or text.endswith('"'))
