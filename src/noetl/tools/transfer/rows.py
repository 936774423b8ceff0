"""The rows of a transfer between its two sides: the columns that pass, and their number."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol, TypeAlias

from noetl.output import JSON, Output
from noetl.tools.errors import InvalidInput

Batches: TypeAlias = AsyncIterator[list[dict[str, JSON]]]


class SourceRows(NamedTuple):
    """The rows of an open source."""

    columns: list[str]
    batches: AsyncIterator[list[JSON]]
    complete: bool  # True: each row has each column; False: rows are objects, which may lack some


class TransferSide(Protocol):
    def failure(self, error: Exception) -> Output: ...


class TransferReader(TransferSide, Protocol):
    def open(self) -> AbstractAsyncContextManager[SourceRows]:
        """Raises ToolError, and errors that `failure` explains."""
        ...


class Written(NamedTuple):
    ref: dict[str, JSON]
    size: int | None = None  # of an object, in bytes


class TransferWriter(TransferSide, Protocol):
    async def write(self, columns: list[str], batches: Batches) -> Written:
        """Write all rows or none: each is a mapping with exactly these columns, in this order."""
        ...


class ColumnMapping:
    """Renames and selects the columns of the rows, and counts them."""

    def __init__(
        self, rows: SourceRows, columns: Sequence[str] | dict[str, str] | None, key: Sequence[str] = ()
    ) -> None:
        """`key`: columns of the target that must not be null. Raises InvalidInput."""
        if columns is not None and not columns:
            raise InvalidInput("`columns` is empty")
        pairs = columns if isinstance(columns, dict) else {name: name for name in columns or rows.columns}
        if columns is not None and len(pairs) != len(columns):
            raise InvalidInput("`columns` names a column twice")
        for name in key:
            if name not in pairs:
                raise InvalidInput(f'`key` names the column "{name}", which is not written: {_listed(pairs)}')
        self.targets = list(pairs)
        self.count = 0
        self._sources = list(pairs.values())
        self._rows = rows
        # None: other columns are left out on purpose, or cannot occur.
        self._known = set(self._sources) if columns is None and not rows.complete else None
        self._unseen = set(self._sources) - set(rows.columns)
        self._key = [pairs[name] for name in key]
        if rows.complete and self._unseen:
            raise InvalidInput(_unknown(next(each for each in self._sources if each in self._unseen), rows.columns))

    async def batches(self) -> Batches:
        """Raises InvalidInput, also after the last batch."""
        targets, sources = self.targets, self._sources
        unchanged = self._rows.complete and targets == sources == self._rows.columns and not self._key
        async for batch in self._rows.batches:
            made: list[dict[str, JSON]] = []
            if unchanged:
                self.count += len(batch)
                if batch:
                    yield batch
                continue
            for row in batch:
                self.count += 1
                if type(row) is not dict:
                    raise InvalidInput(f"row {self.count:,} is not an object")
                self._check(row)
                made.append({target: row.get(source) for target, source in zip(targets, sources, strict=True)})
            if made:
                yield made
        if self._unseen and self.count:
            missing = next(each for each in self._sources if each in self._unseen)
            raise InvalidInput(f'no row of the source has the column "{missing}"')

    def _check(self, row: dict[str, JSON]) -> None:
        if self._unseen:
            self._unseen -= row.keys()
        if self._known is not None and not row.keys() <= self._known:
            extra = next(name for name in row if name not in self._known)
            message = f'row {self.count:,} has the key "{extra[:60]}", which the first row does not have'
            raise InvalidInput(f"{message}; name all columns in `columns`")
        for name in self._key:
            if row.get(name) is None:
                raise InvalidInput(f'row {self.count:,} has no value in the column "{name}" of the `key`')


def _unknown(name: str, known: Sequence[str]) -> str:
    return f'the source has no column "{name}"; it has: {_listed(known)}'


def _listed(names: Sequence[str] | dict[str, str]) -> str:
    return ", ".join(list(names)[:30])
