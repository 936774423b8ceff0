"""How rows are written to a table, the same for all databases."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Literal, NamedTuple

import msgspec

from noetl.output import JSON
from noetl.tools.sql.stored import quoted_column


class TableWrite(NamedTuple):
    table: str
    mode: Literal["append", "replace", "upsert"]
    key: tuple[str, ...] = ()  # of `upsert`


def json_value(value: JSON) -> JSON:
    """Text of an object or a list as this object or list, for example from CSV; any other value is unchanged."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        with suppress(msgspec.DecodeError, RecursionError):
            return msgspec.json.decode(value)
    return value


def on_conflict(write: TableWrite, columns: Sequence[str]) -> str:
    """The end of an INSERT statement; "": the mode is not `upsert`."""
    if write.mode != "upsert":
        return ""
    key = ", ".join(map(quoted_column, write.key))
    others = [quoted_column(name) for name in columns if name not in write.key]
    action = f"UPDATE SET {', '.join(f'{name} = EXCLUDED.{name}' for name in others)}" if others else "NOTHING"
    return f" ON CONFLICT ({key}) DO {action}"
