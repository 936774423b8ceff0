"""Code that the SQL tools share: field types, statements with bound values, conversion of rows, threads."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta

from noetl.playbook.kinds import Sql

QueryField: TypeAlias = Annotated[Sql | None, Meta(description="one SQL statement; `output.data` is its rows")]
CommandField: TypeAlias = Annotated[
    Sql | None, Meta(description="one or more SQL statements, executed in one transaction")
]
MaxRowsField: TypeAlias = Annotated[
    Annotated[int, Meta(ge=1)] | None,
    Meta(description="maximum number of rows; if there are more, the task fails; default: no limit"),
]
